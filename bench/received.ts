/**
 * Question: is every event there that was acknowledged, in a pool whose key is (received-at, id), when ids repeat?
 *
 *   single events with few ids, from 64 and from 1,000 connections, in four lives of one folder: the first ends with SIGTERM,
 *   the second with kill -9, the third has its clock an hour back and ends with kill -9, the fourth has it two hours back
 *   and an index that is rebuilt. After each, the rows must be as many as the 200s.
 *
 * Non-goals: the rate (bench -- path). An event is one request, so a lost row is a lost 200.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { clockEnv } from '../test/util/set-clock.ts'
import { Connection, NO_ANSWER } from './connection.ts'
import { benchFolder } from './leftovers.ts'
import { print, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { startWeir } from './weir.ts'

/** Options of the command line, as text. */
export interface ReceivedOptions {
  readonly seconds?: string | undefined
  readonly connections?: string | undefined
}

interface Life {
  readonly name: string
  readonly aheadMs: number
  readonly end: 'stop' | 'kill'
  readonly losesIndex: boolean
}

const HOUR_MS = 3_600_000
const IDS = 4
const LIVES: readonly Life[] = [
  { name: 'first life', aheadMs: 0, end: 'stop', losesIndex: false },
  { name: 'after SIGTERM', aheadMs: 0, end: 'kill', losesIndex: false },
  { name: 'after kill -9, clock 1 h back', aheadMs: -HOUR_MS, end: 'kill', losesIndex: false },
  { name: 'index rebuilt, clock 2 h back', aheadMs: -2 * HOUR_MS, end: 'stop', losesIndex: true },
]

/** Each life posts for `seconds` (5), with 64 and with 1,000 connections or with `connections`. */
export async function benchReceived(options: ReceivedOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 5)
  const given = Math.round(numberOf('connections', options.connections, 0))
  for (const connections of given > 0 ? [given] : [64, 1000]) await run(connections, seconds)
}

async function run(connections: number, seconds: number): Promise<void> {
  print(`received: ${connections} connections, single events with ${IDS} ids, ${seconds} s a life`)
  const dataDir = join(benchFolder('weir-bench-'), 'data')
  let pool: TestPool | undefined
  let acknowledged = 0
  for (const { name, aheadMs, end, losesIndex } of LIVES) {
    if (losesIndex) rmSync(join(dataDir, 'index'), { recursive: true })
    const server = await startWeir({ dataDir, env: clockEnv({ aheadMs }) })
    pool ??= await server.createPool({
      columns: [{ name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false }],
      uniqueId: 'id',
    })
    const posted = await post(server, pool, connections, seconds)
    acknowledged += posted.acknowledged
    const rows = Number(await server.count(pool.poolId))
    const verdict = rows === acknowledged ? 'nothing lost' : `DIFFERS by ${rows - acknowledged}`
    const others = posted.others === 0 ? '' : `, ${posted.others} OTHER answers`
    print(
      row(
        name,
        `${short(posted.acknowledged)} more, ${acknowledged} × 200, ${rows} rows: ${verdict}${others}`,
      ),
    )
    if (end === 'stop') await server.stop()
    else {
      // These are in the log alone when the kill comes.
      const unflushed = await post(server, pool, connections, Math.min(1, seconds))
      acknowledged += unflushed.acknowledged
      await server.kill()
    }
  }
}

/** Each connection sends an event as soon as the one before is answered. */
async function post(server: TestServer, pool: TestPool, count: number, seconds: number) {
  const end = performance.now() + seconds * 1000
  const path = new URL(pool.url).pathname
  const requests = Array.from({ length: IDS }, (_, id) => {
    const body = `{"id":"k${id}"}`
    return `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  })
  let [acknowledged, others] = [0, 0]
  const producer = async (first: number) => {
    const connection = new Connection(server.base)
    for (let n = first; performance.now() < end; n++) {
      const status = await connection.send(requests[n % IDS]!)
      if (status === 200) acknowledged += 1
      else if (status !== NO_ANSWER) others += 1
      else throw new Error('a request got no answer: nobody knows whether its event is there')
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: count }, (_, first) => producer(first)))
  return { acknowledged, others }
}
