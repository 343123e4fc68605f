/** Rows that were dropped as known are looked for on the replicas that there are by then. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { insertProven } from '../../src/cluster/clickhouse/stored-rows.ts'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import { makeBatch } from '../util/make-batch.ts'

const SCHEMA = { pool: 1, version: 1, columns: [], timestamp: -1, tenant: -1, key: null }

/** A replica that has the row in a part. */
async function replica(name: string) {
  const server = createServer((_, response) => response.end('{"data": [["all_0_0_0", "1"]]}'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const http = new ClickHouseHttp({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
  onTestFinished(() => {
    http.close()
    server.close()
  })
  return { http, address: { url: '' }, name, tcp: '' }
}

test('a replica that comes back during the tries is asked', async () => {
  const replicas = await Promise.all(['r1', 'r2'].map(replica))
  let calls = 0
  const options = () => ({
    topology: {
      shards: [calls < 2 ? replicas.slice(0, 1) : replicas],
      names: ['1'],
      replicas: [3],
      isHalved: [false],
    },
    quorum: { replicas: [2] },
  })
  const batch = makeBatch(SCHEMA, [{ payload: '{}', key: '', values: [] }])
  const entries = [{ batch, requests: Float64Array.of(0, 1_000_000, 1, 1), versions: BigInt64Array.of(1n) }]
  const rows = { table: 'DPO01', kind: 'post' as const, schema: SCHEMA, entries }
  const keeper = { sync: async () => {}, getChildren: async () => [] }
  await insertProven(rows, options, { keeper, path: '/tables' }, async () => {
    calls += 1
    return [{ shard: 0, rows: 1, quorum: 2 }]
  })
  expect(calls).toBe(2)
})
