/**
 * A checksum of the rows of a pool that both stores compute: of each row the first 8 bytes of the
 * MD5 of its values as one text, added up modulo 2^64. The order of rows does not matter.
 *
 *   text of a row  its values one after another: N for null, else V and the value. A text stands
 *                  behind its length, a number before a comma. Times are µs, dates days, real
 *                  numbers the integer of their bits.
 */

import { syncedReplicas } from '../../cluster/clickhouse/synced-replicas.ts'
import { DELETED } from '../../cluster/clickhouse/table.ts'
import type { Topology } from '../../cluster/clickhouse/topology.ts'
import type { ColumnType, PoolSchema } from '../../format/schema.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import { groupSegments } from '../../query/arrow/export-stream.ts'
import { queryColumns } from '../../query/expression/operand.ts'
import type { QueryEngine } from '../../query/plan/query-task.ts'
import { quoteClickHouseName, quoteName } from '../../util/sql.ts'

const ANSWER_BYTES_MAX = 65_536
const SUM_END = 1n << 64n

export interface RowSum {
  readonly rows: number
  readonly sum: bigint
}

/** The integer that stands for a value, in the SQL of each store; undefined for texts. */
const INTEGER_OF: Readonly<Record<ColumnType, readonly [duckdb: Integer, clickHouse: Integer] | undefined>> =
  {
    BOOLEAN: [x => `${x}::INTEGER`, x => `toInt64(${x})`],
    STRING: undefined,
    JSON: undefined,
    FLOAT: [x => `${x}::BIT::INTEGER`, x => `reinterpretAsInt32(reinterpretAsString(${x}))`],
    DOUBLE: [x => `${x}::BIT::BIGINT`, x => `reinterpretAsInt64(reinterpretAsString(${x}))`],
    INT8: [x => x, x => x],
    INT16: [x => x, x => x],
    INT32: [x => x, x => x],
    INT64: [x => x, x => x],
    DATE: [x => `(${x} - DATE '1970-01-01')`, x => `toInt32(${x})`],
    TIMESTAMP: [x => `epoch_us(${x})`, x => `toUnixTimestamp64Micro(${x})`],
  }

type Integer = (column: string) => string

/** The checksum of the live rows of segments. Rejects with SegmentDamaged or Unavailable. */
export async function sumOfSegments(
  schema: PoolSchema,
  segments: readonly QuerySegment[],
  engine: QueryEngine,
  onRows: (rows: number) => void = () => {},
): Promise<RowSum> {
  const text = queryColumns(schema)
    .map(({ name, type }) => {
      const [x, integer] = [quoteName(name), INTEGER_OF[type]?.[0]]
      const value = integer === undefined ? `strlen(${x}) || ':' || ${x}` : `${integer(x)} || ','`
      return `coalesce('V' || ${value}, 'N')`
    })
    .join(' || ')
  const hash = `(md5_number(${text}) & ${SUM_END - 1n}::UHUGEINT)::UBIGINT`
  const statement = {
    sql: `SELECT count(*)::VARCHAR, coalesce(sum(${hash}), 0)::VARCHAR FROM rows`,
    bounds: [],
  }
  const sums: RowSum[] = []
  for (const group of groupSegments(segments)) {
    const { rows } = await engine.run({ schema, ...group, statement, rowsMax: 1 }, 'move')
    const sum = readSum(rows[0] ?? [])
    sums.push(sum)
    onRows(sum.rows)
  }
  return total(sums)
}

/**
 * The checksum of the rows that count, from a synced replica of each shard. Rejects with
 * ClickHouseError or Unavailable.
 */
export async function sumOfTable(table: string, schema: PoolSchema, topology: Topology): Promise<RowSum> {
  const replicas = await syncedReplicas([table], topology)
  const sql = tableSum(table, schema)
  const asked = replicas.map(async ({ http }) => {
    const { body } = await http.run(sql, {}, ANSWER_BYTES_MAX)
    return readSum(body.toString().trim().split('\t'))
  })
  return total(await Promise.all(asked))
}

/** The statement of one server. */
export function tableSum(table: string, schema: PoolSchema): string {
  const values = queryColumns(schema).map(({ name, type }) => {
    const [x, integer] = [quoteClickHouseName(name), INTEGER_OF[type]?.[1]]
    const value = integer === undefined ? `toString(length(${x})), ':', ${x}` : `toString(${integer(x)}), ','`
    return `ifNull(concat('V', ${value}), 'N')`
  })
  const hash = `reinterpretAsUInt64(MD5(concat(${values.join(', ')})))`
  const from = quoteClickHouseName(table)
  // FINAL: of the rows of a key the last one counts.
  const live = schema.key === null ? from : `${from} FINAL WHERE ${DELETED} = 0`
  return `SELECT toString(count()), toString(sum(${hash})) FROM ${live} FORMAT TabSeparated`
}

function readSum([rows, sum]: readonly (string | null | undefined)[]): RowSum {
  return { rows: Number(rows ?? 0), sum: BigInt(sum ?? 0) }
}

function total(sums: readonly RowSum[]): RowSum {
  const rows = sums.reduce((all, each) => all + each.rows, 0)
  return { rows, sum: sums.reduce((all, each) => all + each.sum, 0n) % SUM_END }
}
