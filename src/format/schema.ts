/**
 * A schema says how the bytes of one pool become columns. It never changes: a pool whose columns
 * change gets a schema with the next version, and a log record names the version that parsed it.
 */
import { assert } from '../util/errors.ts'

/** The facts of a column type that several layers need. */
interface ColumnTypeFacts {
  /** `Type` of parse/native/schema.h and of store/segment/native/parquet.h. */
  readonly number: number
  /** A key of KIND: what the column's buffers in a batch hold. */
  readonly kind: 'binary' | 'bool' | 'i8' | 'i16' | 'i32' | 'i64' | 'f32' | 'f64'
  /** Its class in apache-arrow. JSON is a text: readers refuse the `arrow.json` extension. */
  readonly arrow: string
  /** Its type in DuckDB: the name in SQL, of a DuckDBTypeId, and of DuckDBType's constant. */
  readonly duckdb: string
  /** The type that the management API shows for it. */
  readonly clickHouse: string
}

/**
 * The table of column types. A new type goes here and into the two kernels, and where the compiler
 * or test/store/rows.ts asks for it.
 */
export const COLUMN_TYPE = {
  BOOLEAN: { number: 0, kind: 'bool', arrow: 'Bool', duckdb: 'BOOLEAN', clickHouse: 'Bool' },
  STRING: { number: 1, kind: 'binary', arrow: 'Utf8', duckdb: 'VARCHAR', clickHouse: 'String' },
  FLOAT: { number: 2, kind: 'f32', arrow: 'Float32', duckdb: 'FLOAT', clickHouse: 'Float32' },
  DOUBLE: { number: 3, kind: 'f64', arrow: 'Float64', duckdb: 'DOUBLE', clickHouse: 'Float64' },
  INT8: { number: 4, kind: 'i8', arrow: 'Int8', duckdb: 'TINYINT', clickHouse: 'Int8' },
  INT16: { number: 5, kind: 'i16', arrow: 'Int16', duckdb: 'SMALLINT', clickHouse: 'Int16' },
  INT32: { number: 6, kind: 'i32', arrow: 'Int32', duckdb: 'INTEGER', clickHouse: 'Int32' },
  INT64: { number: 7, kind: 'i64', arrow: 'Int64', duckdb: 'BIGINT', clickHouse: 'Int64' },
  DATE: { number: 8, kind: 'i32', arrow: 'DateDay', duckdb: 'DATE', clickHouse: 'Date32' },
  TIMESTAMP: {
    number: 9,
    kind: 'i64',
    arrow: 'TimestampMicrosecond',
    duckdb: 'TIMESTAMP',
    clickHouse: 'DateTime64(6)',
  },
  JSON: { number: 10, kind: 'binary', arrow: 'Utf8', duckdb: 'VARCHAR', clickHouse: 'String' },
} as const satisfies Record<string, ColumnTypeFacts>

export type ColumnType = keyof typeof COLUMN_TYPE

/** Types a webhook column may have, by number. */
export const COLUMN_TYPES = Object.keys(COLUMN_TYPE) as readonly ColumnType[]

const INTEGER_TYPES: readonly ColumnType[] = ['INT8', 'INT16', 'INT32', 'INT64']
const FLOAT_TYPES: readonly ColumnType[] = ['FLOAT', 'DOUBLE']
/** Types whose values are added up and averaged. */
export const NUMBER_TYPES: readonly ColumnType[] = [...INTEGER_TYPES, ...FLOAT_TYPES]

/** Types whose values have an order: all but JSON. They have a minimum and a maximum. */
export const ORDERED_TYPES: readonly ColumnType[] = COLUMN_TYPES.filter(type => type !== 'JSON')

/** Types of a tenant column that has zone maps in segments. */
export const ZONE_TYPES: readonly ColumnType[] = ['STRING', ...INTEGER_TYPES]

/** One unpacked column. */
export interface SchemaColumn {
  readonly name: string
  readonly type: ColumnType
  /** Dotted path from the root. A top-level key that equals the whole text wins. */
  readonly jsonProperty: string
  /** A missing or null value rejects the event. Always true for columns of the key. */
  readonly required: boolean
  /**
   * `request`: the property names a header, a parameter of the query, or the path of the request.
   * `body`: it names a value of the body around the events (json-property.ts). Columns that earlier
   * versions made lack it, whatever their property is.
   */
  readonly from?: 'request' | 'body'
  /**
   * The names and indexes of a path through arrays. Where it is absent, `jsonProperty` is a path
   * through objects.
   */
  readonly path?: readonly (string | number)[]
  /** Texts that hold a value of the type are taken too (parse/coerce.ts). */
  readonly coerce?: boolean
}

