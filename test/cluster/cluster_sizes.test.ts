/** Sizes of a cluster while some of its servers stand still or refuse. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { clusterSizes, watchCluster } from '../../src/app/cluster-sizes.ts'
import type { Replica, Topology } from '../../src/cluster/clickhouse/topology.ts'
import type { Cluster } from '../../src/cluster/cluster.ts'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import { recordLog } from '../util/log-lines.ts'

/** What a server says: its rows of one pool and its delay; undefined where it never answers. */
interface Says {
  status?: number
  is?: { readonly rows: number; readonly delay: number }
}

async function replica(says: Says): Promise<Replica> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    if (says.is === undefined) return
    const { rows, delay } = says.is
    const sql = Buffer.concat(chunks).toString()
    const data = sql.includes('system.replicas')
      ? [[String(delay)]]
      : sql.includes('system.disks')
        ? [['1000', '600']]
        : [['DPO1', '2', String(rows), '50']]
    response.writeHead(says.status ?? 200).end(JSON.stringify({ data }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  const http = new ClickHouseHttp(address)
  onTestFinished(() => http.close())
  return { http, address, name: 'r', tcp: '' }
}

async function clusterOf(shards: readonly (readonly Says[])[]) {
  const topology: Topology = {
    shards: await Promise.all(shards.map(each => Promise.all(each.map(replica)))),
    names: shards.map(String),
    replicas: shards.map(({ length }) => length),
    isHalved: shards.map(() => false),
  }
  const cluster = { topology: () => topology } as Pick<Cluster, 'topology' | 'keeper'>
  return { cluster, sizes: clusterSizes(cluster) }
}

test('a server that stands still leaves the sizes to the next one of its shard', async () => {
  const { sizes } = await clusterOf([
    [{}, { is: { rows: 3, delay: 7 } }],
    [{ is: { rows: 4, delay: 1 } }, { is: { rows: 5, delay: 90 } }],
  ])
  const asked = [sizes.of('DPO1'), sizes.read(), sizes.state({ rows: 0, oldestMs: 0 })]
  expect(await Promise.all(asked)).toMatchObject([
    { rows: 7, bytes: 100 },
    { parts: 4, bytes: 100, diskBytes: 2000, delaySeconds: 90 },
    { segments: 4, diskFreeBytes: 1200 },
  ])
})

test('a shard without an answer is one line for all gauges, until there is an answer again', async () => {
  const lines = recordLog()
  const says: Says = { status: 500, is: { rows: 3, delay: 2 } }
  const { cluster, sizes } = await clusterOf([[says, says]])
  const gauges = new Map<string, () => unknown>()
  const watched = { ...cluster, writableShards: () => 1 }
  watchCluster({ gauge: (name, _, reading) => void gauges.set(name, reading) }, watched, sizes)
  const page = () =>
    Promise.all(
      ['parts', 'bytes', 'replica_delay_seconds'].map(name => gauges.get(`weir_cluster_${name}`)!()),
    )
  for (const _ of [1, 2]) expect(await page()).toEqual([undefined, undefined, undefined])
  await expect(sizes.of('DPO1')).rejects.toMatchObject({ name: 'Unavailable', code: 'cluster_sizes' })
  expect(lines.map(({ message }) => message)).toEqual([
    expect.stringContaining('the sizes of the cluster cannot be read: '),
  ])
  says.status = 200
  expect(await page()).toEqual([2, 50, 2])
})
