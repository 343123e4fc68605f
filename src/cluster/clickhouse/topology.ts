/**
 * Which servers there are: the shard and the replica of each address, as their macros say, and what
 * they can do.
 */
import { type ClickHouseAddress, ClickHouseHttp } from '../../query/clickhouse/http.ts'
import { CannotRun, Unavailable } from '../../util/errors.ts'
import { quoteClickHouseText } from '../../util/sql.ts'
import type { ServerFeatures } from './table.ts'

/** The oldest version that Weir supports. Older ones may run tests of replication. */
const OLDEST = 25.3
const VEHICLE = 18.16
const ANSWER_BYTES_MAX = 1_048_576

export interface Replica {
  readonly http: ClickHouseHttp
  readonly address: ClickHouseAddress
  readonly name: string
  /** How other servers reach it, from `remote_servers`. */
  readonly tcp: string
}

export interface Topology {
  /** The replicas of each shard, in the order of the cluster's shards. */
  readonly shards: readonly (readonly Replica[])[]
  readonly features: ServerFeatures
}

interface Found {
  readonly replica: Replica
  readonly shard: string
  readonly version: number
}

/**
 * Asks every address. A replica that does not answer is left out where another one of its shard
 * does. Rejects with CannotRun where a shard has none, or with Unavailable where nobody answers.
 * @param cluster its name in `remote_servers`
 */
export async function readTopology(
  addresses: readonly ClickHouseAddress[],
  cluster: string,
): Promise<Topology> {
  const asked = await Promise.allSettled(addresses.map(address => askServer(address, cluster)))
  const found = asked.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
  const refused = asked.find(each => each.status === 'rejected' && each.reason instanceof CannotRun)
  if (refused?.status === 'rejected') throw refused.reason
  const [first] = found
  if (first === undefined) {
    const [failed] = asked
    throw failed?.status === 'rejected' ? failed.reason : new Unavailable('cluster_unreachable', 'no address')
  }
  const count = await shardCount(first.replica.http, cluster)
  const names = [...new Set(found.map(({ shard }) => shard))].sort()
  if (names.length !== count)
    throw new CannotRun(
      `the cluster ${cluster} has ${count} shards, and the servers of WEIR_CLICKHOUSE_URL that answer are of ${names.length} of them`,
    )
  const versions = found.map(({ version }) => version)
  return {
    shards: names.map(name => found.flatMap(({ shard, replica }) => (shard === name ? [replica] : []))),
    features: { hasTimes: Math.min(...versions) >= OLDEST },
  }
}

async function askServer(address: ClickHouseAddress, cluster: string): Promise<Found> {
  const http = new ClickHouseHttp(address)
  const ask = async (sql: string) => lines((await http.run(sql, {}, ANSWER_BYTES_MAX)).body)
  const [printed = ''] = await ask('SELECT version()')
  const version = Number(/^\d+\.\d+/.exec(printed)?.[0])
  if (!(version >= OLDEST || version === VEHICLE))
    throw new CannotRun(`${address.url} is ClickHouse ${printed}; Weir needs ${OLDEST} or newer`)
  const macros = new Map(
    (await ask('SELECT macro, substitution FROM system.macros')).map(line => {
      const [name = '', value = ''] = line.split('\t')
      return [name, value] as const
    }),
  )
  const [shard, name] = [macros.get('shard'), macros.get('replica')]
  if (shard === undefined || name === undefined)
    throw new CannotRun(
      `${address.url} has no macros {shard} and {replica}, by which replicas find each other`,
    )
  const own = await ask(
    `SELECT host_name, port FROM system.clusters WHERE cluster = ${quoteClickHouseText(cluster)} AND is_local`,
  )
  const [host = '', port = ''] = (own[0] ?? '').split('\t')
  if (host === '') throw new CannotRun(`${address.url} is in no cluster ${cluster} of its remote_servers`)
  return { replica: { http, address, name, tcp: `${host}:${port}` }, shard, version }
}

async function shardCount(http: ClickHouseHttp, cluster: string): Promise<number> {
  const sql = `SELECT count(DISTINCT shard_num) FROM system.clusters WHERE cluster = ${quoteClickHouseText(cluster)}`
  return Number(lines((await http.run(sql, {}, ANSWER_BYTES_MAX)).body)[0])
}

function lines(body: Buffer): string[] {
  return body
    .toString()
    .split('\n')
    .filter(line => line !== '')
}
