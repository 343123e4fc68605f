/** Which servers there are: the shard and the replica of each address, as their macros say. */
import { type ClickHouseAddress, ClickHouseError, ClickHouseHttp } from '../../query/clickhouse/http.ts'
import { monotonicMs } from '../../util/clock.ts'
import { CannotRun, Unavailable } from '../../util/errors.ts'
import { warn } from '../../util/say.ts'
import { quoteClickHouseText } from '../../util/sql.ts'

/** The oldest version, as its major and its minor number. */
const OLDEST = [25, 3] as const
const ANSWER_BYTES_MAX = 1_048_576
/** A server that lives answers in milliseconds. */
const ANSWER_MS_MAX = 3_000
/**
 * A server that went is left alone after so long, one that is back is used, and a shard is halved.
 * A look is a statement or two on each server.
 */
const LOOK_MS = 1_000
/** A start waits so long for servers that do not answer, and asks them again after RETRY_MS. */
const START_MS_MAX = 30_000
const RETRY_MS = 500

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
  /** The shards' names, which are those of the macro. */
  readonly names: readonly string[]
  /** How many replicas each shard has, with those that do not answer. */
  readonly replicas: readonly number[]
  /** Of each shard: it has two replicas, and Keeper hears one of them. */
  readonly isHalved: readonly boolean[]
}

interface Found {
  readonly replica: Replica
  readonly shard: string
  /** How many the shard has, with those that do not answer. */
  readonly replicas: number
  /** How many the cluster has. */
  readonly shards: number
  readonly servers: number
}

/** The servers as they were last seen. */
export interface TopologyWatch {
  readonly topology: Topology
  /** How many shards can take rows. */
  readonly writable: number
  /** Asks all servers again, now. Never rejects. */
  look(): Promise<void>
  stop(): void
}

/**
 * Asks the servers every LOOK_MS. The shards stay what they are: other ones would have rows where
 * nobody looks for them. Rejects as `readTopology` does, at the start alone.
 */
export async function watchTopology(
  addresses: readonly ClickHouseAddress[],
  cluster: string,
): Promise<TopologyWatch> {
  const servers = addresses.map(address => ({ address, http: new ClickHouseHttp(address) }))
  const silent = new Set<Server>()
  const first = await firstLook(servers, cluster)
  let { topology } = first
  saySilent(servers, first.asked, silent)
  sayHalved(undefined, topology)
  let writable = writableShards(topology, first.asked)
  let said = ''
  const read = async () => {
    const asked = await askAll(servers, cluster)
    saySilent(servers, asked, silent)
    try {
      const now = await topologyOf(asked, cluster)
      if (String(now.names) !== String(topology.names))
        throw new CannotRun(
          `the cluster ${cluster} had the shards ${topology.names.join(', ')}, and now has ${now.names.join(', ')}`,
        )
      sayHalved(topology, now)
      topology = now
      said = ''
    } catch (error) {
      if (!(error instanceof CannotRun || error instanceof Unavailable)) throw error
      const isSaid = said === error.message || silent.size === servers.length
      if (!isSaid) warn(`the servers of the cluster stay as they were: ${error.message}`)
      said = error.message
    }
    writable = writableShards(topology, asked)
  }
  let looking: Promise<void> | undefined
  const look = () => {
    looking ??= read().finally(() => {
      looking = undefined
    })
    return looking
  }
  const timer = setInterval(() => void look(), LOOK_MS)
  return {
    get topology() {
      return topology
    },
    get writable() {
      return writable
    },
    look,
    stop() {
      clearInterval(timer)
      for (const { http } of servers) http.close()
    },
  }
}

/**
 * How many shards can take rows: as many of their replicas answered, and have Keeper, as an INSERT
 * needs.
 */
function writableShards({ names, replicas, isHalved }: Topology, asked: readonly Asked[]): number {
  const live = asked.flatMap(each => (each.status === 'fulfilled' ? [each.value.shard] : []))
  return names.filter((name, shard) => {
    const count = live.filter(each => each === name).length
    return count * 2 > (replicas[shard] ?? 0) || (count === 1 && isHalved[shard])
  }).length
}

