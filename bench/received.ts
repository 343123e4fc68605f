/**
 * Question: does a pool whose key is (received-at, id) store every acknowledged event when ids
 * repeat, and how far does received-at run ahead of the clock?
 *
 *   Single events, then batches of 500, with few ids, from 64 and from 1,000 connections, over four
 *   starts on one folder. The first ends with SIGTERM, the second with kill -9. The third has its
 *   clock an hour back and ends with kill -9. The fourth has its clock two hours back and rebuilds
 *   the index. After each, the rows must be as many as the acknowledged events. Each second a query
 *   asks for the latest received-at.
 *
 * The rate is no question here (bench -- path).
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { clockEnv } from '../test/util/set-clock.ts'
import { Connection, NO_ANSWER, requestHead } from './connection.ts'
import { benchFolder } from './leftovers.ts'
import { everyMs, median, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface ReceivedOptions {
  readonly seconds?: string | undefined
  readonly connections?: string | undefined
}

/** The events of a request. */
const SHAPES = { singles: 1, batches: 500 } as const
type Shape = keyof typeof SHAPES

interface Start {
  readonly name: string
  readonly aheadMs: number
  readonly end: 'stop' | 'kill'
  readonly isIndexLost: boolean
}

const HOUR_MS = 3_600_000
const IDS = 4
const STARTS: readonly Start[] = [
  { name: 'first start', aheadMs: 0, end: 'stop', isIndexLost: false },
  { name: 'after SIGTERM', aheadMs: 0, end: 'kill', isIndexLost: false },
  { name: 'after kill -9, clock 1 h back', aheadMs: -HOUR_MS, end: 'kill', isIndexLost: false },
  { name: 'index rebuilt, clock 2 h back', aheadMs: -2 * HOUR_MS, end: 'stop', isIndexLost: true },
]

/**
 * Posts after each start for `seconds` (5), with 64 and with 1,000 connections or with
 * `connections`.
 */
export async function benchReceived(options: ReceivedOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 5)
  const given = Math.round(numberOf('connections', options.connections, 0))
  for (const shape of ['singles', 'batches'] as const)
    for (const connections of given > 0 ? [given] : [64, 1000]) await run(shape, connections, seconds)
}

async function run(shape: Shape, connections: number, seconds: number): Promise<void> {
  print(`received: ${connections} connections, ${shape} with ${IDS} ids, ${seconds} s a start`)
  const dataDir = join(benchFolder('weir-bench-'), 'data')
  let pool: TestPool | undefined
  let acknowledged = 0
  for (const { name, aheadMs, end, isIndexLost } of STARTS) {
    if (isIndexLost) rmSync(join(dataDir, 'index'), { recursive: true })
    const server = await startWeir({ dataDir, env: clockEnv({ aheadMs }) })
    pool ??= await server.createPool({
      columns: [{ name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false }],
      uniqueId: 'id',
    })
    const [posted, ahead] = await Promise.all([
      post(server, pool, shape, connections, seconds),
      watchAhead(server, pool, aheadMs, seconds),
    ])
    acknowledged += posted.acknowledged
    const rows = Number(await server.count(pool.poolId))
    const verdict = rows === acknowledged ? 'nothing lost' : `DIFFERS by ${rows - acknowledged}`
    const others = posted.others === 0 ? '' : `, ${posted.others} OTHER answers`
    print(
      row(
        name,
        `${short(posted.acknowledged)} more, ${acknowledged} acknowledged, ${rows} rows: ${verdict}${others}; ${ahead}`,
      ),
    )
    if (end === 'stop') await server.stop()
    else {
      // Only the log has these events when the kill comes.
      const unflushed = await post(server, pool, shape, connections, Math.min(1, seconds))
      acknowledged += unflushed.acknowledged
      await server.kill()
    }
  }
}

/**
 * Asks each second for the latest received-at of the pool.
 * @returns how far it was ahead of the server's clock, in the median second and at most
 */
async function watchAhead(server: TestServer, pool: TestPool, clockAheadMs: number, seconds: number) {
  const query = `SELECT max("_service_received_at") AS latest FROM "${pool.poolId}"`
  const ahead: number[] = []
  await everyMs(1000, performance.now() + seconds * 1000, async () => {
    const { data } = await server.graphql<{ sqlV1: { rows: (string | null)[][] } }>(
      'query ($input: SqlV1Input!) { sqlV1(input: $input) { rows } }',
      { input: { query } },
    )
    const latest = data.sqlV1.rows[0]?.[0]
    if (latest != null) ahead.push(Math.max(0, Date.parse(latest) - (Date.now() + clockAheadMs)))
  })
  const most = Math.max(0, ...ahead)
  return `ahead of the clock in the median second ${median(ahead).toFixed(0)} ms, at most ${most.toFixed(0)} ms`
}

/** Posts events. Each connection sends one as soon as it has the answer to the one before. */
async function post(server: TestServer, pool: TestPool, shape: Shape, count: number, seconds: number) {
  const end = performance.now() + seconds * 1000
  const events = SHAPES[shape]
  const requests = Array.from({ length: IDS }, (_, first) => {
    const all = Array.from({ length: events }, (__, n) => `{"id":"k${(first + n) % IDS}"}`)
    const body = shape === 'singles' ? all[0]! : `[${all.join()}]`
    return requestHead('POST', pool.url, body.length) + body
  })
  let [acknowledged, others] = [0, 0]
  const producer = async (first: number) => {
    const connection = new Connection(server.base)
    for (let n = first; performance.now() < end; n++) {
      const status = await connection.send(requests[n % IDS]!)
      if (status === 200) acknowledged += events
      else if (status !== NO_ANSWER) others += 1
      else throw new Error('a request got no answer, so nobody knows whether its event is stored')
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: count }, (_, first) => producer(first)))
  return { acknowledged, others }
}
