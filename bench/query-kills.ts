/**
 * Question: what do queries, and a query process that is killed again and again, cost the acks at
 * full ingest?
 *
 *   Full batches in a closed loop: alone, beside 16 clients that ask one after the other, and
 *   beside them while the query process gets a kill -9 at equal intervals. The queries read another
 *   pool.
 *
 * A query that was in the process runs again in the penalty process; those that waited are answered
 * by the next process. The time of the next answer after each kill has a start of these in it.
 */
import { queryProcess, type TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS } from './events.ts'
import { type GeneratorDone, generate } from './generator.ts'
import { everyMs, median, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { errorsOf } from './path-runs.ts'
import { post, settled } from './rows.ts'
import { keyedPool, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface QueryKillsOptions {
  readonly rows?: string | undefined
  readonly seconds?: string | undefined
  readonly connections?: string | undefined
  readonly rounds?: string | undefined
}

const CLIENTS = 16

/** What the clients saw. */
interface Asked {
  answered: number
  failed: number
  /** The clock at the last kill, or 0 where a query was answered since. */
  killedMs: number
  /** From each kill to the next answer. */
  readonly againMs: number[]
}

/**
 * Posts `rows` (3M) to ask about, and runs three phases of `seconds` (20) with `connections` (16)
 * and `rounds` (10) kills in the last one.
 */
export async function benchQueryKills(options: QueryKillsOptions): Promise<void> {
  const rows = Math.ceil(numberOf('rows', options.rows, 3_000_000) / BATCH_EVENTS) * BATCH_EVENTS
  const seconds = numberOf('seconds', options.seconds, 20)
  const connections = Math.max(1, numberOf('connections', options.connections, 16))
  const rounds = Math.max(1, numberOf('rounds', options.rounds, 10))
  print(
    `query kills: ${BATCH_EVENTS} events a request, ${connections} connections in a closed loop, three times ${seconds} s; ${CLIENTS} clients ask over ${rows} rows`,
  )
  const server = await startWeir()
  const [asked, pool] = [await keyedPool(server), await keyedPool(server)]
  await post(asked.url, 0, rows, 1, 0)
  await settled(server, asked, rows)
  const load = (producer: number) =>
    generate({
      target: { kind: 'http', url: pool.url },
      events: BATCH_EVENTS,
      connections,
      seconds,
      producer,
      form: 'array',
    })
  const alone = await load(1)
  report('alone', alone)
  const [beside, seen] = await Promise.all([load(2), ask(server, asked.poolId, seconds, 0)])
  report(`beside ${CLIENTS} clients`, beside, seen)
  const [during, after] = await Promise.all([load(3), ask(server, asked.poolId, seconds, rounds)])
  report(`with ${rounds} kills`, during, after)
  const again = after.againMs
  print(row('the next answer', `p50 ${median(again).toFixed(0)} ms, max ${Math.max(...again).toFixed(0)} ms`))
  if (again.length < rounds) {
    print(row('', `ONLY ${again.length} OF ${rounds} KILLS were followed by an answer in time`))
    process.exitCode = 1
  }
  const acknowledged = [alone, beside, during].reduce((sum, { requests }) => sum + requests * BATCH_EVENTS, 0)
  const counted = await server.count(pool.poolId)
  print(row('acknowledged and counted', `${acknowledged} and ${counted}`))
  if (counted !== String(acknowledged)) {
    print(row('', 'THEY DIFFER'))
    process.exitCode = 1
  }
  await server.stop()
}

/** All clients ask for some seconds, with so many kills meanwhile. */
async function ask(server: TestServer, poolId: string, seconds: number, kills: number): Promise<Asked> {
  const seen: Asked = { answered: 0, failed: 0, killedMs: 0, againMs: [] }
  const end = performance.now() + seconds * 1000
  const client = async () => {
    while (performance.now() < end) {
      const sum = await server.sum(poolId, 'quantity', {}).catch(() => undefined)
      if (sum === undefined) seen.failed += 1
      else seen.answered += 1
      if (sum === undefined || seen.killedMs === 0) continue
      seen.againMs.push(performance.now() - seen.killedMs)
      seen.killedMs = 0
    }
  }
  let killed = 0
  const kill = async () => {
    const pid = killed < kills ? queryProcess(server) : undefined
    if (pid === undefined) return
    killed += 1
    process.kill(pid, 'SIGKILL')
    seen.killedMs = performance.now()
  }
  const killing = kills === 0 ? undefined : everyMs((seconds * 1000) / (kills + 1), end, kill)
  await Promise.all([...Array.from({ length: CLIENTS }, client), killing])
  return seen
}

function report(phase: string, { sent, requests, seconds, errors }: GeneratorDone, seen?: Asked): void {
  const rate = (requests * BATCH_EVENTS) / seconds
  const queries =
    seen === undefined ? '' : `; queries: ${(seen.answered / seconds).toFixed(0)}/s, ${seen.failed} failed`
  print(
    row(
      `acks ${phase}`,
      `p50 ${sent.p50Ms.toFixed(1)} ms, p99 ${sent.p99Ms.toFixed(1)} ms, max ${sent.maxMs.toFixed(0)} ms; ${short(rate)} events/s; ${errorsOf(errors)}${queries}`,
    ),
  )
}
