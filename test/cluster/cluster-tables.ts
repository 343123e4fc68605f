/** The rows of segments as tables of a ClickHouse, and an engine that asks them. */
import { DuckDBInstance } from '@duckdb/node-api'
import type { ColumnType } from '../../src/format/schema.ts'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { ClickHouseEngine } from '../../src/query/clickhouse/engine.ts'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import type { PoolTable } from '../../src/query/clickhouse/rows.ts'
import { queryColumns } from '../../src/query/expression/operand.ts'
import type { QueryEngine } from '../../src/query/plan/query-task.ts'
import type { PoolSegments } from '../../src/query/plan/segment-task.ts'
import { quoteClickHouseName, quoteName, quoteText } from '../../src/util/sql.ts'
import { startClickHouse, type TestClickHouse } from './clickhouse.ts'

const TYPES: Readonly<Record<ColumnType, string>> = {
  BOOLEAN: 'Bool',
  STRING: 'String',
  FLOAT: 'Float32',
  DOUBLE: 'Float64',
  INT8: 'Int8',
  INT16: 'Int16',
  INT32: 'Int32',
  INT64: 'Int64',
  DATE: 'Date32',
  TIMESTAMP: "DateTime64(6, 'UTC')",
  JSON: 'String',
}

export class ClusterTables {
  readonly engine: QueryEngine
  readonly #clickHouse: TestClickHouse
  readonly #http: ClickHouseHttp
  readonly #tables = new Map<string, Promise<PoolTable>>()
  #instance: DuckDBInstance | undefined

  private constructor(clickHouse: TestClickHouse, parser: QueryEngine) {
    this.#clickHouse = clickHouse
    this.#http = new ClickHouseHttp({ url: clickHouse.url })
    this.engine = new ClickHouseEngine({
      parser,
      placeOf: async pools => ({
        http: this.#http,
        // Tests ask it about segments, as the local engine.
        tables: await Promise.all(pools.map(rows => this.tableOf(rows as PoolSegments))),
      }),
    })
  }

  static async start(parser: QueryEngine): Promise<ClusterTables> {
    return new ClusterTables(await startClickHouse(), parser)
  }

  get url(): string {
    return this.#clickHouse.url
  }

  query(sql: string): Promise<string> {
    return this.#clickHouse.query(sql)
  }

  async stop(): Promise<void> {
    await this.engine.stop()
    this.#http.close()
    this.#instance?.closeSync()
    await this.#clickHouse.stop()
  }

  /** The table of these rows, which is made at the first use. */
  tableOf(rows: PoolSegments): Promise<PoolTable> {
    const { schema, segments } = rows
    const parts = segments.map(each => [each.file, each.deletionVectors.map(part => [...part.rows])])
    const key = JSON.stringify([schema.pool, schema.version, parts])
    const table = this.#tables.get(key) ?? this.#load(rows, `pool_${this.#tables.size + 1}`)
    this.#tables.set(key, table)
    return table
  }

  /** A key has its row, and a tombstone where the row is deleted. */
  async #load({ schema, segments }: PoolSegments, table: string): Promise<PoolTable> {
    const columns = queryColumns(schema)
    const types = columns.map(({ name, type }) => `${quoteClickHouseName(name)} Nullable(${TYPES[type]})`)
    await this.query(
      `CREATE TABLE ${table} (${types.join(', ')}, _row UInt64, _version UInt64, _deleted UInt8)
       ENGINE = ReplacingMergeTree(_version) ORDER BY _row`,
    )
    this.#instance ??= await DuckDBInstance.create(':memory:')
    const parts: Buffer[] = []
    let row = 0
    for (const segment of segments)
      for (const [index, cells] of (await this.#rowsOf(segment, columns)).entries()) {
        const isDeleted = segment.deletionVectors.some(each => each.rows.includes(index))
        row += 1
        const values = cells.map((cell, at) => encode(columns[at]!.type, cell))
        parts.push(...values, encodeEnd(row, 1n, 0))
        if (isDeleted) parts.push(...values, encodeEnd(row, 2n, 1))
      }
    const query = `INSERT INTO ${table} FORMAT RowBinary`
    if (parts.length > 0) await this.#http.run(Buffer.concat(parts), { query }, 1e6)
    return { table, isLive: '_deleted = 0', key: ['_row'] }
  }

  async #rowsOf({ file }: QuerySegment, columns: ReturnType<typeof queryColumns>) {
    const connection = await this.#instance!.connect()
    await connection.run("SET TimeZone = 'UTC'")
    const found = await connection.runAndReadAll(`SELECT * FROM read_parquet(${quoteText(file)}) LIMIT 0`)
    const names = new Set(found.columnNames())
    const list = columns.map(({ name, type }) => {
      if (!names.has(name)) return 'NULL'
      if (type === 'TIMESTAMP') return `epoch_us(${quoteName(name)})`
      return type === 'DATE'
        ? `${quoteName(name)} - DATE '1970-01-01'`
        : `encode(${quoteName(name)}::VARCHAR)`
    })
    const rows = await connection.runAndReadAll(
      `SELECT ${list.join(', ')} FROM read_parquet(${quoteText(file)}, file_row_number = true) ORDER BY file_row_number`,
    )
    connection.closeSync()
    return rows.getRows() as readonly (readonly unknown[])[]
  }
}

function encodeEnd(row: number, version: bigint, deleted: number): Buffer {
  const bytes = Buffer.alloc(17)
  bytes.writeBigUInt64LE(BigInt(row), 0)
  bytes.writeBigUInt64LE(version, 8)
  bytes.writeUInt8(deleted, 16)
  return bytes
}

/** A value of a nullable column in RowBinary. Texts come as bytes: the package cuts U+FEFF off. */
function encode(type: ColumnType, cell: unknown): Buffer {
  if (cell === null) return Buffer.from([1])
  const bytes = Buffer.alloc(9)
  const text = () => Buffer.from((cell as { bytes: Uint8Array }).bytes)
  switch (type) {
    case 'STRING':
    case 'JSON':
      return Buffer.concat([Buffer.from([0]), size(text().length), text()])
    case 'BOOLEAN':
      return Buffer.from([0, text().toString() === 'true' ? 1 : 0])
    case 'FLOAT':
      bytes.writeFloatLE(Number(text().toString()), 1)
      return bytes.subarray(0, 5)
    case 'DOUBLE':
      bytes.writeDoubleLE(Number(text().toString()), 1)
      return bytes
    case 'TIMESTAMP':
      bytes.writeBigInt64LE(cell as bigint, 1)
      return bytes
    case 'INT64':
      bytes.writeBigInt64LE(BigInt(text().toString()), 1)
      return bytes
    case 'DATE':
      bytes.writeInt32LE(Number(cell), 1)
      return bytes.subarray(0, 5)
    default: {
      const length = { INT8: 1, INT16: 2, INT32: 4 }[type]
      bytes.writeIntLE(Number(text().toString()), 1, length)
      return bytes.subarray(0, 1 + length)
    }
  }
}

function size(length: number): Buffer {
  const bytes: number[] = []
  let rest = length
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return Buffer.from([...bytes, rest])
}
