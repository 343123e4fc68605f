/**
 * W-1 in a cluster: an event that was answered with 200 is there, although the only replica that
 * had its part was lost while its INSERT waited for the quorum.
 *
 *   WEIR_TEST_ROUNDS   how often a replica is lost in each way; default 2, of a long run 20
 *   WEIR_TEST_LOSSES   the ways, with commas between; default killed,ended,stopped
 */
import { describe, expect, test, vi } from 'vitest'
import { note } from '../../src/util/say.ts'
import { send, type TestPool } from '../util/server.ts'
import type { Clickhouse } from './clickhouse-servers.ts'
import { noModernServers, POOL, startCluster } from './nodes.ts'
import { standStill } from './stoppable-proxy.ts'

vi.setConfig({ testTimeout: 3_600_000 })

const IS_LONG = process.env['WEIR_TEST_LONG'] === '1'
const ROUNDS = Number(process.env['WEIR_TEST_ROUNDS'] ?? (IS_LONG ? 20 : 2))
/** Debian's ClickHouse has another quorum, which waits for every replica. */
const why = noModernServers

/** Each loses a server, and returns what brings it back. */
const LOSSES = {
  killed: async (server: Clickhouse) => {
    await server.kill()
    return () => server.restart()
  },
  // As an operator ends it: its session of Keeper ends with it.
  ended: async (server: Clickhouse) => {
    await server.stop()
    return () => server.restart()
  },
  stopped: async ({ child }: Clickhouse) => {
    await standStill(child)
    return async () => void process.kill(child.pid!, 'SIGCONT')
  },
} as const

interface Round {
  /** The first answer. */
  readonly status: number
  /** ms to the 200 of that request, or of the same one sent again. */
  readonly ms: number
  readonly rows: number
}

const isDone = (act: Promise<unknown>) =>
  act.then(
    () => true,
    () => false,
  )

class Losses {
  readonly #servers: readonly Clickhouse[]

  constructor(servers: readonly Clickhouse[]) {
    this.#servers = servers
  }

  /** One event is sent; who has it is lost, and comes back after the 200. */
  async lose(
    loss: keyof typeof LOSSES,
    { url, poolId: table }: TestPool,
    id: string,
    isKeyed: boolean,
  ): Promise<Round> {
    for (const each of this.#servers) await each.query(`SYSTEM STOP FETCHES ${table}`)
    const beganMs = performance.now()
    const post = async () => (await send(url, [{ at: '2026-01-01T00:00:00Z', id, n: 1 }])).status
    const first = post()
    const holder = await this.#holderOf(`FROM ${table} WHERE id = '${id}'`)
    const bringBack = await LOSSES[loss](holder)
    for (const each of this.#servers) if (each !== holder) await each.query(`SYSTEM START FETCHES ${table}`)
    const status = await first
    let tries = 1
    // As a producer does.
    for (let again = status; again !== 200; again = await post()) {
      expect([again, tries < 20]).toEqual([503, true])
      tries += 1
    }
    const ms = performance.now() - beganMs
    await bringBack()
    const started = () => isDone(holder.query(`SYSTEM START FETCHES ${table}`))
    await expect.poll(started, { timeout: 60_000 }).toBe(true)
    // A row without a unique id may be there once more for each 503.
    const most = isKeyed ? 1 : tries
    const rows = await this.#rowsOn(table, id, isKeyed ? 'uniqExact(_version) > 0' : 'count()', most)
    return { status, ms, rows }
  }

  async #holderOf(from: string): Promise<Clickhouse> {
    let holder: Clickhouse | undefined
    const findHolder = async () => {
      for (const each of this.#servers)
        if ((await each.query(`SELECT count() ${from}`)) !== '0\n') holder = each
      return holder !== undefined
    }
    await expect.poll(findHolder, { interval: 20 }).toBe(true)
    return holder!
  }

  /** The same number on all replicas, from 1 to `most`. */
  async #rowsOn(table: string, id: string, what: string, most: number): Promise<number> {
    let found: number[] = []
    const isRight = async () => {
      found = await Promise.all(
        this.#servers.map(async each => {
          await isDone(each.query(`SYSTEM SYNC REPLICA ${table} LIGHTWEIGHT`))
          return Number(await each.query(`SELECT ${what} FROM ${table} WHERE id = '${id}'`))
        }),
      )
      const [rows = 0] = found
      return rows >= 1 && rows <= most && found.every(each => each === rows) ? 'right' : found.join(' ')
    }
    await expect.poll(isRight, { timeout: 60_000 }).toBe('right')
    return found[0]!
  }
}

function tableOf(rounds: ReadonlyMap<string, readonly Round[]>): string {
  const seconds = (ms: number) => (ms / 1000).toFixed(1).padStart(5)
  return [...rounds]
    .map(([name, all]) => {
      const ms = all.map(round => round.ms).toSorted((a, b) => a - b)
      const [at503, twice] = [
        all.filter(({ status }) => status === 503).length,
        all.filter(({ rows }) => rows > 1).length,
      ]
      return `${name.padEnd(16)} acknowledged ${all.length}, lost 0, first answer 503: ${at503}, twice after it: ${twice}, s to the 200: median${seconds(ms[ms.length >> 1]!)}, most${seconds(ms.at(-1)!)}`
    })
    .join('\n')
}

describe.skipIf(why !== undefined)(`the only replica with a part ${why ?? ''}`, () => {
  test('is lost, and no acknowledged event with it', async () => {
    const { servers, node } = await startCluster({ shards: 1, replicas: 3 })
    const server = await node()
    const { uniqueName, timestamp, uniqueId, columns } = POOL
    const keyed = await server.createPool({ uniqueName, timestamp, uniqueId, columns })
    const plain = await server.createPool({ uniqueName: 'plain', columns })
    const losses = new Losses(servers)
    const rounds = new Map<string, Round[]>()
    const ways = (process.env['WEIR_TEST_LOSSES']?.split(',') ??
      Object.keys(LOSSES)) as (keyof typeof LOSSES)[]
    for (const loss of ways)
      for (const pool of [keyed, plain]) {
        const name = `${loss} ${pool === keyed ? 'keyed' : 'plain'}`
        const done: Round[] = []
        rounds.set(name, done)
        for (let round = 0; round < ROUNDS; round += 1) {
          const id = `${loss}-${round}`
          const one = await losses.lose(loss, pool, id, pool === keyed)
          done.push(one)
          const counted = () =>
            server.count(pool.poolId, { filterSql: `id = '${id}'` }).catch(() => 'UNAVAILABLE')
          await expect.poll(counted, { timeout: 60_000 }).toBe(String(one.rows))
        }
        note(tableOf(new Map([[name, done]])))
      }
  })
})
