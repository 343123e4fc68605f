/**
 * Faults of a cluster of which every part may be killed, stopped or cut off, alone or two at once.
 *
 * A node has its own connection to Keeper, a server its own to Keeper and to those that fetch its
 * parts, and all nodes have one to the HTTP port of each server.
 */
import type { TestServer } from '../util/server.ts'
import { type Clickhouse, isModern, startClickhouse } from './clickhouse-servers.ts'
import type { Gaps } from './fault-load.ts'
import { LINK_FAULTS, Link } from './link.ts'
import { clockAhead, nodesOn, startCluster, type TestCluster } from './nodes.ts'
import { standStill } from './stoppable-proxy.ts'
import { startZookeeper } from './zookeeper.ts'

/** A fault lasts as long, at random: sessions of Keeper are of 6 s. */
const [MS_MIN, MS_MAX] = [1_000, 12_000]
const NODES = 3

/** The connections of each kind. */
interface Links {
  /** Of nodes to servers. */
  readonly 'to HTTP': Link[]
  /** Of servers to each other. */
  readonly interserver: Link[]
  /** Of servers. */
  readonly 'server to Keeper': Link[]
  readonly 'node to Keeper': Link[]
}

export interface FaultyCluster extends Pick<TestCluster, 'servers' | 'zookeeper'> {
  /** The present ones. */
  readonly nodes: TestServer[]
  readonly links: Links
  /** How many replicas each shard has. */
  readonly replicas: number
  startNode(index: number): Promise<TestServer>
}

/** Five minutes late, right, and five minutes ahead. */
const clockOf = (index: number) => clockAhead((index - 1) * 300)

/** One shard of three replicas, or of 18.16 two shards of two, without links. Three nodes. */
export async function startFaultyCluster(): Promise<FaultyCluster> {
  const links: Links = { 'to HTTP': [], interserver: [], 'server to Keeper': [], 'node to Keeper': [] }
  const { start, ...parts } = isModern ? await linkedCluster(links) : await plainCluster()
  const nodes: TestServer[] = []
  for (let index = 0; index < NODES; index += 1) nodes.push(await start(index))
  return { ...parts, nodes, links, startNode: start }
}

async function plainCluster() {
  const { zookeeper, servers, node } = await startCluster()
  return { zookeeper, servers, replicas: 2, start: (index: number) => node([], clockOf(index)) }
}

async function linkedCluster(links: Links) {
  const zookeeper = await startZookeeper({ tickMs: 2_000 })
  const linked = async (list: Link[], port: number) => {
    const link = await Link.to(port)
    list.push(link)
    return link.port
  }
  const servers = await startClickhouse({
    ...{ zookeeperPort: zookeeper.port, shards: 1, replicas: 3 },
    linkTo: (port, what) => linked(links[what === 'keeper' ? 'server to Keeper' : what], port),
  })
  const urls: string[] = []
  for (const { httpPort } of servers)
    urls.push(`http://127.0.0.1:${await linked(links['to HTTP'], httpPort)}`)
  for (let index = 0; index < NODES; index += 1) await linked(links['node to Keeper'], zookeeper.port)
  const start = (index: number) => {
    const keeper = `127.0.0.1:${links['node to Keeper'][index]!.port}`
    return nodesOn(urls, zookeeper).node([], { ...clockOf(index), WEIR_KEEPER: keeper })
  }
  return { zookeeper, servers, replicas: 3, start }
}

const PROCESS_KINDS = [
  'node killed',
  'server killed',
  'Keeper killed',
  'node stopped',
  'server stopped',
  'Keeper stopped',
]
/** Of the modern cluster. */
const MORE_KINDS = [
  'server ended',
  ...['to HTTP', 'interserver', 'server to Keeper', 'node to Keeper'].flatMap(link =>
    LINK_FAULTS.map(fault => `${link} ${fault}`),
  ),
]
const TWO = 'two at once'

