/**
 * nginx and HAProxy in front of three nodes, by the files that users get, under producers, readers,
 * exports, a tail, and on a modern ClickHouse what else a cluster does (fault-work.ts). Nodes are
 * killed, stand still, and are stopped in turn.
 *
 *   WEIR_TEST_SEED   of a run that failed
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { BODY_BYTES_MAX } from '../../src/util/limits.ts'
import { head, Raw } from '../api/client.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { readPage } from '../util/run-page.ts'
import { fetchToken, send, type TestPool, type TestServer } from '../util/server.ts'
import { TailReader } from '../util/tail-reader.ts'
import {
  BALANCERS,
  type Balancer,
  type BalancerName,
  lateWay,
  noBalancer,
  startBalancer,
} from './balancer.ts'
import { isModern, serverPort } from './clickhouse-servers.ts'
import { addOne, FaultLoad } from './fault-load.ts'
import { FaultWork } from './fault-work.ts'
import { noCluster, POOL, startCluster } from './nodes.ts'
import { Exports, PlainLoad } from './plain-load.ts'
import { standStill, stoppableProxy } from './stoppable-proxy.ts'

const SEED = newSeed()
/** 502 and 504 are of the balancer. */
const REFUSED = [429, 502, 503, 504]
const NODES = 3
/** Longer than a session of Keeper. */
const STILL_MS = 8_000
const ACKS_BETWEEN = 30
/** Each with a connection. Weir closes one that is silent for 8 to 12 s. */
const [SENDERS, SILENCE_MS] = [60, 12_500]
const KILLS = 4
const IMPORT_BYTES = 100 * 1024 * 1024
const STOP_DELAY = must(/WEIR_STOP_DELAY=(\d+)/.exec(readPage('docs/cluster.md'))?.[1], 'a delay in the page')

const PLAIN = {
  columns: [
    { name: 'id', type: 'STRING', jsonProperty: 'id', nullable: true },
    { name: 'sender', type: 'STRING', jsonProperty: '$header.x-forwarded-for', nullable: true },
  ],
} as const

class Nodes {
  readonly list: TestServer[] = []
  readonly ports: number[] = []
  readonly #start: (index: number, args: string[]) => Promise<TestServer>

  constructor(start: (index: number, args: string[]) => Promise<TestServer>) {
    this.#start = start
  }

  async start(index: number): Promise<void> {
    this.ports[index] ??= await serverPort()
    this.list[index] = await this.#start(index, [
      '--port',
      String(this.ports[index]),
      '--stop-delay',
      STOP_DELAY,
    ])
  }
}

const why = (name: BalancerName) => noCluster ?? noBalancer(name)

