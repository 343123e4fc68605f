/** Which segment a failed statement failed on (W-8: a damaged or missing segment is named, never counted short). */

import type { DuckDBConnection } from '@duckdb/node-api'
import { SegmentDamaged, Unavailable } from '../errors.ts'
import { quoteText } from '../util/sql.ts'
import type { QuerySegment } from './protocol.ts'

/** DuckDB's message in one line. */
function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n', 1)[0] ?? message
}

/**
 * The typed error behind `error`: SegmentDamaged where DuckDB names a file or one cannot be read,
 * Unavailable where memory ran out, else `error` itself. Reads the segments whole where no file is named.
 */
export async function explain(
  error: unknown,
  connection: DuckDBConnection,
  segments: readonly QuerySegment[],
): Promise<unknown> {
  const message = error instanceof Error ? error.message : String(error)
  if (message.startsWith('Out of Memory Error')) return new Unavailable('query_memory', firstLine(error))
  if (message.startsWith('INTERRUPT')) return error
  // The machine's fault, not the segment's, though the message may name one.
  if (/Too many open files|No space left/.test(message)) return new Unavailable('query_io', firstLine(error))
  const named = segments.find(({ file }) => message.includes(file))
  if (named !== undefined) return new SegmentDamaged(named.file, firstLine(error))
  return (await findDamaged(connection, segments)) ?? error
}

/** The first segment that does not hold its rows, or that cannot be read to its end. */
export async function findDamaged(
  connection: DuckDBConnection,
  segments: readonly QuerySegment[],
): Promise<SegmentDamaged | undefined> {
  for (const { file, meta } of segments) {
    try {
      const sql = `SELECT COUNT(*), BIT_XOR(HASH(_service_row)) FROM read_parquet([${quoteText(file)}]) _service_row`
      const [row] = await (await connection.run(sql)).getRows()
      const rows = Number(row?.[0] ?? 0)
      if (rows !== meta.rows) return new SegmentDamaged(file, `${rows} rows where ${meta.rows} are expected`)
    } catch (error) {
      if (firstLine(error).startsWith('INTERRUPT')) return undefined
      return new SegmentDamaged(file, firstLine(error))
    }
  }
  return undefined
}
