/** Nodes of Weir on a cluster of ClickHouse and ZooKeeper, all on loopback. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { adminOf, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { atEnd } from './at-end.ts'
import { startBridge, whyNoClickHouse } from './clickhouse.ts'
import { type Clickhouse, isModern, noClickhouse, startClickhouse } from './clickhouse-servers.ts'
import { noZookeeper, startZookeeper, type Zookeeper } from './zookeeper.ts'

export const noCluster: string | undefined = noZookeeper ?? noClickhouse

/** Why there are no servers of a version that Weir supports; undefined where there are. */
export const noModernServers: string | undefined =
  noCluster ?? (isModern ? undefined : 'skipped: WEIR_TEST_CLICKHOUSE names no modern ClickHouse')

export const ADMIN = { clientId: 'app', clientSecret: 'the-secret-of-the-first-application' }
const SESSION_MS = 6_000

/** A keyed pool. */
export const POOL = {
  uniqueName: 'orders',
  timestamp: 'at',
  uniqueId: 'id',
  columns: [
    { name: 'at', type: 'TIMESTAMP', jsonProperty: 'at', nullable: false },
    { name: 'id', type: 'STRING', jsonProperty: 'id', nullable: false },
    { name: 'n', type: 'INT64', jsonProperty: 'n', nullable: true },
  ],
} as const

/** The webhook URL of another node. */
export const atNode = (url: string, { base }: Pick<TestServer, 'base'>) => base + new URL(url).pathname

const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1'

/** The wall clock of a node is so far ahead, where libfaketime is there. Timeouts stay. */
export function clockAhead(seconds: number): Record<string, string> {
  if (!existsSync(FAKETIME)) return {}
  const ahead = `${seconds >= 0 ? '+' : ''}${seconds}s`
  return { LD_PRELOAD: FAKETIME, FAKETIME: ahead, DONT_FAKE_MONOTONIC: '1' }
}

/** The first application of a data folder, as the environment of a node. */
export function applicationOf({ dataDir }: Pick<TestServer, 'dataDir'>): Record<string, string> {
  const { clientId, clientSecret } = adminOf(dataDir)
  return { WEIR_CLIENT_ID: clientId, WEIR_CLIENT_SECRET: clientSecret }
}

/** Where nodes run. */
interface Nodes {
  /** The settings of the cluster, for commands. */
  readonly settings: Readonly<Record<string, string>>
  /** Starts a node, which ends with the test. */
  node(args?: readonly string[], env?: Readonly<Record<string, string>>): Promise<TestServer>
}

export interface TestCluster extends Nodes {
  readonly zookeeper: Zookeeper
  readonly servers: readonly Clickhouse[]
}

/** What the ClickHouse at hand can be: clickhouse26.py has no port for questions between shards. */
const SIZE = { shards: isModern ? 1 : 2, replicas: 2 }

/** Unless told, a shard of two replicas, or two of 18.16. They end with the test. */
export async function startCluster(size = SIZE): Promise<TestCluster> {
  const zookeeper = await startZookeeper({ tickMs: 2_000 })
  const servers = await startClickhouse({ zookeeperPort: zookeeper.port, ...size })
  const urls = servers.map(({ httpPort }) => `http://127.0.0.1:${httpPort}`)
  return { zookeeper, servers, ...nodesOn(urls, zookeeper) }
}

/** Why there is no ClickHouse 26.9 for nodes; undefined where there is. */
export const noModernCluster = (): string | undefined => noZookeeper ?? whyNoClickHouse()

/** ClickHouse 26.9, embedded: one shard of one replica. It ends with the test. */
export async function startModernCluster(): Promise<Nodes> {
  const zookeeper = await startZookeeper({ tickMs: 2_000 })
  const { url, stop } = await startBridge(['--cluster'])
  atEnd(stop)
  return nodesOn([url], zookeeper)
}

/** Nodes that have these addresses of ClickHouse, one for each server. */
export function nodesOn(urls: readonly string[], zookeeper: Pick<Zookeeper, 'port'>): Nodes {
  const settings = {
    WEIR_STORE: 'clickhouse',
    WEIR_CLICKHOUSE_URL: urls.join(','),
    WEIR_CLICKHOUSE_CLUSTER: 'weir',
    WEIR_KEEPER: `127.0.0.1:${zookeeper.port}`,
    WEIR_KEEPER_SESSION_MS: String(SESSION_MS),
    WEIR_SECRET_KEY: '07'.repeat(32),
    WEIR_CLIENT_ID: ADMIN.clientId,
    WEIR_CLIENT_SECRET: ADMIN.clientSecret,
  }
  const node = async (args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) => {
    // What helps to ask reads the secret where a server of one machine has it.
    const dataDir = join(temporaryFolder(), 'data')
    mkdirSync(dataDir)
    writeFileSync(join(dataDir, 'admin.json'), JSON.stringify(ADMIN))
    const server = await startServer({ dataDir, args, env: { ...settings, ...env } })
    atEnd(async () => {
      await server.kill()
    })
    return server
  }
  return { settings, node }
}
