/**
 * The rows of a pool that came since a sequence: one step of a live tail.
 *
 *   W-8  A step sees everything that was acknowledged before it, and one manifest. The next step
 *        begins behind the highest sequence of that manifest: flushes go on in the order of
 *        sequences, so no later row has a lower one.
 *   W-9  A step answers at most TAIL_ROWS_MAX rows. Of more it answers the newest, and the number.
 *
 * A row that replaced another one since then stands for both. Merges and jobs keep the sequences of
 * rows, so what they move is not new.
 */
import { RECEIVED_AT } from '../format/schema.ts'
import { Unavailable } from '../util/errors.ts'
import { type PinDeps, parseTexts } from './ask.ts'
import { duckdb } from './duckdb/write-statement.ts'
import { queryColumns } from './expression/operand.ts'
import { columnOf, operation } from './expression/typed.ts'
import { type BadQuery, isBadQuery } from './expression/values.ts'
import type { Statement } from './plan/plan.ts'
import type { LimitedPool } from './plan/policy.ts'
import { prune } from './plan/prune-segments.ts'
import type { PrintedRows, QueryEngine } from './plan/query-task.ts'
import { type PlannedSelection, type Selection, writeSelection } from './selection.ts'

/** Rows of one step, which come twice a second: more than a person reads. */
const TAIL_ROWS_MAX = 500
/** Where the rows are too long for one answer, a step takes fewer, and at last none. */
const ROWS_MAX = [TAIL_ROWS_MAX, 10, 1]

export interface TailDeps extends PinDeps {
  readonly engine: Pick<QueryEngine, 'run' | 'parse'>
}

export interface TailStep {
  /** The next step begins behind it. */
  readonly sequence: number
  readonly columns: readonly string[]
  /** The oldest first, where the reader sees the time of arrival. */
  readonly rows: PrintedRows
  /** Rows that are not among `rows`. */
  readonly missed: number
}

interface Asker {
  readonly applicationId: string
  readonly verify: () => void
  readonly gone: AbortSignal
}

/**
 * @param after rows with a higher sequence; undefined at the begin, which answers no rows
 * @param nowMs the time of now() in filters
 */
export async function tailStep(
  pool: LimitedPool,
  selection: Selection,
  after: number | undefined,
  asker: Asker,
  nowMs: number,
  deps: TailDeps,
): Promise<TailStep | BadQuery> {
  const { applicationId, verify, gone } = asker
  const parse = (texts: readonly string[]) => parseTexts(texts, deps.engine, applicationId)
  const planned = await writeSelection(pool, selection, parse, nowMs, duckdb)
  if (isBadQuery(planned)) return planned
  const { schema } = pool
  await deps.makeVisible(schema.pool)
  const pinned = await deps.snapshot(schema.pool)
  try {
    const sequence = pinned.segments.reduce((most, { meta }) => Math.max(most, meta.sequenceTo), after ?? 0)
    const columns = planned.columns.map(({ name }) => name)
    const segments = prune(schema, planned, pinned.segments).filter(
      ({ meta }) => meta.sequenceTo > (after ?? sequence),
    )
    if (after === undefined || segments.length === 0) return { sequence, columns, rows: [], missed: 0 }
    const run = (statement: Statement, rowsMax: number) => {
      const task = { schema, segments, statement, rowsMax, sequenceAfter: after }
      return deps.engine.run(task, applicationId, verify, gone)
    }
    const { rows, rowsMax } = await newestRows(most => run(newestOf(planned, pool, most), most))
    const isAll = rows.length < rowsMax
    const count = isAll ? rows.length : Number((await run(countOf(planned), 1)).rows[0]?.[0] ?? 0)
    return { sequence, columns, rows: rows.toReversed(), missed: Math.max(0, count - rows.length) }
  } finally {
    pinned.release()
  }
}

/** The newest rows by received-at; in any order where it is not visible. */
function newestOf(planned: PlannedSelection, { schema }: LimitedPool, rowsMax: number): Statement {
  const received = queryColumns(schema).find(({ name }) => name === RECEIVED_AT)
  const isVisible = planned.visible?.columns?.includes(RECEIVED_AT) !== false
  const orderBy = received && isVisible ? [{ value: columnOf(received), direction: 'DESC' as const }] : []
  return duckdb.write({ ...planned, select: { ...planned.select, orderBy, limit: rowsMax } })
}

function countOf(planned: PlannedSelection): Statement {
  const outputs = [{ name: 'rows', value: operation('count_rows', 'integer', []) }]
  return duckdb.write({ ...planned, select: { where: planned.select.where, outputs } })
}

async function newestRows(
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