describe.each(Object.keys(BALANCERS) as BalancerName[])('%s', name => {
  test.skipIf(why(name) !== undefined)(
    `loses nothing, and sees a node that leaves (${why(name) ?? `seed ${SEED}`})`,
    {
      timeout: 900_000,
    },
    async () => {
      const cluster = await startCluster()
      const keeper = await stoppableProxy(cluster.zookeeper.port)
      const nodes = new Nodes((index, args) =>
        cluster.node(args, index === 0 ? { WEIR_KEEPER: `127.0.0.1:${keeper.port}` } : {}),
      )
      for (let index = 0; index < NODES; index += 1) await nodes.start(index)
      const { dataDir } = nodes.list[0]!
      const front = await startBalancer(name, nodes.ports, dataDir)
      const pool = await front.createPool({ ...POOL, uniqueName: 'orders' })
      const plainPool = await front.createPool({ ...PLAIN, uniqueName: 'plain' })
      const at = ({ url }: TestPool) => front.base + new URL(url).pathname
      const load = new FaultLoad([front, front], pool, SEED, REFUSED)
      const plain = new PlainLoad(at(plainPool))
      const exports = new Exports(front, plainPool, plain)
      const work = isModern ? new FaultWork([front], randomFrom(SEED)) : undefined

      /** Acts under load, and until load goes on. Returns what was refused meanwhile. */
      const during = async (what: string, act: () => Promise<unknown>) => {
        const goesOn = async () => {
          const [acked, answered, plainly] = [load.acked, load.answered, plain.acked.length]
          await expect.poll(() => load.acked - acked, { timeout: 120_000 }).toBeGreaterThan(ACKS_BETWEEN)
          await expect.poll(() => load.answered - answered, { timeout: 120_000 }).toBeGreaterThan(3)
          await expect.poll(() => plain.acked.length - plainly, { timeout: 120_000 }).toBeGreaterThan(500)
        }
        await goesOn()
        for (const each of [load, plain]) each.refusals.clear()
        await act()
        await goesOn()
        const [some, others] = [load, plain].map(({ refusals }) =>
          JSON.stringify(Object.fromEntries(refusals)),
        )
        process.stdout.write(`${name}: ${what}: refused with a key ${some}, without ${others}\n`)
        // Those of a server that is ready, and slow.
        return [...load.refusals.keys(), ...plain.refusals.keys()].filter(
          refusal => !/^(429|503 (?!stopping))/.test(refusal),
        )
      }

      load.start()
      plain.start()
      await work?.start()
      if (isModern) exports.start()
      try {
        expect(await during('nothing', async () => {})).toEqual([])
        await during('a node killed', async () => {
          await nodes.list[1]!.kill()
          await nodes.start(1)
        })
        await during(`a node stands still for ${STILL_MS} ms`, async () => {
          const { child } = nodes.list[2]!
          await standStill(child)
          await sleep(STILL_MS) // the fault is its length
          child.kill('SIGCONT')
        })
        const seen = await during('nodes stopped in turn, and started', async () => {
          for (const index of nodes.list.keys()) {
            await nodes.list[index]!.stop()
            await nodes.start(index)
          }
        })
        expect(seen).toEqual([])
        const { whole } = exports
        if (isModern) await expect.poll(() => exports.whole - whole, { timeout: 90_000 }).toBeGreaterThan(0)
      } finally {
        await Promise.all([load.stop(), plain.stop(), exports.stop(), work?.stop()])
      }
      expect(Number(await front.count(pool.poolId))).toBe(load.model.size)
      const sum = [...load.model.values()].reduce((all, n) => all + n, 0)
      expect(Number(await front.sum(pool.poolId, 'n'))).toBe(sum)
      expect(Number(await front.count(plainPool.poolId))).toBeGreaterThanOrEqual(plain.acked.length)
      process.stdout.write(
        `${name}: ${load.acked} requests with and ${plain.acked.length} events without a key acknowledged, ${load.answered} counts, ${exports.whole} exports and ${exports.broken} broken ones, rounds: ${JSON.stringify([...(work?.rounds ?? [])])}\n`,
      )
      await passThrough(front, at(plainPool), plainPool)

      // HAProxy asks for /readyz, and nginx asks nothing.
      if (name === 'haproxy') {
        keeper.stop()
        const statuses = async () => {
          const sent = Array.from({ length: 3 * NODES }, () => send(at(plainPool), { id: 'late' }))
          return (await Promise.all(sent)).map(({ status }) => status)
        }
        await expect.poll(statuses).toContain(503)
        await expect.poll(statuses).toEqual(Array.from({ length: 3 * NODES }, () => 200))
        expect((await fetch(`${nodes.list[0]!.base}/readyz`)).status).toBe(503)
        keeper.go()
        await expect.poll(async () => (await fetch(`${nodes.list[0]!.base}/readyz`)).status).toBe(200)
      }

      const path = new URL(plainPool.url).pathname
      const [kept, keptLonger] = await Promise.all([
        afterSilence(name, nodes, path),
        afterSilence(name, nodes, path, keptLong),
      ])
      process.stdout.write(`${name}: after silence ${JSON.stringify({ kept, keptLonger })}\n`)
      expect(kept).toEqual({ statuses: { 200: 2 * SENDERS }, closes: 0 })
      expect(keptLonger.closes).toBeGreaterThan(0) // so the trial is one

      const again = await startBalancer(name, nodes.ports, dataDir, sendingAgain)
      const keyed = await again.createPool({ ...POOL, uniqueName: 'keyed' })
      const reload = new FaultLoad([again], keyed, SEED, REFUSED)
      reload.start()
      for (let kill = 0; kill < KILLS; kill += 1) {
        const { acked } = reload
        await expect.poll(() => reload.acked - acked, { timeout: 90_000 }).toBeGreaterThan(ACKS_BETWEEN)
        await nodes.list[kill % NODES]!.kill()
        await nodes.start(kill % NODES)
      }
      await reload.stop()
      process.stdout.write(
        `${name}: sent again, ${KILLS} kills: refused ${JSON.stringify([...reload.refusals])}\n`,
      )
      expect(Number(await again.count(keyed.poolId))).toBe(reload.model.size)
      const keyedSum = [...reload.model.values()].reduce((all, n) => all + n, 0)
      expect(Number(await again.sum(keyed.poolId, 'n'))).toBe(keyedSum)
    },
  )
})

