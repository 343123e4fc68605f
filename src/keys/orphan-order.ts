/**
 * In which order files go that no transaction names.
 *
 *   W-6  A power cut may come after any of the removals, and of those that are not synced it undoes any. A rebuild reads what is
 *        there then, so each step is durable before the next one begins:
 *        - Delete files go last: one that is alone stands for nothing, a Parquet file without its own is damage.
 *        - Of segments that were given up (`givenUpSteps`), what stands for others goes after those, and deletes after all that
 *          is older: else their rows are back. One that a live segment stands for may go at any time.
 *        - Of seals that were never committed (`uncommittedSteps`, and above the sealed sequence) the newest goes first: a rebuild takes the last segment for the
 *          end of all that is sealed, and the log's requests below it for sealed.
 */
import { join } from 'node:path'
import { Damaged } from '../errors.ts'
import { deleteFile, numberOfFile, segmentFile } from '../paths.ts'
import { type Disk, readFile } from '../util/disk.ts'
import type { ParseDeletes } from './folder-segments.ts'
import type { PoolState } from './protocol.ts'
import type { Footer } from './segment-files.ts'

/** Names of files that go together: they are synced before those of the next step go. */
type Steps = readonly (readonly string[])[]

/** The file of a segment that counts in a rebuild: the other one goes after all of these. */
function mainOf(segment: number, names: ReadonlySet<string>): string {
  const parquet = segmentFile(segment)
  return names.has(parquet) ? parquet : deleteFile(segment)
}

/** `mains` between what stands for nothing in a rebuild: other names before them, delete files behind. */
function around(names: ReadonlySet<string>, mains: Steps): Steps {
  const inside = new Set(mains.flat())
  const others = [...names].filter(name => !inside.has(name))
  const isDeletes = (name: string) => numberOfFile(name) !== undefined
  const first = others.filter(name => !isDeletes(name))
  // A step that removes nothing is a sync: an earlier life may have removed a Parquet file whose delete file is alone now.
  const needsSync =
    first.length > 0 || mains.flat().some(name => name === deleteFile(numberOfFile(name) ?? 0))
  const last = others.filter(isDeletes)
  return [...(needsSync ? [first] : []), ...mains, ...(last.length > 0 ? [last] : [])]
}

function segmentsOf(names: ReadonlySet<string>): number[] {
  return [...new Set([...names].map(numberOfFile).filter(number => number !== undefined))]
}

/** Of files in a pool's folder whose commit never came. */
export function uncommittedSteps(found: readonly string[]): Steps {
  const names = new Set(found)
  const newestFirst = segmentsOf(names).sort((a, b) => b - a)
  return around(
    names,
    newestFirst.map(segment => [mainOf(segment, names)]),
  )
}

export interface OrphanReader {
  readonly disk: Disk
  readonly parseDeletes: ParseDeletes
}

/**
 * Of files in a pool's folder that the index named once, or that a seal wrote whose commit failed while a merge with a higher
 * number committed. `state`: what it names for sure.
 */
export async function givenUpSteps(
  reader: OrphanReader,
  folder: string,
  found: readonly string[],
  state: PoolState | undefined,
): Promise<Steps> {
  const names = new Set(found)
  const segments = segmentsOf(names)
  // Where there is one, there is no order: what cannot be read stands for nothing, and what can has nothing to wait for.
  if (segments.length < 2) return around(names, segments.length === 0 ? [] : [[mainOf(segments[0]!, names)]])
  const [free, last]: [string[], string[]] = [[], []]
  const [uncommitted, bound]: [Footer[], Footer[]] = [[], []]
  for (const segment of segments) {
    const footer = await tryRead(reader, folder, mainOf(segment, names))
    if (footer === undefined) last.push(mainOf(segment, names))
    else if (footer.sequenceTo > (state?.sealedSequence ?? 0)) uncommitted.push(footer)
    else if (isCovered(footer, state)) free.push(mainOf(segment, names))
    else bound.push(footer)
  }
  const newestFirst = uncommitted.sort((a, b) => b.sequenceTo - a.sequenceTo)
  const steps = [...newestFirst.map(one => [one]), ...inOrder(bound)]
  const mains = [free, ...steps.map(step => step.map(one => mainOf(one.segment, names))), last]
  return around(
    names,
    mains.filter(step => step.length > 0),
  )
}

/** Does a live segment stand for it in a rebuild? */
function isCovered({ segment, sequenceFrom, sequenceTo }: Footer, state: PoolState | undefined): boolean {
  const live = state?.segments ?? []
  return live.some(
    one => one.segment > segment && one.sequenceFrom <= sequenceFrom && sequenceTo <= one.sequenceTo,
  )
}

/** What has no deletes and stands for nothing in its step needs no step of its own. */
function inOrder(segments: readonly Footer[]): Footer[][] {
  const steps: Footer[][] = []
  const sorted = [...segments].sort((a, b) => a.sequenceTo - b.sequenceTo || a.segment - b.segment)
  for (const one of sorted) {
    const step = steps.at(-1)
    const mustWait = one.deletes > 0 || step?.some(other => other.sequenceFrom >= one.sequenceFrom) !== false
    if (mustWait) steps.push([one])
    else step?.push(one)
  }
  return steps
}

/** undefined: a rebuild could not read it either. The Parquet reader is loaded when it is needed, as in too-old.ts. */
async function tryRead(
  { disk, parseDeletes }: OrphanReader,
  folder: string,
  name: string,
): Promise<Footer | undefined> {
  const file = join(folder, name)
  try {
    if (name === segmentFile(numberOfFile(name) ?? 0)) {
      const { readFooter } = await import('./segment-files.ts')
      return await readFooter(file)
    }
    const { footerOfDeletes } = await import('./folder-segments.ts')
    return footerOfDeletes(parseDeletes(readFile(disk, file), file))
  } catch (error) {
    if (error instanceof Damaged) return undefined
    throw error
  }
}