/** So many faults, each kind as often as any other, and a fifth of them two at once. */
export function kindsOf(count: number): string[] {
  const kinds = isModern ? [...PROCESS_KINDS, ...MORE_KINDS] : PROCESS_KINDS
  const two = isModern ? Math.round(count / 5) : 0
  return Array.from({ length: count }, (_, index) =>
    index < two ? TWO : kinds[(index - two) % kinds.length]!,
  )
}

export class ClusterFaults {
  readonly #gaps = new Map<string, Gaps[]>()
  /** The last ones, for who reads a failure. */
  readonly said: string[] = []
  readonly #cluster: FaultyCluster
  readonly #random: () => number

  constructor(cluster: FaultyCluster, random: () => number) {
    this.#cluster = cluster
    this.#random = random
  }

  /** Resolves when everything is whole again. */
  async make(kind: string): Promise<void> {
    const kinds = kind === TWO ? this.#two() : [kind]
    const ms = MS_MIN + this.#random() * (MS_MAX - MS_MIN)
    this.said.push(`${new Date().toISOString()} ${kinds.join(' and ')} for ${Math.round(ms)} ms`)
    const ends: (() => unknown)[] = []
    // What starts again needs the rest of the cluster.
    for (const each of kinds)
      ends[each.endsWith('killed') || each.endsWith('ended') ? 'push' : 'unshift'](await this.#begin(each))
    await new Promise(resolve => setTimeout(resolve, ms)) // the fault is its length
    for (const end of ends) await end()
  }

  /** The pauses by a fault. */
  took(kind: string, gaps: Gaps): void {
    this.#gaps.set(kind, [...(this.#gaps.get(kind) ?? []), gaps])
    this.said.push(
      `${this.said.pop()}: pauses of ${gaps.ack.toFixed(0)} ms of 200s, ${gaps.query.toFixed(0)} ms of counts`,
    )
  }

  /** Of two parts, as one cannot be killed while it is stopped. */
  #two(): string[] {
    const kinds = [...PROCESS_KINDS, ...MORE_KINDS]
    const partOf = (kind: string) => kind.replace(/ \S+$/, '')
    const first = kinds[Math.floor(this.#random() * kinds.length)]!
    const others = kinds.filter(kind => partOf(kind) !== partOf(first))
    const second = others[Math.floor(this.#random() * others.length)]!
    // A node starts when all else is whole.
    return [first, second].sort(
      (a, b) => Number(a.startsWith('node killed')) - Number(b.startsWith('node killed')),
    )
  }

  /** Returns what ends it. */
  async #begin(kind: string): Promise<() => unknown> {
    const { zookeeper, servers, nodes, links } = this.#cluster
    const [, link, fault] = /^(.*) (\S+)$/.exec(kind)!
    const any = <T>(all: readonly T[]): T => all[Math.floor(this.#random() * all.length)]!
    if (link! in links) {
      const one = any(links[link as keyof Links])
      one.break(fault as (typeof LINK_FAULTS)[number])
      return () => one.mend()
    }
    const node = any([...nodes.keys()])
    const part = link === 'node' ? nodes[node]! : link === 'server' ? any<Clickhouse>(servers) : zookeeper
    if (fault === 'stopped') {
      const { child } = part
      await standStill(child)
      return () => child.kill('SIGCONT')
    }
    if (fault === 'ended') await (part as Clickhouse).stop()
    else await part.kill()
    return async () => {
      if ('restart' in part) await part.restart()
      else nodes[node] = await this.#cluster.startNode(node)
    }
  }

  /** The pauses by kind: the median and the longest. */
  table(): string {
    const seconds = (ms: number) => (ms / 1000).toFixed(1).padStart(6)
    const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[all.length >> 1] ?? 0
    const of = (gaps: readonly Gaps[], read: (gap: Gaps) => number) =>
      `${seconds(median(gaps.map(read)))} ${seconds(Math.max(0, ...gaps.map(read)))}`
    return [...this.#gaps]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([kind, gaps]) => {
        return `${kind.padEnd(28)} ${String(gaps.length).padStart(3)}  acks ${of(gaps, gap => gap.ack)}  questions ${of(gaps, gap => gap.query)}`
      })
      .join('\n')
  }
}