/** Sizes, codings, senders and streams. */
async function passThrough(front: Balancer, url: string, { poolId }: TestPool): Promise<void> {
  const before = Number(await front.count(poolId))
  const sized = (bytes: number) => `{"id":"${'x'.repeat(bytes - 9)}"}`
  // What a column reads from the head counts towards the limit.
  expect((await send(url, sized(BODY_BYTES_MAX - 100))).status).toBe(200)
  const tooLarge = await send(url, sized(BODY_BYTES_MAX + 1))
  expect(tooLarge).toMatchObject({ status: 413, body: { status: 413 } })
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  // A proxy that is there for the client says itself who that is.
  const zipped = {
    method: 'POST',
    body: gzipSync('{"id":"zipped"}'),
    headers: { ...headers, 'x-forwarded-for': '6.6.6.6' },
  }
  expect((await fetch(url, zipped)).status).toBe(200)
  const description = await fetch(`${front.base}/openapi.json`)
  expect([description.status, description.headers.get('content-encoding')]).toEqual([200, 'gzip'])
  expect((await fetch(`${front.base}/metrics`)).status).toBe(404)
  expect(Number(await front.count(poolId))).toBe(before + 2)
  if (!isModern) return
  const authorization = `Bearer ${await fetchToken(front.base, front.dataDir)}`
  const at = (what: string) => `${front.base}/v1/pools/${poolId}/${what}`
  const answer = await fetch(at('tail'), { headers: { authorization } })
  const tail = new TailReader(answer)
  await send(url, { id: 'told' })
  await tail.until(() => tail.rows.length > 0)
  expect(tail.rows).toMatchObject([{ id: 'told', sender: '127.0.0.1' }])
  await answer.body?.cancel().catch(() => {})
  const row = `{"id":"imported","more":"${'x'.repeat(1_000)}"}\n`
  const rows = Math.ceil(IMPORT_BYTES / row.length)
  const body = row.repeat(rows)
  const imported = await fetch(at('import?format=ndjson'), {
    method: 'POST',
    headers: { authorization },
    body,
  })
  expect([imported.status, await imported.json()]).toMatchObject([200, { accepted: rows, rejected: 0 }])
  expect(Number(await front.count(poolId))).toBe(before + 3 + rows)
}

/**
 * What senders get that were all silent until a node closed an idle connection, or until it must
 * have done so. The balancer hears late of such a close.
 */
async function afterSilence(
  name: BalancerName,
  nodes: Nodes,
  path: string,
  change?: (text: string) => string,
) {
  const ways = await Promise.all(nodes.ports.map(lateWay))
  const ports = ways.map(({ port }) => port)
  const { base } = await startBalancer(name, ports, nodes.list[0]!.dataDir, change)
  const statuses = new Map<string, number>()
  const body = '{"id":"idle"}'
  const text = head(path, [`Content-Length: ${body.length}`, 'Content-Type: application/json']) + body
  const ask = async (raw: Raw) => {
    raw.received = ''
    raw.write(text)
    const answered = raw.until(({ received }) => received.includes('\r\n\r\n'))
    addOne(statuses, await answered.then(() => raw.received.slice(9, 12)).catch(() => 'closed'))
  }
  const opening = Array.from({ length: SENDERS }, () => Raw.open(Number(new URL(base).port)))
  const senders = await Promise.all(opening)
  await Promise.all(senders.map(ask))
  const closed = ways.map(way => new Promise<void>(resolve => Object.assign(way, { onClose: resolve })))
  await Promise.race([...closed, sleep(SILENCE_MS)])
  await Promise.all(senders.map(ask))
  for (const { socket } of senders) socket.destroy()
  return { statuses: Object.fromEntries(statuses), closes: ways.reduce((all, way) => all + way.closes, 0) }
}

/** The line for pools with a unique id in place of the one above it. */
function sendingAgain(text: string): string {
  const changed = text.replace(/^ *(proxy_next_upstream|retry-on) .*\n( *#.*\n)( *)# (\1 .*)$/m, '$2$3$4')
  expect(changed).not.toBe(text)
  return changed
}

/** Idle connections stay for longer than a node keeps them. */
const keptLong = (text: string) => text.replace(/(keepalive_timeout|pool-purge-delay) \w+/, '$1 60s')
