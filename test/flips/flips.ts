/**
 * Single-bit flips over all kinds of files, and what came of each:
 *
 *   detected    an answer, the log or a command names damage, and no answer is wrong
 *   harmless    nothing names it, and all answers are right
 *   WRONG       an answer is wrong, and nothing has named damage before it
 *   LAUNDERED   a rewrite or a rebuild took it over: verify is clean, and an answer is wrong
 */
import { basename, dirname } from 'node:path'
import { below, type Random, randomFrom } from '../util/random.ts'
import { type Answer, filesIn, type Golden, type GoldenPool, makeGolden } from './golden.ts'
import { type Flip, runTrial, type Seen, type Way } from './trial.ts'

const OUTCOMES = ['detected', 'harmless', 'WRONG', 'LAUNDERED'] as const
type Outcome = (typeof OUTCOMES)[number]

/** Files that are flipped in one way, with their part of all flips. */
interface Kind {
  readonly name: string
  readonly way: Way
  readonly share: number
  /** Nothing is promised of these files, so a wrong answer is no failure (decision 0055). */
  readonly isUnpromised?: true
  takes(path: string): boolean
}

const KINDS: readonly Kind[] = [
  { name: 'pool', way: 'stopped', share: 34, takes: path => path.startsWith('segment/') },
  { name: 'pool', way: 'running', share: 34, takes: path => path.startsWith('segment/') },
  { name: 'log', way: 'stopped', share: 8, takes: path => path.startsWith('log/') },
  {
    name: 'index',
    way: 'stopped',
    share: 9,
    isUnpromised: true,
    takes: path => path === 'index/data.mdb',
  },
  { name: 'catalog', way: 'stopped', share: 8, takes: path => path === 'catalog/data.mdb' },
  {
    name: 'other files',
    way: 'stopped',
    share: 2,
    takes: path => ['admin.json', 'secret.key', 'FORMAT'].includes(path),
  },
  { name: 'backup', way: 'backup', share: 5, takes: () => true },
]

/** The kind of a flip for the table. */
function nameOf({ name, way }: Kind, { path, pool }: Flip): string {
  if (pool === undefined) return `${name}, ${way}`
  return `${path.endsWith('.deletes') ? 'delete file' : `segment of ${pool.name.replace(/\d/, '')}`}, ${way}`
}

export interface FlipRun {
  readonly counts: Map<string, Record<Outcome, number>>
  readonly failures: string[]
  /** Wrong answers after flips in files of which nothing is promised. */
  readonly unpromised: string[]
}

export class Flips {
  readonly #random: Random
  #golden!: Golden
  /** What a trial without a flip sees. */
  readonly #clean = new Map<'folder' | 'backup', Seen>()
  readonly run: FlipRun = { counts: new Map(), failures: [], unpromised: [] }

  constructor(seed: number) {
    this.#random = randomFrom(seed)
  }

  /** Makes the folder. */
  async open(): Promise<this> {
    this.#golden = await makeGolden()
    return this
  }

  /** The right answers. A trial without a flip gives them. */
  async #cleanOf(way: Way): Promise<Seen> {
    const from = way === 'backup' ? 'backup' : 'folder'
    const known = this.#clean.get(from)
    if (known !== undefined) return known
    const seen = await runTrial(this.#golden, from === 'backup' ? 'backup' : 'stopped', [])
    if (seen.ended !== undefined || seen.verified.some(code => code !== 0))
      throw new Error(`a folder without a flip: ${seen.ended}\n${seen.output}`)
    this.#clean.set(from, seen)
    return seen
  }

