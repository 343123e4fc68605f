/** A ClickHouse of clickhouse.ts as a cluster of one shard and replica. It ends with the test. */
import { onTestFinished } from 'vitest'
import type { Topology } from '../../src/cluster/clickhouse/topology.ts'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import { startClickHouse, type TestClickHouse } from './clickhouse.ts'

export async function oneServer(): Promise<{ readonly server: TestClickHouse; readonly topology: Topology }> {
  const server = await startClickHouse()
  onTestFinished(() => server.stop())
  const http = new ClickHouseHttp({ url: server.url })
  onTestFinished(() => http.close())
  const replica = { http, address: { url: server.url }, name: 'r1', tcp: '' }
  return {
    server,
    topology: { shards: [[replica]], names: ['1'], replicas: [1], isHalved: [false] },
  }
}
