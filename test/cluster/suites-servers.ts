/**
 * The servers of a run with WEIR_TEST_STORE. Prints their addresses, and ends them with its
 * standard input.
 *
 *   clickhouse18  two shards of two replicas of ClickHouse 18.16, each behind modern-proxy.ts
 *   chdb          ClickHouse 26.9, embedded: one shard of one replica, with tables of no replicas
 */
import { once } from 'node:events'
import { atEnd, endAll } from './at-end.ts'
import { startBridge } from './clickhouse.ts'
import { startClickhouse } from './clickhouse-servers.ts'
import { startModernProxy } from './modern-proxy.ts'
import { startZookeeper } from './zookeeper.ts'

async function proxies(zookeeperPort: number): Promise<string[]> {
  const servers = await startClickhouse({ zookeeperPort, shards: 2, replicas: 2 })
  const started = await Promise.all(servers.map(({ httpPort }) => startModernProxy(httpPort)))
  return started.map(({ port, close }) => {
    atEnd(close)
    return `http://127.0.0.1:${port}`
  })
}

async function bridge(): Promise<string> {
  const { url, stop } = await startBridge(['--cluster'])
  atEnd(stop)
  return url
}

const zookeeper = await startZookeeper({ tickMs: 2_000 })
const urls = process.env['WEIR_TEST_STORE'] === 'chdb' ? [await bridge()] : await proxies(zookeeper.port)
process.stdout.write(JSON.stringify({ urls, keeper: `127.0.0.1:${zookeeper.port}` }))
process.stdin.resume()
await once(process.stdin, 'end')
await endAll()
process.exit(0)
