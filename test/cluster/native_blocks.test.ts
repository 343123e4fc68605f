/** Blocks of rows, as real servers of ClickHouse read them: two shards of two replicas. */
import { describe, expect, test } from 'vitest'
import { nativeBlocks, shardsOf } from '../../src/cluster/clickhouse/native-block.ts'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import { deleteSchema, type PoolSchema } from '../../src/format/schema.ts'
import { quoteClickHouseName } from '../../src/util/sql.ts'
import { makeBatch, type Row, type Value } from '../util/make-batch.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { noClickhouse, startClickhouse } from './clickhouse-servers.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const SEED = newSeed()
const NAME = 'DPO01'

const column = (name: string, type: PoolSchema['columns'][number]['type'], required = false) => ({
  name,
  type,
  jsonProperty: name,
  required,
})
const SCHEMA: PoolSchema = {
  pool: 1,
  version: 1,
  columns: [
    column('at', 'TIMESTAMP', true),
    column('id', 'STRING', true),
    column('bool', 'BOOLEAN'),
    column('i8', 'INT8'),
    column('i16', 'INT16', true),
    column('i64', 'INT64'),
    column('f', 'FLOAT'),
    column('d', 'DOUBLE', true),
    column('day', 'DATE'),
    column('it\\ is `quoted`', 'JSON'),
  ],
  timestamp: 0,
  tenant: -1,
  key: { columns: [0, 1], version: -1 },
}

const FLOAT = SCHEMA.columns.findIndex(({ name }) => name === 'f')

function randomRow(random: () => number, keys: number): { readonly row: Row; readonly values: Value[] } {
  const whole = (bound: number) => Math.floor(random() * bound)
  const orNull = <T extends Value>(value: T) => (random() < 0.3 ? null : value)
  const id = `id ${whole(keys)} ü\0'`
  const values: Value[] = [
    BigInt(whole(5) - 2) * 3_155_760_000_000_000n + 1n,
    id,
    orNull(random() < 0.5),
    orNull(whole(256) - 128),
    whole(65_536) - 32_768,
    orNull(BigInt.asIntN(64, BigInt(whole(2 ** 32)) << 32n)),
    orNull(Math.fround(random())),
    random() * 10 ** whole(300),
    orNull(whole(3_000_000) - 719_000),
    orNull(`{"a": "${'x'.repeat(whole(300))}\\n"}`),
  ]
  return { row: { payload: `{"id":${whole(9)}}`, key: `${values[0]}/${id}`, values }, values }
}

