/**
 * The Parquet encoder over parquet-wasm, the fallback where the native module is not built. It
 * reads a whole Arrow IPC stream. Import it only where it is used: its libraries add a third of a
 * second to a start. Every wasm object is consumed or freed on every path, so the wasm memory stays
 * flat.
 */
import * as arrow from 'apache-arrow'
import { Field, Message, Schema } from 'apache-arrow'
import { BufferRegion, FieldNode, RecordBatch } from 'apache-arrow/ipc/metadata/message'
import type * as ParquetWasm from 'parquet-wasm'
import { arrowType, envelope } from '../../format/arrow.ts'
import {
  type ColumnType,
  PAYLOAD,
  type PoolSchema,
  RECEIVED_AT,
  SEQUENCE,
  uniqueColumns,
} from '../../format/schema.ts'
import { ROW_GROUP_ROWS } from '../../util/limits.ts'
import { withParquetWasm } from '../../util/parquet-wasm.ts'
import type { Body } from './arrow-stream.ts'
import type { Encoder } from './parquet-encoder.ts'

export const encoderJs: Encoder = {
  name: 'js',
  headOf: arrowHead,
  encode: (stream, _layout, schema, _rows, footer) => parquetOf(stream, schema, footer),
}

/**
 * The bytes before the body: the schema message and the record batch's metadata, made from buffer
 * lengths with apache-arrow's own classes. See HeadOf.
 */
export function arrowHead(schema: PoolSchema, rows: number, body: Body): Uint8Array {
  const nodes = body.nulls.map(nulls => new FieldNode(rows, nulls))
  const regions = body.regions.map(([offset, length]) => new BufferRegion(offset, length))
  const batch = new RecordBatch(rows, nodes, regions, null)
  const parts = [Message.from(schemaOf(schema)), Message.from(batch, body.bytes)]
  return Uint8Array.from(Buffer.concat(parts.map(part => envelope(Message.encode(part)))))
}

/** The Arrow schema of a segment, in the order in which columns are stored. */
function schemaOf(schema: PoolSchema): Schema {
  return new Schema([
    new Field(RECEIVED_AT, arrowType(arrow, 'TIMESTAMP'), false),
    new Field(PAYLOAD, arrowType(arrow, 'JSON'), false),
    ...schema.columns.map(column => new Field(column.name, arrowType(arrow, column.type), !column.required)),
    new Field(SEQUENCE, arrowType(arrow, 'INT64'), false),
  ])
}

/**
 * Makes the Parquet file of an IPC stream. `footer` is its key-value metadata. Throws the errors of
 * parquet-wasm; after a trap the next call has a fresh instance.
 */
export function parquetOf(
  stream: Uint8Array,
  schema: PoolSchema,
  footer: ReadonlyMap<string, string>,
): Uint8Array {
  return withParquetWasm(wasm => {
    const table = wasm.Table.fromIPCStream(stream)
    return wasm.writeParquet(table, properties(wasm, schema, footer)) // consumes both
  })
}

function properties(wasm: typeof ParquetWasm, schema: PoolSchema, footer: ReadonlyMap<string, string>) {
  const { Compression, EnabledStatistics, WriterPropertiesBuilder, WriterVersion } = wasm
  let builder = new WriterPropertiesBuilder()
    .setWriterVersion(WriterVersion.V1)
    .setCompression(Compression.SNAPPY)
    .setMaxRowGroupSize(ROW_GROUP_ROWS)
    .setCreatedBy('weir')
    .setKeyValueMetadata(new Map(footer))
    .setDictionaryEnabled(true)
    .setStatisticsEnabled(EnabledStatistics.Chunk)
  for (const name of withoutStatistics(schema))
    builder = builder.setColumnStatisticsEnabled(name, EnabledStatistics.None)
  for (const name of withoutDictionary(schema)) builder = builder.setColumnDictionaryEnabled(name, false)
  return builder.build()
}

/** Columns whose smallest and largest values are long and of no use to readers. */
function withoutStatistics(schema: PoolSchema): string[] {
  return [PAYLOAD, ...schema.columns.filter(column => column.type === 'JSON').map(column => column.name)]
}

/**
 * Types whose values hardly repeat or are small: their dictionary would be built and thrown away.
 */
const WITHOUT_DICTIONARY: ReadonlySet<ColumnType> = new Set(['JSON', 'TIMESTAMP', 'INT64', 'FLOAT', 'DOUBLE'])

function withoutDictionary(schema: PoolSchema): string[] {
  const unique = uniqueColumns(schema)
  const names = schema.columns
    .filter((column, i) => WITHOUT_DICTIONARY.has(column.type) || unique.has(i))
    .map(column => column.name)
  return [RECEIVED_AT, PAYLOAD, SEQUENCE, ...names]
}