/** Says which servers do not answer any more, and which do again. */
function saySilent(servers: readonly Server[], asked: readonly Asked[], silent: Set<Server>): void {
  for (const [index, server] of servers.entries()) {
    const each = asked[index]
    const reason = each?.status === 'rejected' && each.reason instanceof Unavailable ? each.reason : undefined
    if ((reason !== undefined) === silent.has(server)) continue
    if (reason === undefined) silent.delete(server)
    else silent.add(server)
    warn(reason?.message ?? `${nameOf(server)} answers again`)
  }
}

/** Says which shards are halved from now on, and which are no longer. */
function sayHalved(before: Topology | undefined, { names, isHalved }: Topology): void {
  for (const [shard, is] of isHalved.entries())
    if (is !== (before?.isHalved[shard] ?? false))
      warn(
        `shard ${names[shard]}: ${is ? 'one of its two replicas has left Keeper; the other one is the quorum' : 'its quorum is both of its replicas again'}, unless WEIR_CLICKHOUSE_QUORUM says otherwise`,
      )
}

/** Servers that all start at the same time answer after a while. */
async function firstLook(
  servers: readonly Server[],
  cluster: string,
): Promise<{ readonly asked: readonly Asked[]; readonly topology: Topology }> {
  for (const endMs = monotonicMs() + START_MS_MAX; ; )
    try {
      const asked = await askAll(servers, cluster)
      return { asked, topology: await topologyOf(asked, cluster) }
    } catch (error) {
      if (!(error instanceof Unavailable) || monotonicMs() > endMs) throw error
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
    }
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
  const servers = addresses.map(address => ({ address, http: new ClickHouseHttp(address) }))
  return await topologyOf(await askAll(servers, cluster), cluster)
}

type Server = Pick<Replica, 'address' | 'http'>

/** What a server has said, in the order of the addresses. */
type Asked = PromiseSettledResult<Found>

async function askAll(servers: readonly Server[], cluster: string): Promise<readonly Asked[]> {
  return await Promise.allSettled(servers.map(server => askServer(server, cluster)))
}

async function topologyOf(asked: readonly Asked[], cluster: string): Promise<Topology> {
  const found = asked.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
  const refused = asked.find(each => each.status === 'rejected' && each.reason instanceof CannotRun)
  if (refused?.status === 'rejected') throw refused.reason
  const [first] = found
  if (first === undefined) {
    const [failed] = asked
    throw failed?.status === 'rejected' ? failed.reason : new Unavailable('cluster_unreachable', 'no address')
  }
  const places = found.map(({ shard, replica }) => `${shard} ${replica.name}`)
  const twice = found.find((_, at) => places.indexOf(places[at] ?? '') < at)
  if (twice !== undefined)
    throw new CannotRun(
      `${twice.replica.address.url} has the shard and the replica of another address: name each server once, and give each macros of its own`,
    )
  if (asked.length < first.servers)
    throw new CannotRun(
      `the cluster ${cluster} has ${first.servers} servers, and WEIR_CLICKHOUSE_URL names ${asked.length}: name each, as each has tables`,
    )
  const names = [...new Set(found.map(({ shard }) => shard))].sort()
  if (names.length !== first.shards)
    throw new CannotRun(
      `the cluster ${cluster} has ${first.shards} shards, and the servers of WEIR_CLICKHOUSE_URL that answer are of ${names.length} of them`,
    )
  const ofShards = names.map(name => found.filter(({ shard }) => shard === name))
  const isHalved = await Promise.all(ofShards.map(isHalvedShard))
  return {
    shards: ofShards.map(each => each.map(({ replica }) => replica)),
    names,
    replicas: ofShards.map(each => Math.max(...each.map(({ replicas }) => replicas))),
    isHalved,
  }
}

/**
 * A replica that does not answer Weir may still take part for the others. So the one that is left
 * is asked how many replicas of a table have a session. A database without tables has no rows.
 */