describe.skipIf((noZookeeper ?? noClickhouse) !== undefined)(
  `blocks ${noZookeeper ?? noClickhouse ?? ''}`,
  () => {
    test(`are read as what they hold, on the shard of their key, seed ${SEED}`, async () => {
      const zookeeper = await startZookeeper({ tickMs: 1_000 })
      const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 2, replicas: 2 })
      for (const server of servers) await server.query(createTable(NAME, SCHEMA, '/tables'))
      const random = randomFrom(SEED)
      const model = new Map<string, { readonly values: Value[] | null; readonly receivedAt: number }>()
      let version = 1n
      for (let insert = 0; insert < 12; insert += 1) {
        const entries = Array.from({ length: 1 + Math.floor(random() * 3) }, () => {
          const rows: Row[] = []
          const requests: number[] = []
          const versions: bigint[] = []
          for (let request = 0; request < 3; request += 1) {
            const first = 1_700_000_000_000_000 + 1_000 * insert + request
            const count = 1 + Math.floor(random() * 20)
            requests.push(request, first, count, 1)
            version += 1_000n
            versions.push(version)
            for (let index = 0; index < count; index += 1) {
              const { row, values } = randomRow(random, 40)
              rows.push(row)
              model.set(`${values[0]}/${values[1]}`, { values, receivedAt: first + index })
            }
          }
          return {
            batch: makeBatch(SCHEMA, rows),
            requests: Float64Array.from(requests),
            versions: BigInt64Array.from(versions),
          }
        })
        version += 1_000n
        const deleted = [...model.keys()].filter(() => random() < 0.1)
        const schema = deleteSchema(SCHEMA)
        const tombstones = deleted.map(key => {
          const [at, ...id] = key.split('/')
          model.delete(key)
          return { payload: '', key, values: [BigInt(at!), id.join('/')] }
        })
        const deletes = {
          batch: makeBatch(schema, tombstones),
          requests: Float64Array.of(1, 0, tombstones.length, 1),
          versions: BigInt64Array.of(version),
        }
        version += BigInt(tombstones.length)
        for (const shard of [0, 1]) {
          const replica = servers[2 * shard + (insert % 2)]!
          for (const [of, kind, parts] of [
            [SCHEMA, 'post', entries],
            [schema, 'delete', [deletes]],
          ] as const) {
            const block = nativeBlocks(of, kind, parts, 2)[shard]?.bytes
            if (block === undefined) continue
            const own = kind === 'post' ? ['_service_received_at', '_service_payload'] : []
            const names = [...own, ...of.columns.map(({ name }) => name), '_version', '_deleted']
            await replica.query(
              `INSERT INTO ${NAME} (${names.map(quoteClickHouseName).join(', ')}) FORMAT Native`,
              block,
            )
          }
        }
      }
      const seen = new Map<string, unknown[]>()
      for (const shard of [0, 1])
        for (const replica of [0, 1]) {
          const server = servers[2 * shard + replica]!
          await server.query(`SYSTEM SYNC REPLICA ${NAME}`)
          const printed = await server.query(
            `SELECT * FROM ${NAME} FINAL WHERE _deleted = 0 FORMAT JSONCompact`,
          )
          for (const row of (JSON.parse(printed) as { data: unknown[][] }).data) {
            const key = `${row[2]}/${row[3]}`
            if (replica === 0) {
              expect(seen.has(key)).toBe(false)
              seen.set(key, row)
            } else expect(row).toEqual(seen.get(key))
          }
        }
      expect(new Set(seen.keys())).toEqual(new Set(model.keys()))
      for (const [key, { values, receivedAt }] of model) {
        const [received, , ...rest] = seen.get(key)!
        expect(received).toBe(String(receivedAt))
        // A float is printed as the shortest text that is the same float.
        const texts = (all: readonly unknown[]) =>
          all.map((value, index) =>
            String(index === FLOAT && value !== null ? Math.fround(Number(value)) : value),
          )
        expect(texts(rest.slice(0, values!.length))).toEqual(
          texts(values!.map(value => (typeof value === 'boolean' ? Number(value) : value))),
        )
      }
    })
  },
)

test('all rows of a key are on one shard, whichever batch they came in', () => {
  const rows = Array.from({ length: 500 }, (_, index) => ({ key: `k${index % 50}`, values: [] }))
  const schema = { ...SCHEMA, columns: [] }
  const entry = {
    batch: makeBatch(schema, rows),
    requests: Float64Array.of(1, 0, 500, 1),
    versions: BigInt64Array.of(7n),
  }
  const shards = shardsOf(entry, true, 3)
  const of = new Map<string, number>()
  for (const [index, { key }] of rows.entries()) {
    expect(of.get(key) ?? shards[index]).toBe(shards[index])
    of.set(key, shards[index]!)
  }
  expect(new Set(of.values())).toEqual(new Set([0, 1, 2]))
})

test('requests of a pool without a key are spread over the shards', () => {
  const schema = { ...SCHEMA, columns: [], key: null }
  const batch = makeBatch(schema, [{ key: '', values: [] }])
  const counts = [0, 0]
  for (let zxid = 0n; zxid < 1_000n; zxid += 1n) {
    const [shard] = shardsOf(
      { batch, requests: Float64Array.of(1, 0, 1, 1), versions: BigInt64Array.of(zxid << 16n) },
      false,
      2,
    )
    counts[shard!]! += 1
  }
  expect(Math.min(...counts)).toBeGreaterThan(400)
})
