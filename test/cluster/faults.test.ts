/**
 * Faults of every part of a cluster, under inserts, updates, deletes and questions at three nodes
 * whose clocks are minutes apart: what was acknowledged is what every node and every replica has,
 * and no count was ever short.
 *
 *   WEIR_TEST_FAULTS   faults of each kind; default 2. More than ten are kills of nodes and servers
 *   WEIR_TEST_SEED     of a run that failed
 */
import { describe, expect, test } from 'vitest'
import { randomFrom } from '../util/random.ts'
import type { TestServer } from '../util/server.ts'
import { FaultLoad, type Gaps } from './fault-load.ts'
import { clockAhead, noCluster, POOL, startCluster, type TestCluster } from './nodes.ts'
import { standStill } from './stoppable-proxy.ts'

const SEED = Number(process.env['WEIR_TEST_SEED'] ?? Date.now() % 2 ** 31)
const FAULTS = Number(process.env['WEIR_TEST_FAULTS'] ?? 2)
const STOP_MS = 10_000
/** Requests that are acknowledged after a fault before the next one comes. */
const ACKS_BETWEEN = 30

const KINDS = [
  'node killed',
  'server killed',
  'Keeper killed',
  'node stopped',
  'server stopped',
  'Keeper stopped',
] as const
type Kind = (typeof KINDS)[number]

/** Five minutes late, right, and five minutes ahead. */
const clockOf = (index: number) => clockAhead((index - 1) * 300)

class Faults {
  readonly gaps = new Map<Kind, Gaps[]>(KINDS.map(kind => [kind, []]))
  readonly #cluster: TestCluster
  readonly #nodes: TestServer[]
  readonly #random: () => number

  constructor(cluster: TestCluster, nodes: TestServer[], random: () => number) {
    this.#cluster = cluster
    this.#nodes = nodes
    this.#random = random
  }

  async make(kind: Kind): Promise<void> {
    const { zookeeper, servers } = this.#cluster
    const index = Math.floor(this.#random() * this.#nodes.length)
    const server = servers[Math.floor(this.#random() * servers.length)]!
    if (kind === 'node killed') {
      await this.#nodes[index]!.kill()
      this.#nodes[index] = await this.#cluster.node([], clockOf(index))
    } else if (kind === 'server killed') await server.restart()
    else if (kind === 'Keeper killed') await zookeeper.restart()
    else {
      const { child } =
        kind === 'node stopped' ? this.#nodes[index]! : kind === 'server stopped' ? server : zookeeper
      await standStill(child)
      await new Promise(resolve => setTimeout(resolve, STOP_MS)) // the fault is its length
      child.kill('SIGCONT')
    }
  }

  table(): string {
    const seconds = (ms: number) => (ms / 1000).toFixed(1).padStart(6)
    const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[all.length >> 1] ?? 0
    const of = (gaps: readonly Gaps[], read: (gap: Gaps) => number) =>
      `${seconds(median(gaps.map(read)))} ${seconds(Math.max(0, ...gaps.map(read)))}`
    return KINDS.map(kind => {
      const gaps = this.gaps.get(kind)!
      return `${kind.padEnd(16)} ${String(gaps.length).padStart(3)}  acks ${of(gaps, gap => gap.ack)}  questions ${of(gaps, gap => gap.query)}`
    }).join('\n')
  }
}

describe.skipIf(noCluster !== undefined)(`faults ${noCluster ?? ''}`, () => {
  test(`of each part lose nothing, seed ${SEED}`, { timeout: 120_000 + FAULTS * 6 * 60_000 }, async () => {
    const cluster = await startCluster()
    const nodes: TestServer[] = []
    for (const index of [0, 1, 2]) nodes.push(await cluster.node([], clockOf(index)))
    const pool = await nodes[0]!.createPool(POOL)
    const load = new FaultLoad(nodes, pool, SEED)
    const random = randomFrom(SEED + 1_000)
    const faults = new Faults(cluster, nodes, random)
    const countOf = (kind: Kind) => (/^(?:node|server) killed$/.test(kind) ? FAULTS : Math.min(FAULTS, 10))
    const kinds = KINDS.flatMap(kind => Array.from({ length: countOf(kind) }, () => kind))
    load.start()
    try {
      for (const kind of shuffled(kinds, random)) {
        const before = load.acked
        await expect.poll(() => load.acked - before, { timeout: 90_000 }).toBeGreaterThan(ACKS_BETWEEN)
        load.takeGaps()
        await faults.make(kind)
        const after = load.acked
        const asked = load.answered
        await expect.poll(() => load.acked - after, { timeout: 90_000 }).toBeGreaterThan(ACKS_BETWEEN)
        await expect.poll(() => load.answered - asked, { timeout: 90_000 }).toBeGreaterThan(3)
        faults.gaps.get(kind)!.push(load.takeGaps())
      }
    } finally {
      await load.stop()
    }
    process.stdout.write(
      `${load.acked} acknowledged, ${load.refused} sent again, ${load.answered} counts\n${faults.table()}\n`,
    )
    const expected = [...load.model].sort()
    for (const node of nodes) {
      const { data } = await node.graphql<{ dataGrid: { rows: [string, string][] } }>(
        `{ dataGrid(input: { dataPool: { id: "${pool.poolId}" }, columns: ["id", "n"], first: 1000 }) { rows } }`,
      )
      expect(data.dataGrid.rows.map(([id, n]) => [id, Number(n)]).sort()).toEqual(expected)
    }
    for (const replica of [0, 1]) {
      const rows: [string, number][] = []
      for (const server of [cluster.servers[replica]!, cluster.servers[2 + replica]!]) {
        await server.query(`SYSTEM SYNC REPLICA \`${pool.poolId}\``)
        const printed = await server.query(
          `SELECT id, n FROM \`${pool.poolId}\` FINAL WHERE _deleted = 0 FORMAT JSONCompact`,
        )
        for (const [id, n] of (JSON.parse(printed) as { data: [string, string][] }).data)
          rows.push([id, Number(n)])
      }
      expect(rows.sort()).toEqual(expected)
    }
  })
})

function shuffled<T>(all: readonly T[], random: () => number): T[] {
  return all
    .map(one => [random(), one] as const)
    .sort(([a], [b]) => a - b)
    .map(([, one]) => one)
}
