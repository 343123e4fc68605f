/**
 * Files of a pool that no commit of the index names: a crash came before their commit, or the index is older than its
 * segments (it was put back from somewhere). The first kind is cleared, since the log makes the seal again (W-13) and a
 * merge's inputs are still there. Clearing the second kind would lose data without a word: such an index is rebuilt.
 *
 * It is older where such a file stands for a segment that the index names and that is gone, or holds a request above the
 * pool's sealed sequence that the log does not have. Read only where there are files numbered as the next ones would be;
 * where a named file is missing, all that are not named: a merge takes its number when it begins, and seals that are
 * committed meanwhile have higher ones.
 */
import { join } from 'node:path'
import { Damaged } from '../errors.ts'
import { deleteFile, numberOfFile } from '../paths.ts'
import { type Disk, readFile } from '../util/disk.ts'
import type { ParseDeletes } from './folder-segments.ts'
import type { PoolFolder } from './pool-folder.ts'
import type { PoolState } from './protocol.ts'
import type { HeldSequences } from './rebuild.ts'

interface JudgeOptions {
  readonly disk: Disk
  readonly parseDeletes: ParseDeletes
  readonly heldSequences: HeldSequences
  /** Of each pool that the catalog knows. */
  readonly poolFolders: readonly PoolFolder[]
}

/** `clear`: the files go. `keep`: the log is damaged, so nobody knows. Else: why the index must be rebuilt. */
type Verdict = 'clear' | 'keep' | { readonly rebuild: string }

/** A file's requests above the pool's sealed sequence. */
interface Unsealed {
  readonly pool: number
  readonly file: string
  readonly sequences: readonly number[]
}

/** What to do with files that no commit names. Reads files only where there are such. */
export async function judgeUncommitted(options: JudgeOptions): Promise<Verdict> {
  const { poolFolders, heldSequences } = options
  const unsealed: Unsealed[] = []
  for (const { state, folder, unnamed, missing } of poolFolders) {
    for (const name of strangers(unnamed, missing.length > 0 ? 1 : state.nextSegment)) {
      const file = join(folder, name)
      const found = await readUncommitted(options, file, name)
      const gone = missing.find(one => found.standsFor(state, numberOfFile(one) ?? 0))
      if (gone !== undefined)
        return { rebuild: `it is older than its segments: ${file} stands for ${gone}, which is gone` }
      const above = new Set(found.sequences.filter(sequence => sequence > state.sealedSequence))
      if (above.size > 0) unsealed.push({ pool: state.pool, file, sequences: [...above] })
    }
  }
  if (unsealed.length === 0) return 'clear'
  const held = heldSequences(new Set(unsealed.map(({ pool }) => pool)))
  if (held === undefined) return 'keep'
  for (const { pool, file, sequences } of unsealed) {
    const lost = sequences.find(sequence => held.get(pool)?.has(sequence) !== true)
    if (lost !== undefined)
      return { rebuild: `it is older than its segments: ${file} holds request ${lost}, the log does not` }
  }
  return 'clear'
}

/** Files of segments numbered from `from` on. */
function strangers(unnamed: readonly string[], from: number): string[] {
  return unnamed.filter(name => (numberOfFile(name) ?? 0) >= from)
}

interface Uncommitted {
  readonly sequences: ArrayLike<number> & { filter(keep: (sequence: number) => boolean): Iterable<number> }
  /** Do its rows stand for that segment of the pool? */
  standsFor(state: PoolState, segment: number): boolean
}

/** A file that cannot be read is no evidence: a rebuild could not read it either. */
async function readUncommitted(options: JudgeOptions, file: string, name: string): Promise<Uncommitted> {
  try {
    const { from, to, replaces, sequences } = await readFileOf(options, file, name)
    const standsFor = (state: PoolState, segment: number) => {
      const meta = state.segments.find(one => one.segment === segment)
      if (meta === undefined) return false
      return replaces.includes(segment) || (from <= meta.sequenceFrom && meta.sequenceTo <= to)
    }
    return { sequences, standsFor }
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    return { sequences: new Float64Array(0), standsFor: () => false }
  }
}

/** The Parquet reader is loaded when it is needed: it would cost every start a quarter of a second. */
async function readFileOf({ disk, parseDeletes }: JudgeOptions, file: string, name: string) {
  if (name === deleteFile(numberOfFile(name) ?? 0)) {
    const { sequenceFrom: from, sequenceTo: to, sequences } = parseDeletes(readFile(disk, file), file)
    return { from, to, replaces: [], sequences: Float64Array.from(sequences) }
  }
  const { readFooter } = await import('./segment-files.ts')
  const { readSequences } = await import('./segment-keys.ts')
  const { sequenceFrom: from, sequenceTo: to, replaces } = await readFooter(file)
  return { from, to, replaces, sequences: await readSequences(file) }
}
