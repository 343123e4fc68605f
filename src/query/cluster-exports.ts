/**
 * How selected live rows leave a pool of a cluster: one SELECT, whose answer streams. Each shard's
 * rows are those of one moment, after everything that was acknowledged before.
 *
 *   batches   ClickHouse makes Arrow's record batches, and the export thread their lines
 *   parquet   ClickHouse makes the file
 *
 *   W-8  An answer that is not whole is thrown, by the mark at the end of its format.
 *   W-9  The socket is read as fast as the caller takes: ClickHouse waits for a slow one.
 */
import { createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { HEADER } from '../format/arrow.ts'
import { isDiskError } from '../util/disk.ts'
import { Unavailable } from '../util/errors.ts'
import { CHUNK_ROWS, MiB, ROW_GROUP_ROWS } from '../util/limits.ts'
import type { ExportClient } from './arrow/export-client.ts'
import { copyFailed } from './arrow/export-stream.ts'
import { arrowMessages, brokenAnswer } from './clickhouse/arrow-messages.ts'
import { type ClickHouseEngine, typedError } from './clickhouse/engine.ts'
import { renamed } from './clickhouse/rows.ts'
import { EXPORT_DOWNLOAD_MS_MAX, type RowExports } from './row-exports.ts'

export interface ClusterExportsDeps {
  readonly engine: Pick<ClickHouseEngine, 'stream'>
  readonly exportThread: Pick<ExportClient, 'hasTypes' | 'lines'>
}

const ARROW = {
  max_block_size: String(CHUNK_ROWS),
  output_format_arrow_compression_method: 'none',
  output_format_arrow_string_as_string: '1',
}

const PARQUET = {
  max_execution_time: String(EXPORT_DOWNLOAD_MS_MAX / 1000),
  output_format_parquet_string_as_string: '1',
  output_format_parquet_compression_method: 'zstd',
  output_format_parquet_row_group_size: String(ROW_GROUP_ROWS),
  output_format_parquet_row_group_size_bytes: String(32 * MiB),
}
/** At the end of an answer: the mark of a file, or why it ends early. */
const LAST_BYTES = 2_000
const PARQUET_END = 'PAR1'

export function clusterExports({ engine, exportThread }: ClusterExportsDeps): RowExports {
  return {
    async *batches({ schema, planned, asker }, text) {
      const { statement, columns } = planned
      try {
        const answer = engine.stream(
          { source: { pools: [{ schema }] }, statement },
          'ArrowStream',
          ARROW,
          asker,
        )
        for await (const { header, bytes } of arrowMessages(answer))
          if (header === HEADER.recordBatch)
            yield text === undefined ? bytes : await exportThread.lines(bytes, text)
          else if (header !== HEADER.schema || !(await exportThread.hasTypes(bytes, columns)))
            throw new Unavailable('cluster', 'ClickHouse answers with other types than the pool has')
      } catch (error) {
        throw failureOf(error)
      }
    },
    async parquet(file, { schema, planned, asker }) {
      const names = planned.columns.map(({ name }) => name)
      const task = { source: { pools: [{ schema }] }, statement: renamed(planned.statement, names) }
      let last: Buffer = Buffer.alloc(0)
      async function* noted() {
        for await (const chunk of engine.stream(task, 'Parquet', PARQUET, asker)) {
          last = Buffer.concat([last, chunk.subarray(-LAST_BYTES)]).subarray(-LAST_BYTES)
          yield chunk
        }
        if (last.toString('latin1', last.length - PARQUET_END.length) !== PARQUET_END)
          throw brokenAnswer(last)
      }
      try {
        await pipeline(noted(), createWriteStream(file, { flags: 'wx' }))
      } catch (error) {
        throw isDiskError(error) ? copyFailed(file, 'written', error) : failureOf(error)
      }
    },
  }
}

function failureOf(error: unknown): unknown {
  return error instanceof RangeError ? brokenAnswer(new Uint8Array()) : typedError(error, 0)
}
