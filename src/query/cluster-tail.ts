/**
 * The rows of a pool of a cluster as they come. Rows become visible in any order of their versions,
 * so each step lists the newest versions again, and reads the rows that the last list did not have.
 *
 *       marks[0]         floor        newest versions
 *   ───────┼───────────────┼──────────────┼───────► versions
 *          │ counted, once │ listed by    │
 *          │ they settled  │ every step   │
 *
 *   W-9  A list has at most LISTED_MAX versions: `floor` is the lowest of a list that is full. What
 *        becomes visible below it is counted when no other row can come there, after SETTLE_MS.
 *
 * What a job changes is not new. In a pool without a key, what it changes before a step has sent it
 * does not come.
 *
 * A reader gets the rows of every request that begins after it has joined. Of those under way it
 * gets what a node takes after that.
 */

import { monotonicMs } from '../util/clock.ts'
import { must } from '../util/errors.ts'
import { INSERT_MS_MAX, INSERT_SENT_MS_MAX } from '../util/limits.ts'
import type { ClickHouseEngine } from './clickhouse/engine.ts'
import { READ_VERSION, ROW_BITS, type Versions } from './clickhouse/rows.ts'
import { internal, type Select } from './expression/select.ts'
import { columnOf } from './expression/typed.ts'
import { type BadQuery, isBadQuery } from './expression/values.ts'
import type { PrintedRows } from './plan/query-task.ts'
import type { WrittenSelection } from './selection.ts'
import {
  countOf,
  type OpenTail,
  planStep,
  rowsThatFit,
  TAIL_ROWS_MAX,
  type Tail,
  type TailQuestion,
  type TailStep,
} from './tail.ts'

/** Versions that a step lists, in less than a millisecond of the main thread. */
const LISTED_MAX = 2_000
/** Between marks. Each is a write of Keeper. */
const MARK_MS = 5_000
/** After it a row is visible, or its request failed. */
const SETTLE_MS = INSERT_SENT_MS_MAX + INSERT_MS_MAX

export interface ClusterTailDeps {
  readonly engine: Pick<ClickHouseEngine, 'run' | 'parse' | 'dialect'>
  /** See Versions.boundary. */
  boundary(): Promise<number>
  /** Absent: the time of the machine. */
  readonly nowMs?: () => number
}

export function clusterTails(deps: ClusterTailDeps): OpenTail {
  return () => new ClusterTail(deps)
}

/** Rows below `version` were on their way at `ms`; later ones have it or higher ones. */
interface Mark {
  readonly ms: number
  readonly version: bigint
  /** Rows from here to the next mark that were sent, or counted as missed. */
  handled: number
}

type Run = (select: Select, versions: Versions | undefined, rowsMax: number) => Promise<PrintedRows>

class ClusterTail implements Tail {
  readonly #deps: ClusterTailDeps
  /** The oldest first. Empty before the first step. */
  readonly #marks: Mark[] = []
  #floor = 0n
  /** Of the last step. */
  #listed: ReadonlySet<bigint> = new Set()

  constructor(deps: ClusterTailDeps) {
    this.#deps = deps
  }

  hasNews(): boolean {
    return true // other nodes do not tell
  }

  async step(question: TailQuestion): Promise<TailStep | BadQuery> {
    const planned = await planStep(question, this.#deps.engine)
    if (isBadQuery(planned)) return planned
    const columns = planned.columns.map(({ name }) => name)
    const isFirst = this.#marks.length === 0
    const beganMs = this.#nowMs()
    await this.#mark()
    if (isFirst) return { columns, rows: [], missed: 0 }
    const run = this.#runOf(question, planned)
    const listed = await listOf(planned, this.#floor, run)
    const fresh = listed.filter(version => !this.#listed.has(version))
    const { rows, missed } = await newest(planned, fresh, run)
    for (const version of fresh) this.#handle(version)
    this.#listed = new Set(listed)
    if (listed.length === LISTED_MAX) this.#floor = must(listed.at(-1), 'a full list')
    return { columns, rows, missed: missed + (await this.#settle(planned, beganMs, run)) }
  }

  #nowMs(): number {
    return this.#deps.nowMs?.() ?? monotonicMs()
  }

  async #mark(): Promise<void> {
    const last = this.#marks.at(-1)
    if (last !== undefined && this.#nowMs() - last.ms < MARK_MS) return
    const version = (BigInt(await this.#deps.boundary()) + 1n) << ROW_BITS
    if (last === undefined) this.#floor = version
    this.#marks.push({ ms: this.#nowMs(), version, handled: 0 })
  }

  #handle(version: bigint): void {
    const mark = this.#marks.findLast(each => each.version <= version)
    must(mark, 'a mark below each version').handled += 1
  }

  /** The number of rows that came below the floor, up to the last mark that has settled. */
  async #settle(planned: WrittenSelection, beganMs: number, run: Run): Promise<number> {
    const due = this.#marks.findLastIndex(({ ms }) => beganMs - ms >= SETTLE_MS)
    const [first, last] = [this.#marks[0], this.#marks[due]]
    if (first === undefined || last === undefined || due === 0) return 0
    let missed = 0
    if (this.#floor > first.version) {
      const [row] = await run(countOf(planned), { from: first.version, to: last.version }, 1)
      const handled = this.#marks.slice(0, due).reduce((sum, mark) => sum + mark.handled, 0)
      missed = Math.max(0, Number(row?.[0] ?? 0) - handled)
    }
    this.#marks.splice(0, due)
    if (this.#floor < last.version) this.#floor = last.version
    return missed
  }

  #runOf({ pool: { schema }, asker }: TailQuestion, planned: WrittenSelection): Run {
    const { engine } = this.#deps
    return async (select, versions, rowsMax) => {
      const statement = engine.dialect.write({ ...planned, select })
      const task = { source: { pools: [{ schema }], versions }, statement, rowsMax }
      return (await engine.run(task, asker.fairKey, asker.verify, asker.gone)).rows
    }
  }
}

const VERSION = columnOf({ name: READ_VERSION, type: 'INT64' })

/** The newest versions of selected rows, the highest first. */
async function listOf({ select }: WrittenSelection, from: bigint, run: Run): Promise<readonly bigint[]> {
  const outputs = [{ name: internal('version'), value: VERSION }]
  const orderBy = [{ value: VERSION, direction: 'DESC' as const }]
  const list = { where: select.where, outputs, orderBy, limit: LISTED_MAX }
  return (await run(list, { from }, LISTED_MAX)).map(([version]) => BigInt.asUintN(64, BigInt(version ?? 0)))
}

/** The newest rows of these versions, the oldest of them first. */
async function newest(
  { select }: WrittenSelection,
  versions: readonly bigint[],
  run: Run,
): Promise<Pick<TailStep, 'rows' | 'missed'>> {
  if (versions.length === 0) return { rows: [], missed: 0 }
  const newestFirst = { ...select, orderBy: [{ value: VERSION, direction: 'ASC' as const }] }
  const { rows, rowsMax } = await rowsThatFit(async most => ({
    rows: await run(newestFirst, { of: versions.slice(0, most) }, TAIL_ROWS_MAX),
  }))
  return { rows, missed: Math.max(0, versions.length - rowsMax) }
}