/** In `SchemaKey.columns`: the event's received-at, in µs, instead of a timestamp column. */
export const KEY_RECEIVED_AT = -1

/** The columns that identify a record, and the one that ranks its versions. */
export interface SchemaKey {
  /**
   * Indexes into `PoolSchema.columns`, or KEY_RECEIVED_AT; in key order: those that the table
   * settings name, else primary timestamp, then unique id. At most KEY_COLUMNS_MAX.
   */
  readonly columns: readonly number[]
  /** Index of the version column, whose highest value wins (key.ts); -1 where there is none. */
  readonly version: number
}

export interface PoolSchema {
  /** The pool's number in the log and the index; never reused. */
  readonly pool: number
  /** From 1. */
  readonly version: number
  readonly columns: readonly SchemaColumn[]
  /** Index of the primary timestamp in `columns`; -1 for `_service_received_at`. */
  readonly timestamp: number
  /** Index of the tenant column; -1 where there is none. */
  readonly tenant: number
  /** Null where every event is its own record. */
  readonly key: SchemaKey | null
  /** Index of the unique id's column; absent where that is the key's last column. */
  readonly uniqueId?: number
  /** Where the events stand in the body of a POST (sender.ts). Without it the body is events. */
  readonly eventsPath?: string
  /**
   * Each event is the body with this event alone at eventsPath, in the place of all. The columns
   * then have a `path` from the body's root, and none is from `body`.
   */
  readonly keepEnvelope?: true
  /**
   * Epoch numbers of TIMESTAMP columns lose what is finer than a µs, as texts do. Without it they
   * are rounded, as versions before folder 6 did: another key would double what is posted again.
   */
  readonly cutsEpochs?: true
}

/** True where all events of a request would have one key, because its head has the whole key. */
export function keyIsOfRequest({ columns, key }: Pick<PoolSchema, 'columns' | 'key'>): boolean {
  return key?.columns.every(index => columns[index]?.from === 'request') === true
}

/** True for a pool of CloudEvents in binary mode: its key has the header that only they have. */
export function isCloudEvent({ columns, key }: Pick<PoolSchema, 'columns' | 'key'>): boolean {
  return key?.columns.some(index => columns[index]?.jsonProperty.toLowerCase() === '$header.ce-id') === true
}

/**
 * Indexes of the columns of the key whose values hardly repeat, for encoders: a text counts only
 * where the key has no other text.
 */
export function uniqueColumns({ key, columns }: PoolSchema): ReadonlySet<number> {
  const all = key?.columns ?? []
  const texts = all.filter(index => columns[index]?.type === 'STRING')
  return new Set(texts.length > 1 ? all.filter(index => !texts.includes(index)) : all)
}

export const RECEIVED_AT = '_service_received_at'
export const PAYLOAD = '_service_payload'
/** Stored in every segment, never shown. */
export const SEQUENCE = '_service_sequence'

export type RequestKind = 'post' | 'delete'

/**
 * The schema that reads the body of a DELETE: only the key's columns, all required. A pool without
 * a timestamp reads received-at from the property under which queries print it.
 */
export function deleteSchema(schema: PoolSchema): PoolSchema {
  const key = schema.key
  assert(key !== null, 'only pools with a key take deletes')
  const columns = key.columns.map(index => keyColumn(schema, index))
  return {
    pool: schema.pool,
    version: schema.version,
    columns,
    timestamp: -1,
    tenant: -1,
    key: { columns: columns.map((_, index) => index), version: -1 },
    ...(schema.cutsEpochs === undefined ? {} : { cutsEpochs: true }),
  }
}

function keyColumn(schema: PoolSchema, index: number): SchemaColumn {
  if (index === KEY_RECEIVED_AT)
    return { name: RECEIVED_AT, type: 'TIMESTAMP', jsonProperty: RECEIVED_AT, required: true }
  const column = schema.columns[index]
  assert(column !== undefined, 'a key names a column of its schema')
  return { ...withoutEnvelope(schema, column), required: true }
}

/** The column as it reads an event alone, as a DELETE and rows of imports bring it. */
export function withoutEnvelope(
  { keepEnvelope, eventsPath = '' }: PoolSchema,
  column: SchemaColumn,
): SchemaColumn {
  const { path, ...plain } = column
  if (keepEnvelope !== true || path === undefined) return column
  const isOfBody = column.jsonProperty.startsWith('$.')
  return isOfBody ? plain : { ...plain, path: path.slice(eventsPath.split('.').length) }
}
