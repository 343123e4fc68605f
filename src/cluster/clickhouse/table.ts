/**
 * The table of a pool on each shard of a ClickHouse cluster.
 *
 *   "DPO…"  _service_received_at, _service_payload, the pool's columns, _version, _deleted
 *
 * A pool with a unique id has a ReplacingMergeTree whose rows are sorted by the key: of the rows of
 * a key the one with the highest `_version` counts, and a row with `_deleted` ends its record. A
 * pool without one keeps every row, so it has neither.
 *
 * ClickHouse 18.16 is a vehicle of tests. It lacks three types, whose bytes are those of integers.
 */
import {
  COLUMN_TYPE,
  type ColumnType,
  KEY_RECEIVED_AT,
  PAYLOAD,
  type PoolSchema,
  RECEIVED_AT,
} from '../../format/schema.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { assert, must } from '../../util/assert.ts'
import { quoteClickHouseName, quoteClickHouseText } from '../../util/sql.ts'

/** 1 in a row that says that the record is deleted. */
export const DELETED = '_deleted'

/**
 * Names that no column of a pool may have, as they are of Weir's own columns or of those that every
 * MergeTree has.
 */
const TAKEN = new Set([
  ...[VERSION, DELETED, '_row_exists', '_block_number', '_block_offset', '_distance', '_disk_name'],
  ...['_table', '_database', '_part', '_part_index', '_part_uuid', '_part_offset', '_part_data_version'],
  ...['_part_starting_offset', '_part_granule_offset', '_partition_id', '_partition_value'],
  '_sample_factor',
])

/** The columns that a table cannot have. */
export function takenNames(columns: readonly string[]): readonly string[] {
  return columns.filter(name => TAKEN.has(name.toLowerCase()))
}

/** What all servers of a cluster can do. */
export interface ServerFeatures {
  /** False for versions before DateTime64, Date32 and Bool. */
  readonly hasTimes: boolean
}

/** A part is on disk when its INSERT is answered: rows outlive a power cut of all replicas. */
const DURABLE = ['fsync_after_insert', 'fsync_part_directory']
const DURABLE_VALUES = DURABLE.map(name => `${name} = 1`).join(', ')

const INTEGERS: Partial<Record<ColumnType, string>> = { BOOLEAN: 'UInt8', DATE: 'Int32', TIMESTAMP: 'Int64' }

/** ClickHouse's type of a column. The bytes of both forms are the same. */
export function tableType(type: ColumnType, isNullable: boolean, { hasTimes }: ServerFeatures): string {
  const modern = type === 'TIMESTAMP' ? "DateTime64(6, 'UTC')" : COLUMN_TYPE[type].clickHouse
  const plain = hasTimes ? modern : (INTEGERS[type] ?? modern)
  return isNullable ? `Nullable(${plain})` : plain
}

/** True where a column of the pool's table takes null. Columns of the key never do. */
export function isNullable({ columns }: PoolSchema, index: number): boolean {
  return !must(columns[index], 'a column').required
}

/** The columns by which the rows of a table are sorted, as names. */
export function sortedBy({ columns, key, timestamp }: PoolSchema): string[] {
  const nameOf = (index: number) =>
    index === KEY_RECEIVED_AT ? RECEIVED_AT : must(columns[index], 'a column of the key').name
  return key === null ? [nameOf(timestamp)] : key.columns.map(nameOf)
}

/**
 * `CREATE TABLE IF NOT EXISTS …` of one replica. The server's macros name shard and replica.
 * @param path where Keeper has what the replicas of a shard share; without it the table has no
 * replicas
 * @param isDurable rows outlive a power cut. Earlier versions have no setting for it.
 */
export function createTable(
  name: string,
  schema: PoolSchema,
  features: ServerFeatures,
  path: string | undefined,
  isDurable = false,
): string {
  assert((schema.key?.version ?? -1) === -1, 'a pool with a version column has no table in a cluster')
  const columns = [
    [RECEIVED_AT, tableType('TIMESTAMP', false, features)],
    [PAYLOAD, tableType('JSON', false, features)],
    ...schema.columns.map((column, index) => [
      column.name,
      tableType(column.type, isNullable(schema, index), features),
    ]),
    [VERSION, 'UInt64'],
    ...(schema.key === null ? [] : [[DELETED, 'UInt8']]),
  ].map(([column, type]) => `${quoteClickHouseName(column!)} ${type}`)
  // A tail asks for the newest versions.
  const index = features.hasTimes ? [`INDEX ${VERSION}_range ${VERSION} TYPE minmax GRANULARITY 1`] : []
  const family = schema.key === null ? 'MergeTree' : 'ReplacingMergeTree'
  const parameters = [
    ...(path === undefined
      ? []
      : [quoteClickHouseText(`${path}/{shard}/${name}`), quoteClickHouseText('{replica}')]),
    ...(schema.key === null ? [] : [VERSION]),
  ]
  const engine = `${path === undefined ? '' : 'Replicated'}${family}(${parameters.join(', ')})`
  const order = sortedBy(schema).map(quoteClickHouseName).join(', ')
  return `CREATE TABLE IF NOT EXISTS ${quoteClickHouseName(name)} (${[...columns, ...index].join(', ')}) ENGINE = ${engine} ORDER BY (${order})${isDurable && features.hasTimes ? ` SETTINGS ${DURABLE_VALUES}` : ''}`
}

/** Makes a replica fetch what the log of its table has. Merges need not be waited for. */
export function syncReplica(table: string, { hasTimes }: ServerFeatures): string {
  return `SYSTEM SYNC REPLICA ${quoteClickHouseName(table)}${hasTimes ? ' LIGHTWEIGHT' : ''}`
}

/** Tables that were made with the other durability. They are settings of each replica. */
export function otherDurability(isDurable: boolean): string {
  return `SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND (position(engine_full, 'fsync_after_insert = 1') > 0) != ${isDurable ? 1 : 0}`
}

/** What ALTER TABLE does to give a table the durability. */
export function changeDurability(isDurable: boolean): string {
  return isDurable ? `MODIFY SETTING ${DURABLE_VALUES}` : `RESET SETTING ${DURABLE.join(', ')}`
}