  /**
   * Makes about `wanted` flips of all kinds, or of those with this name. `onTrial` hears how many
   * were made.
   */
  async flip(wanted: number, onTrial: (flips: number) => void = () => {}, only?: string): Promise<FlipRun> {
    const kinds = KINDS.filter(({ name }) => only === undefined || name === only)
    const shares = kinds.reduce((sum, { share }) => sum + share, 0)
    let made = 0
    const left = new Map(kinds.map(kind => [kind, Math.max(1, Math.round((wanted * kind.share) / shares))]))
    for (const [kind, count] of left) {
      for (let done = 0; done < count; ) {
        const flips = this.#pick(kind, count - done)
        done += flips.length
        made += flips.length
        const rebuilds = kind.name === 'pool' || kind.name === 'index'
        const seen = await runTrial(this.#golden, kind.way, flips, rebuilds)
        const clean = await this.#cleanOf(kind.way)
        for (const flip of flips) this.#count(kind, flip, seen, clean)
        onTrial(made)
      }
    }
    return this.run
  }

  /**
   * One bit; of the files of pools one bit in each pool, because pools are independent. A pool has
   * more segments than delete files, which get as many flips.
   */
  #pick(kind: Kind, most: number): Flip[] {
    const { dataDir, backup, pools } = this.#golden
    const files = filesIn(kind.way === 'backup' ? backup : dataDir).filter(
      ({ path, bytes }) => bytes > 0 && kind.takes(path),
    )
    const oneOf = <T>(all: readonly T[]) => all[below(this.#random, all.length)]!
    const flipIn = ({ path, bytes }: (typeof files)[number], pool: GoldenPool | undefined): Flip => ({
      path,
      offset: below(this.#random, this.#usedBytes(path, bytes)),
      bit: below(this.#random, 8),
      pool,
    })
    if (kind.name !== 'pool') return [flipIn(oneOf(files), undefined)]
    return pools.slice(0, most).map(pool => {
      const own = files.filter(({ path }) => basename(dirname(path)) === pool.poolId)
      const deletes = own.filter(({ path }) => path.endsWith('.deletes'))
      const isDeletes = deletes.length > 0 && this.#random() < 0.3
      return flipIn(oneOf(isDeletes ? deletes : own.filter(one => !deletes.includes(one))), pool)
    })
  }

  /** Most of a log file is zeros that nothing reads. */
  #usedBytes(path: string, bytes: number): number {
    return path.startsWith('log/') && this.#random() < 0.8 ? Math.min(bytes, 128 << 10) : bytes
  }

  #count(kind: Kind, flip: Flip, seen: Seen, clean: Seen): void {
    const { outcome, why } = outcomeOf(kind.way, flip, seen, clean)
    const name = nameOf(kind, flip)
    const counts = this.run.counts.get(name) ?? { detected: 0, harmless: 0, WRONG: 0, LAUNDERED: 0 }
    counts[outcome] += 1
    this.run.counts.set(name, counts)
    if (outcome !== 'WRONG' && outcome !== 'LAUNDERED') return
    const into = kind.isUnpromised === true ? this.run.unpromised : this.run.failures
    into.push(`${outcome}: ${name}: bit ${flip.bit} of byte ${flip.offset} of ${flip.path}: ${why}`)
  }
}

function outcomeOf(
  way: Way,
  flip: Flip,
  seen: Seen,
  clean: Seen,
): { readonly outcome: Outcome; readonly why: string } {
  const pools = flip.pool === undefined ? [...(clean.answers[0]?.keys() ?? [])] : [flip.pool.name]
  const named = seen.output.includes(basename(flip.path))
  // A running server is verified after its stop alone.
  const verified = way === 'running' ? [0, ...seen.verified] : seen.verified
  let isNamed = (verified[0] ?? 0) !== 0 && named
  if (seen.catalog !== undefined && seen.catalog !== clean.catalog && !isNamed)
    return { outcome: 'WRONG', why: `the catalog: ${seen.catalog.slice(0, 300)}` }
  let error = seen.ended !== undefined || seen.output.includes('damaged')
  for (const [step, answers] of seen.answers.entries()) {
    if (step > 0) isNamed ||= pools.some(pool => seen.refused.has(pool))
    for (const pool of pools) {
      const answer = answers.get(pool)!
      if ('error' in answer) {
        error = true
        isNamed = true
        continue
      }
      const right = clean.answers[step]?.get(pool)
      const wrong = wrongRow(answer, right!, isNamed && step > 0)
      if (wrong === undefined) continue
      const isClean = step > 0 && verified[step] === 0
      return { outcome: isClean ? 'LAUNDERED' : 'WRONG', why: `export ${step} of ${pool}: ${wrong}` }
    }
  }
  const isDetected = error || isNamed || named || seen.verified.some(code => code !== 0)
  return { outcome: isDetected ? 'detected' : 'harmless', why: '' }
}

/** The first row that is not as it should be. After an error the job may have left rows alone. */
function wrongRow(
  { rows }: { readonly rows: ReadonlyMap<string, string> },
  right: Answer,
  hadError: boolean,
): string | undefined {
  if ('error' in right) throw new Error(`a pool without a flip answers ${right.error}`)
  const shown = (text = '') => (hadError ? text.replace(/"n":\d+/g, '') : text)
  for (const id of new Set([...right.rows.keys(), ...rows.keys()]))
    if (shown(right.rows.get(id)) !== shown(rows.get(id)))
      return `${id} is ${rows.get(id)}, not ${right.rows.get(id)}`
  return undefined
}

/** The table of a run, a line for each kind. */
export function tableOf({ counts }: FlipRun): string[] {
  const line = (name: string, cells: readonly (string | number)[]) =>
    `${name.padEnd(30)}${cells.map(cell => String(cell).padStart(11)).join('')}`
  const total = { detected: 0, harmless: 0, WRONG: 0, LAUNDERED: 0 }
  const lines = [...counts].map(([name, of]) => {
    for (const outcome of OUTCOMES) total[outcome] += of[outcome]
    return line(
      name,
      OUTCOMES.map(outcome => of[outcome]),
    )
  })
  return [
    line('', OUTCOMES),
    ...lines,
    line(
      'all',
      OUTCOMES.map(outcome => total[outcome]),
    ),
  ]
}
