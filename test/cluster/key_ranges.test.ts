/** Ranges of keys of every type find each row once, on 18.16 and 26.9. */
import { describe, expect, test } from 'vitest'
import { insertRows } from '../../src/cluster/clickhouse/insert-rows.ts'
import { KeyRanges } from '../../src/cluster/clickhouse/key-ranges.ts'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import { readTopology, type Topology } from '../../src/cluster/clickhouse/topology.ts'
import type { ColumnType, PoolSchema } from '../../src/format/schema.ts'
import { makeBatch, type Value } from '../util/make-batch.ts'
import { whyNoClickHouse } from './clickhouse.ts'
import { noClickhouse, startClickhouse } from './clickhouse-servers.ts'
import { oneServer } from './one-server.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

/** Values of keys, in their order. */
const VALUES: Readonly<Record<ColumnType, readonly Value[]>> = {
  BOOLEAN: [false, true],
  STRING: ['', "'", "\\'", 'a', 'a\0b', '{p1:String}', 'é', '\u{1f600}'],
  FLOAT: [-3.4028234663852886e38, -0.1, 0, 1.401298464324817e-45, 0.1, 1e10],
  DOUBLE: [-1.7976931348623157e308, -0.1, 0, 5e-324, 0.1, 0.1 + 2 ** -56, 1e300],
  INT8: [-128, -1, 0, 127],
  INT16: [-32768, 0, 32767],
  INT32: [-2147483648, 0, 2147483647],
  INT64: [-(2n ** 63n), -1n, 0n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n],
  DATE: [-719162, -25568, -1, 0, 120530, 2932896],
  TIMESTAMP: [-62135596800000000n, -1n, 0n, 1n, 1700000000123456n, 253402300799999999n],
  JSON: ['""', '[1]', '{"a":1}'],
}

function schemaOf(type: ColumnType): PoolSchema {
  const column = (name: string, of: ColumnType) => ({ name, type: of, jsonProperty: name, required: true })
  return {
    pool: 1,
    version: 1,
    columns: [column('k`e\\y', type), column('second', 'INT8')],
    timestamp: 0,
    tenant: -1,
    key: { columns: [0, 1], version: -1 },
  }
}

async function walk(topology: Topology, type: ColumnType, path: string | undefined) {
  const [table, schema] = [`DPO${type}`, schemaOf(type)]
  const { http } = topology.shards[0]![0]!
  await http.execute(createTable(table, schema, path), {})
  const rows = VALUES[type].flatMap(value => [-1, 1].map(second => [value, second] as const))
  const batch = makeBatch(
    schema,
    rows.map((values, index) => ({ key: `${index}`, values })),
  )
  const entry = { batch, requests: Float64Array.of(0, 0, rows.length, 1), versions: BigInt64Array.of(1n) }
  const options = { topology, quorum: { replicas: [1] } }
  await insertRows({ table, kind: 'post', schema, entries: [entry] }, options)
  const ranges = new KeyRanges(schema)
  const ask = async (sql: string) => {
    const { body } = await http.run(`${sql} FORMAT JSONCompact`, {}, 1e6)
    return (JSON.parse(body.toString()) as { data: string[][] }).data
  }
  const counts: number[] = []
  for (let after: readonly string[] | null = null, isLast = false; !isLast; ) {
    const [to = null]: (string[] | null)[] = await ask(ranges.selectEnd(table, after, 3))
    const condition: string = ranges.condition({ after, to })
    counts.push(Number((await ask(`SELECT count() FROM ${table} WHERE ${condition || '1'}`))[0]![0]))
    isLast = to === null || counts.length > rows.length
    after = to
  }
  const whole = Math.floor(rows.length / 3)
  expect(counts, type).toEqual([...Array.from({ length: whole }, () => 3), rows.length % 3])
}

const TYPES = Object.keys(VALUES) as ColumnType[]

describe('ranges', () => {
  test.skipIf((noZookeeper ?? noClickhouse) !== undefined)(
    `on 18.16 ${noZookeeper ?? noClickhouse ?? ''}`,
    async () => {
      const zookeeper = await startZookeeper({ tickMs: 2_000 })
      const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 1, replicas: 1 })
      const topology = await readTopology([{ url: `http://127.0.0.1:${servers[0]!.httpPort}` }], 'weir')
      for (const type of TYPES) await walk(topology, type, '/tables')
    },
  )

  test.skipIf(whyNoClickHouse() !== undefined)('on 26.9', async () => {
    const { topology } = await oneServer()
    for (const type of TYPES) await walk(topology, type, undefined)
  })
})
