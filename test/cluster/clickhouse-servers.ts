/**
 * ClickHouse servers on loopback, for tests of replication. Those of Debian's package (18.16) are a
 * vehicle of tests, not a version that Weir supports: clickhouse18.ts is before each.
 *
 *   WEIR_TEST_CLICKHOUSE   the binary of a modern version, which runs as `<binary> server`
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { temporaryFolder } from '../util/server.ts'
import { atEnd } from './at-end.ts'
import { type Known, startProxy18 } from './clickhouse18.ts'
import { type Restartable, restartable } from './restartable.ts'

const MODERN = process.env['WEIR_TEST_CLICKHOUSE']
export const isModern = MODERN !== undefined
const BINARY = MODERN ?? '/usr/sbin/clickhouse-server'
const TAG = isModern ? 'clickhouse' : 'yandex'

/** Why there are no servers to test with; undefined where there are. */
export const noClickhouse: string | undefined = existsSync(BINARY)
  ? undefined
  : `skipped: there is no ${BINARY} (apt-get install clickhouse-server, or WEIR_TEST_CLICKHOUSE)`

export interface Clickhouse extends Restartable {
  readonly httpPort: number
  readonly tcpPort: number
  /** The answer to a statement, as text. Rejects with what the server says. */
  query(sql: string, body?: Uint8Array): Promise<string>
  /** Kills it, and takes its disk away. */
  empty(): Promise<void>
  /** Names the first replicas alone in `remote_servers`. The next start knows it. */
  nameReplicas(count: number): void
}

export interface ClickhouseOptions {
  readonly zookeeperPort: number
  /** A list of replicas for each shard. */
  readonly shards: number
  readonly replicas: number
  /**
   * Where a server finds Keeper, or others find it to fetch its parts: another port than this one,
   * behind which this one is. Servers of 18.16 cannot say that they are found elsewhere.
   */
  linkTo?(port: number, what: 'keeper' | 'interserver', server: number): Promise<number>
}

interface Ports {
  readonly http: number
  readonly tcp: number
  readonly interserver: number
  readonly advertised: number
  readonly keeper: number
  readonly shard: number
  readonly replica: number
}

/** Starts shards × replicas servers, which know each other as the cluster `weir`. */
export async function startClickhouse(options: ClickhouseOptions): Promise<Clickhouse[]> {
  const { shards, replicas, zookeeperPort, linkTo = async port => port } = options
  const ports: Ports[] = []
  for (let shard = 1; shard <= shards; shard += 1)
    for (let replica = 1; replica <= replicas; replica += 1) {
      const interserver = await serverPort()
      ports.push({
        http: await serverPort(),
        tcp: await serverPort(),
        interserver,
        advertised: await linkTo(interserver, 'interserver', ports.length),
        keeper: await linkTo(zookeeperPort, 'keeper', ports.length),
        shard,
        replica,
      })
    }
  const known = { types: new Map() }
  return await Promise.all(ports.map(own => startServer(own, ports, known)))
}

/**
 * A free port that no outgoing connection takes before the server listens on it: Linux gives these
 * ports from 32768 on.
 */
export async function serverPort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = 10_000 + Math.floor(22_000 * Math.random())
    const holder = createServer().listen(port, '127.0.0.1')
    try {
      await once(holder, 'listening')
    } catch {
      continue // another server has it
    }
    holder.close()
    await once(holder, 'close')
    return port
  }
  throw new Error('no port is free')
}

async function startServer(own: Ports, all: readonly Ports[], known: Known): Promise<Clickhouse> {
  const folder = temporaryFolder('weir-clickhouse-')
  for (const name of FOLDERS) mkdirSync(join(folder, name))
  const nameReplicas = (count: number) => {
    const named = all.filter(({ replica }) => replica <= count)
    writeFileSync(join(folder, 'config.xml'), configOf(folder, own, named))
  }
  nameReplicas(all.length)
  writeFileSync(join(folder, 'users.xml'), USERS)
  const httpPort = isModern ? own.http : await proxyOf(own, all, known)
  const url = `http://127.0.0.1:${httpPort}/`
  const query = async (sql: string, body?: Uint8Array): Promise<string> => {
    const answer = await fetch(body === undefined ? url : `${url}?query=${encodeURIComponent(sql)}`, {
      method: 'POST',
      body: body === undefined ? sql : Buffer.from(body),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return text
  }
  const args = [...(isModern ? ['server'] : []), `--config-file=${join(folder, 'config.xml')}`]
  const run = () => spawn(BINARY, args, { stdio: 'ignore', cwd: folder })
  // Under load and faults a server of 40 tables was seen to take a minute.
  const answers = async () => {
    for (const endMs = Date.now() + 180_000; ; )
      try {
        await query('SELECT 1')
        return
      } catch (error) {
        if (Date.now() > endMs) throw error
        await new Promise(resolve => setTimeout(resolve, 100))
      }
  }
  const server = restartable(run, answers)
  await answers()
  const empty = async () => {
    await server.kill()
    for (const name of FOLDERS) {
      rmSync(join(folder, name), { recursive: true })
      mkdirSync(join(folder, name))
    }
  }
  return Object.assign(server, { httpPort, tcpPort: own.tcp, query, empty, nameReplicas })
}

async function proxyOf(own: Ports, all: readonly Ports[], known: Known): Promise<number> {
  const others = all.filter(({ shard, replica }) => shard === own.shard && replica !== own.replica)
  const proxy = await startProxy18({ port: own.http, others: others.map(({ http }) => http), known })
  atEnd(() => proxy.close())
  return proxy.port
}

const FOLDERS = ['data', 'tmp', 'format_schemas']
const USERS = `<${TAG}>
  <profiles><default><insert_quorum_timeout>5000</insert_quorum_timeout></default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile><quota>default</quota></default></users>
  <quotas><default></default></quotas>
</${TAG}>`

function configOf(folder: string, own: Ports, all: readonly Ports[]): string {
  const shardXml = (shard: number) =>
    `<shard><internal_replication>true</internal_replication>${all
      .filter(ports => ports.shard === shard)
      .map(({ tcp }) => `<replica><host>127.0.0.1</host><port>${tcp}</port></replica>`)
      .join('')}</shard>`
  const shards = [...new Set(all.map(({ shard }) => shard))]
  return `<${TAG}>
  <logger><level>warning</level><log>${folder}/log</log><errorlog>${folder}/errors</errorlog></logger>
  <http_port>${own.http}</http_port><tcp_port>${own.tcp}</tcp_port>
  <interserver_http_port>${own.interserver}</interserver_http_port>
  <interserver_advertised_port>${own.advertised}</interserver_advertised_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <listen_host>127.0.0.1</listen_host>
  <path>${folder}/data/</path><tmp_path>${folder}/tmp/</tmp_path>
  <format_schema_path>${folder}/format_schemas/</format_schema_path>
  <mark_cache_size>67108864</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size>
  <users_config>users.xml</users_config><default_profile>default</default_profile>
  <default_database>default</default_database><timezone>UTC</timezone>
  <zookeeper><node><host>127.0.0.1</host><port>${own.keeper}</port></node>
    <session_timeout_ms>6000</session_timeout_ms></zookeeper>
  <macros><shard>${own.shard}</shard><replica>r${own.replica}</replica></macros>
  <remote_servers><weir>${shards.map(shardXml).join('')}</weir></remote_servers>
</${TAG}>`
}
