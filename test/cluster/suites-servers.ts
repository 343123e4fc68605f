/**
 * The servers of a run with WEIR_TEST_STORE. Prints their addresses, and ends them with its
 * standard input.
 *
 *   clickhouse18  two shards of two replicas of ClickHouse 18.16, each behind clickhouse18.ts
 *   chdb          ClickHouse 26.9, embedded: one shard of one replica, with tables of no replicas
 */
import { once } from 'node:events'
import { atEnd, endAll } from './at-end.ts'
import { startBridge } from './clickhouse.ts'
import { startClickhouse } from './clickhouse-servers.ts'
import { startZookeeper } from './zookeeper.ts'

async function servers18(zookeeperPort: number): Promise<string[]> {
  const servers = await startClickhouse({ zookeeperPort, shards: 2, replicas: 2 })
  return servers.map(({ httpPort }) => `http://127.0.0.1:${httpPort}`)
}

async function bridge(): Promise<string> {
  const { url, stop } = await startBridge(['--cluster'])
  atEnd(stop)
  return url
}

const zookeeper = await startZookeeper({ tickMs: 2_000 })
const urls = process.env['WEIR_TEST_STORE'] === 'chdb' ? [await bridge()] : await servers18(zookeeper.port)
process.stdout.write(JSON.stringify({ urls, keeper: `127.0.0.1:${zookeeper.port}` }))
process.stdin.resume()
await once(process.stdin, 'end')
await endAll()
process.exit(0)
