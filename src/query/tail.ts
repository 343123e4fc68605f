/**
 * The rows of a pool as they come, a step at a time, and the steps of a pool whose rows are in
 * segments.
 *
 *   W-8  A step sees everything that was acknowledged before it, and one manifest. The next step
 *        begins behind the highest sequence of that manifest: flushes go on in the order of
 *        sequences, so no later row has a lower one.
 *   W-9  A step answers at most TAIL_ROWS_MAX rows. Of more it answers the newest, and the number.
 *
 * A row that replaced another one since then stands for both. Merges and jobs keep the sequences of
 * rows, so what they move is not new.
 */
import { type PoolSchema, RECEIVED_AT } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import { must, Unavailable } from '../util/errors.ts'
import { parseTexts } from './ask.ts'
import { queryColumns } from './expression/operand.ts'
import { internal, type Select } from './expression/select.ts'
import { columnOf, operation } from './expression/typed.ts'
import { type BadQuery, isBadQuery } from './expression/values.ts'
import type { PinDeps } from './pin-segments.ts'
import type { LimitedPool } from './plan/policy.ts'
import { prune } from './plan/prune-segments.ts'
import type { Asker, PrintedRows, QueryEngine } from './plan/query-task.ts'
import { rowsOfPool, type SegmentEngine } from './plan/segment-task.ts'
import { type PlannedSelection, type Selection, type WrittenSelection, writeSelection } from './selection.ts'

/** Rows of one step, which come twice a second: more than a person reads. */
export const TAIL_ROWS_MAX = 500
/** Where the rows are too long for one answer, a step takes fewer, and at last none. */
const ROWS_MAX = [TAIL_ROWS_MAX, 10, 1]

export interface TailStep {
  readonly columns: readonly string[]
  /** The oldest first, where the store knows which they are. */
  readonly rows: PrintedRows
  /** Rows that are not among `rows`. */
  readonly missed: number
}

/** What a step reads. Its readers may see the same. */
export interface TailQuestion {
  readonly pool: LimitedPool
  readonly selection: Selection
  readonly asker: Asker
  /** The time of now() in filters. */
  readonly nowMs: number
}

export interface Tail {
  /** False where nothing has come since the last step. */
  hasNews(): boolean
  /** The rows that came since the last step; none in the first one. Rejects as queries do. */
  step(question: TailQuestion): Promise<TailStep | BadQuery>
}

export type OpenTail = (pool: number) => Tail

export interface SegmentTailDeps extends PinDeps {
  readonly engine: SegmentEngine
  /** True where everything that was acknowledged is in the pool's manifest. */
  isFlushed(pool: number): boolean
  /** The highest sequence of the pool's manifest. */
  flushedSequence(pool: number): number
}

export function segmentTails(deps: SegmentTailDeps): OpenTail {
  return pool => new SegmentTail(pool, deps)
}

class SegmentTail implements Tail {
  readonly #pool: number
  readonly #deps: SegmentTailDeps
  /** The next step begins behind it. Undefined before the first one. */
  #sequence: number | undefined

  constructor(pool: number, deps: SegmentTailDeps) {
    this.#pool = pool
    this.#deps = deps
  }

  hasNews(): boolean {
    const { isFlushed, flushedSequence } = this.#deps
    return !isFlushed(this.#pool) || flushedSequence(this.#pool) > (this.#sequence ?? 0)
  }

  async step(question: TailQuestion): Promise<TailStep | BadQuery> {
    // Deletes have sequences too, and leave no segment that names them.
    const flushed = this.#deps.flushedSequence(this.#pool)
    const planned = await planStep(question, this.#deps.engine)
    if (isBadQuery(planned)) return planned
    const { schema } = question.pool
    await this.#deps.makeVisible(schema.pool)
    const pinned = await this.#deps.snapshot(schema.pool)
    try {
      const after = this.#sequence ?? Number.POSITIVE_INFINITY
      const segments = pinned.segments.filter(({ meta }) => meta.sequenceTo > after)
      const step = await this.#newest(question, planned, prune(schema, planned, segments))
      const from = Math.max(this.#sequence ?? 0, flushed)
      this.#sequence = pinned.segments.reduce((most, { meta }) => Math.max(most, meta.sequenceTo), from)
      return step
    } finally {
      pinned.release()
    }
  }

  /** @param segments that have rows since the last step */
  async #newest(
    { pool: { schema }, asker }: TailQuestion,
    planned: WrittenSelection,
    segments: readonly QuerySegment[],
  ): Promise<TailStep> {
    const columns = planned.columns.map(({ name }) => name)
    const { engine } = this.#deps
    if (segments.length === 0) return { columns, rows: [], missed: 0 }
    const run = (select: Select, rowsMax: number) => {
      const statement = engine.dialect.write({ ...planned, select })
      const part = { segments, sequenceAfter: must(this.#sequence, 'a begin') }
      const task = { source: rowsOfPool(schema, part), statement, rowsMax }
      return engine.run(task, asker.fairKey, asker.verify, asker.gone)
    }
    const { rows, rowsMax } = await rowsThatFit(most => run(newestOf(planned, schema, most), most))
    const isAll = rows.length < rowsMax
    const count = isAll ? rows.length : Number((await run(countOf(planned), 1)).rows[0]?.[0] ?? 0)
    return { columns, rows: rows.toReversed(), missed: Math.max(0, count - rows.length) }
  }
}

export function planStep(
  { pool, selection, asker, nowMs }: TailQuestion,
  engine: Pick<QueryEngine, 'parse' | 'dialect'>,
): Promise<WrittenSelection | BadQuery> {
  const parse = (texts: readonly string[]) => parseTexts(texts, engine, asker.fairKey)
  return writeSelection(pool, selection, parse, nowMs, engine.dialect)
}

/** The newest rows by received-at; in any order where it is not visible. */
function newestOf({ select, visible }: PlannedSelection, schema: PoolSchema, limit: number): Select {
  const received = queryColumns(schema).find(({ name }) => name === RECEIVED_AT)
  const isVisible = visible?.columns?.includes(RECEIVED_AT) !== false
  const orderBy = received && isVisible ? [{ value: columnOf(received), direction: 'DESC' as const }] : []
  return { ...select, orderBy, limit }
}

/** The number of selected rows. */
export function countOf({ select: { where } }: PlannedSelection): Select {
  return { where, outputs: [{ name: internal('rows'), value: operation('count_rows', 'integer', []) }] }
}

/** @param run answers at most so many rows */
export async function rowsThatFit(
  run: (rowsMax: number) => Promise<{ readonly rows: PrintedRows }>,
): Promise<{ readonly rows: PrintedRows; readonly rowsMax: number }> {
  for (const rowsMax of ROWS_MAX)
    try {
      return { rows: (await run(rowsMax)).rows, rowsMax }
    } catch (error) {
      if (!(error instanceof Unavailable) || error.code !== 'answer_too_large') throw error
    }
  return { rows: [], rowsMax: 0 }
}
