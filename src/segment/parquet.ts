/**
 * An Arrow IPC stream becomes the bytes of a Parquet file, with parquet-wasm. Every wasm object is consumed or
 * freed on every way out, so that the wasm memory stays flat.
 */
import type * as ParquetWasm from 'parquet-wasm'
import { type ColumnType, PAYLOAD, type Plan, RECEIVED_AT, SEQUENCE } from '../batch/plan.ts'
import { ROW_GROUP_ROWS } from '../limits.ts'
import { withParquetWasm } from '../util/parquet-wasm.ts'

/**
 * The Parquet file of an IPC stream. `footer` is its key-value metadata. Throws what parquet-wasm throws; after a trap the
 * next call has a fresh instance.
 */
export function parquetOf(stream: Uint8Array, plan: Plan, footer: ReadonlyMap<string, string>): Uint8Array {
  return withParquetWasm(wasm => {
    const table = wasm.Table.fromIPCStream(stream)
    return wasm.writeParquet(table, properties(wasm, plan, footer)) // consumes both
  })
}

function properties(wasm: typeof ParquetWasm, plan: Plan, footer: ReadonlyMap<string, string>) {
  const { Compression, EnabledStatistics, WriterPropertiesBuilder, WriterVersion } = wasm
  let builder = new WriterPropertiesBuilder()
    .setWriterVersion(WriterVersion.V1)
    .setCompression(Compression.SNAPPY)
    .setMaxRowGroupSize(ROW_GROUP_ROWS)
    .setCreatedBy('weir')
    .setKeyValueMetadata(new Map(footer))
    .setDictionaryEnabled(true)
    .setStatisticsEnabled(EnabledStatistics.Chunk)
  for (const name of withoutStatistics(plan))
    builder = builder.setColumnStatisticsEnabled(name, EnabledStatistics.None)
  for (const name of withoutDictionary(plan)) builder = builder.setColumnDictionaryEnabled(name, false)
  return builder.build()
}

/** Columns whose smallest and largest value help nobody, and are long. */
function withoutStatistics(plan: Plan): string[] {
  return [PAYLOAD, ...plan.columns.filter(column => column.type === 'JSON').map(column => column.name)]
}

/** Types whose values hardly repeat, or are small anyway: a dictionary would be built and thrown away. */
const WITHOUT_DICTIONARY: ReadonlySet<ColumnType> = new Set(['JSON', 'TIMESTAMP', 'INT64', 'FLOAT', 'DOUBLE'])

function withoutDictionary(plan: Plan): string[] {
  const unique = new Set(plan.key?.columns)
  const names = plan.columns
    .filter((column, i) => WITHOUT_DICTIONARY.has(column.type) || unique.has(i))
    .map(column => column.name)
  return [RECEIVED_AT, PAYLOAD, SEQUENCE, ...names]
}