async function isHalvedShard([found, ...others]: readonly Found[]): Promise<boolean> {
  if (found === undefined || others.length > 0 || found.replicas !== 2) return false
  const [active] = await linesOf(
    found.replica,
    `SELECT active_replicas FROM system.replicas WHERE database = currentDatabase() AND table = (
       SELECT min(name) FROM system.tables WHERE database = currentDatabase() AND engine LIKE 'Replicated%')`,
  )
  return active === '1'
}

/** What a server says of itself; numbers may be texts. */
interface About {
  readonly version: string
  readonly macros: readonly (readonly [name: string, value: string])[]
  /** Servers of the cluster: is it the one that is asked, number of the shard, host, port. */
  readonly members: readonly (readonly string[])[]
  /** Tables whose session of Keeper has expired. */
  readonly lost: number | string
}

function aboutServer(cluster: string): string {
  const isOf = `cluster = ${quoteClickHouseText(cluster)}`
  return `SELECT version() AS version,
    (SELECT groupArray([macro, substitution]) FROM system.macros) AS macros,
    (SELECT groupArray([toString(is_local), toString(shard_num), host_name, toString(port)]) FROM system.clusters WHERE ${isOf}) AS members,
    (SELECT countIf(is_session_expired) FROM system.replicas WHERE database = currentDatabase()) AS lost FORMAT JSONEachRow`
}

function aboutOf(answer: string): About | undefined {
  try {
    const about = JSON.parse(answer) as Partial<About>
    return about.version !== undefined && about.members !== undefined ? (about as About) : undefined
  } catch {
    return undefined
  }
}

/**
 * Rejects with CannotRun, or with Unavailable where the server does not answer, or has lost Keeper:
 * it takes no rows then, and cannot say that it has all of them.
 */
async function askServer(server: Server, cluster: string): Promise<Found> {
  const { http, address } = server
  const [answer = ''] = await linesOf(server, aboutServer(cluster))
  const about = aboutOf(answer)
  if (about === undefined) throw new CannotRun(`${address.url} does not answer as ClickHouse does`)
  const { version, macros, members, lost } = about
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isSupported = major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])
  if (!isSupported)
    throw new CannotRun(`${address.url} is ClickHouse ${version}; Weir needs ${OLDEST.join('.')} or newer`)
  const macro = (name: string) => macros.find(each => each[0] === name)?.[1]
  const [shard, name] = [macro('shard'), macro('replica')]
  if (shard === undefined || name === undefined)
    throw new CannotRun(
      `${address.url} has no macros {shard} and {replica}, by which replicas find each other`,
    )
  const [, place, host, port] = members.find(([isLocal]) => isLocal === '1') ?? []
  if (host === undefined)
    throw new CannotRun(`${address.url} is in no cluster ${cluster} of its remote_servers`)
  if (Number(lost) > 0) throw new Unavailable('cluster_unreachable', `${nameOf(server)} has lost Keeper`)
  return {
    replica: { http, address, name, tcp: `${host}:${port}` },
    shard,
    replicas: members.filter(member => member[1] === place).length,
    shards: new Set(members.map(member => member[1])).size,
    servers: members.length,
  }
}

/** As lines of the log name it. */
function nameOf({ address }: Server): string {
  return `the replica at ${new URL(address.url).host}`
}

/** Rejects with Unavailable, whose message names the server. */
async function linesOf(server: Server, sql: string): Promise<string[]> {
  const late = AbortSignal.timeout(ANSWER_MS_MAX)
  try {
    const { body } = await server.http.run(sql, {}, ANSWER_BYTES_MAX, late)
    return body
      .toString()
      .split('\n')
      .filter(line => line !== '')
  } catch (error) {
    if (!late.aborted && !(error instanceof ClickHouseError || error instanceof Unavailable)) throw error
    const [why] = late.aborted ? ['no answer in time'] : (error as Error).message.split('\n')
    throw new Unavailable('cluster_unreachable', `${nameOf(server)} cannot be asked: ${why}`)
  }
}
