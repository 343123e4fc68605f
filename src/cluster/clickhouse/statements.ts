/** Statements of the upkeep of tables, on one server. They reject with Unavailable. */
import { WHOLE } from '../../query/clickhouse/engine.ts'
import { ClickHouseError, unavailable } from '../../query/clickhouse/http.ts'
import { TABLES_REFUSED, Unavailable } from '../../util/errors.ts'
import type { Replica } from './topology.ts'

/** A server that lives makes or changes a table in tens of milliseconds. */
const STATEMENT_MS_MAX = 15_000
const ANSWER_BYTES_MAX = 64 * 1_048_576

/** A statement that has no answer. */
export async function run(
  replica: Replica,
  sql: string,
  settings: Readonly<Record<string, string>> = {},
  msMax = STATEMENT_MS_MAX,
): Promise<void> {
  await inTime(replica, msMax, signal => replica.http.execute(sql, settings, signal))
}

/** The rows of a SELECT. Numbers may be texts. */
export async function rowsOf(replica: Replica, sql: string): Promise<readonly (readonly string[])[]> {
  const ask = (signal: AbortSignal) =>
    replica.http.run(`${sql} FORMAT JSONCompact`, WHOLE, ANSWER_BYTES_MAX, signal)
  return readRows((await inTime(replica, STATEMENT_MS_MAX, ask)).body)
}

/** The rows of an answer in JSONCompact. What was cut off, or tells of an exception, is none. */
export function readRows(body: Buffer): readonly (readonly string[])[] {
  try {
    const { data, exception } = JSON.parse(body.toString()) as Record<string, unknown>
    if (Array.isArray(data) && exception === undefined) return data
  } catch {
    // It is no JSON, and refused below.
  }
  throw new Unavailable('cluster_unreachable', 'the answer of ClickHouse was cut off')
}

/** Rejects with Unavailable and its cause, also where the answer is none of ClickHouse's. */
async function inTime<T>(
  { address: { url } }: Replica,
  msMax: number,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = AbortSignal.timeout(msMax)
  try {
    return await ask(late)
  } catch (error) {
    const why = late.aborted ? 'no answer in time' : (error as Error).message
    const isRefused = error instanceof ClickHouseError && error.code > 0 && !isRetryable(error)
    const what = isRefused ? 'a server refuses it' : 'a server has not done it'
    const said = unavailable(isRefused ? TABLES_REFUSED : 'cluster_tables', what, `${url}: ${why}`)
    throw Object.assign(said, { cause: error })
  }
}

/**
 * Errors that another try may not have: a time-out, too few live replicas, an earlier quorum that
 * is not complete, a lost session of the server, a table that is read-only, an unknown outcome, too
 * many parts, columns that change meanwhile. A replica that was down may lack a column or the
 * table.
 */
const RETRYABLE: ReadonlySet<number> = new Set([
  16, 60, 159, 209, 210, 225, 242, 244, 252, 285, 286, 319, 999,
])

export function isRetryable(error: unknown): boolean {
  return error instanceof ClickHouseError ? RETRYABLE.has(error.code) : error instanceof Unavailable
}
