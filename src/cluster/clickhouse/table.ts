/**
 * The table of a pool on each shard of a ClickHouse cluster.
 *
 *   "DPO…"  _service_received_at, _service_payload, the pool's columns, _version, _deleted
 *
 * A pool with a unique id has a ReplacingMergeTree whose rows are sorted by the key: of the rows of
 * a key the one with the highest `_version` counts, and a row with `_deleted` ends its record. A
 * pool without one keeps every row, so it has neither.
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
import { assert, must } from '../../util/errors.ts'
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

/**
 * A part is on the disks of a quorum when its INSERT is answered: rows outlive a power cut of all
 * replicas. By default ClickHouse syncs neither what it fetches nor what it merges, and a merge
 * replaces parts that were synced. These are all of its settings for syncs from 25.3 to 26.9, but
 * for one of rows, which the one of bytes covers.
 */
const DURABLE = [
  'fsync_after_insert',
  'fsync_part_directory',
  'min_compressed_bytes_to_fsync_after_fetch',
  'min_compressed_bytes_to_fsync_after_merge',
].map(name => ({ name, set: `${name} = 1` }))
/** The same, as `SETTINGS` and `MODIFY SETTING` take them. */
export const DURABLE_VALUES = DURABLE.map(({ set }) => set).join(', ')

/** ClickHouse's type of a column. */
export function tableType(type: ColumnType, isNullable: boolean): string {
  const plain = type === 'TIMESTAMP' ? "DateTime64(6, 'UTC')" : COLUMN_TYPE[type].clickHouse
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
 * @param isDurable rows outlive a power cut
 */
export function createTable(
  name: string,
  schema: PoolSchema,
  path: string | undefined,
  isDurable = false,
): string {
  assert((schema.key?.version ?? -1) === -1, 'a pool with a version column has no table in a cluster')
  const columns = [
    [RECEIVED_AT, tableType('TIMESTAMP', false)],
    [PAYLOAD, tableType('JSON', false)],
    ...schema.columns.map((column, index) => [
      column.name,
      tableType(column.type, isNullable(schema, index)),
    ]),
    [VERSION, 'UInt64'],
    ...(schema.key === null ? [] : [[DELETED, 'UInt8']]),
  ].map(([column, type]) => `${quoteClickHouseName(column!)} ${type}`)
  // A tail asks for the newest versions.
  const index = `INDEX ${VERSION}_range ${VERSION} TYPE minmax GRANULARITY 1`
  const family = schema.key === null ? 'MergeTree' : 'ReplacingMergeTree'
  const parameters = [
    ...(path === undefined
      ? []
      : [quoteClickHouseText(`${path}/{shard}/${name}`), quoteClickHouseText('{replica}')]),
    ...(schema.key === null ? [] : [VERSION]),
  ]
  const engine = `${path === undefined ? '' : 'Replicated'}${family}(${parameters.join(', ')})`
  const order = sortedBy(schema).map(quoteClickHouseName).join(', ')
  return `CREATE TABLE IF NOT EXISTS ${quoteClickHouseName(name)} (${[...columns, index].join(', ')}) ENGINE = ${engine} ORDER BY (${order})${isDurable ? ` SETTINGS ${DURABLE_VALUES}` : ''}`
}

/** Makes a replica fetch what the log of its table has. Merges need not be waited for. */
export function syncReplica(table: string): string {
  return `SYSTEM SYNC REPLICA ${quoteClickHouseName(table)} LIGHTWEIGHT`
}

/** Tables that were made with the other durability. They are settings of each replica. */
export function otherDurability(isDurable: boolean): string {
  const has = DURABLE.map(({ set }) => `position(engine_full, '${set}') > 0`)
  const isOther = isDurable ? `NOT (${has.join(' AND ')})` : has.join(' OR ')
  return `SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND (${isOther})`
}

/** What ALTER TABLE does to give a table the durability. */
export function changeDurability(isDurable: boolean): string {
  return isDurable
    ? `MODIFY SETTING ${DURABLE_VALUES}`
    : `RESET SETTING ${DURABLE.map(({ name }) => name).join(', ')}`
}
