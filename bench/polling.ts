/**
 * Question: do readers breed files? Ten counter queries a second flush ten small memtables a second.
 *
 *   a steady stream of 100-event batches, and ten counters a second; every 30 s a line with live segments, query times and
 *   memory. A straight line through the second half says where an hour ends.
 *
 * Non-goals: the highest rate (bench -- path).
 */
import type { TestServer } from '../test/util/server.ts'
import { BENCH_SEED, benchEvent, createRandom, eventId } from './events.ts'
import { everyMs, median, memory, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { keyedPool, startWeir } from './weir.ts'

/** Options of the command line, as text. */
export interface PollingOptions {
  readonly seconds?: string | undefined
  readonly rate?: string | undefined
}

const BATCH = 100
const QUERIES_PER_SECOND = 10
const REPORT_SECONDS = 30

interface Sample {
  readonly seconds: number
  readonly segments: number
}

/** Runs for `seconds` (300) at `rate` (2500) events a second. */
export async function benchPolling(options: PollingOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 300)
  const rate = Math.max(1, numberOf('rate', options.rate, 2500))
  print(`polling: ${rate} events/s, ${QUERIES_PER_SECOND} counters/s, ${seconds} s`)
  const server = await startWeir()
  const pool = await keyedPool(server)
  const end = performance.now() + seconds * 1000
  const random = createRandom(BENCH_SEED)
  let sent = 0
  const post = async () => {
    const events = Array.from({ length: BATCH }, () => {
      sent += 1
      return benchEvent(sent, random).replace(eventId(0, sent), eventId(1, sent))
    })
    const answer = await fetch(pool.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `[${events.join(',')}]`,
    })
    if (answer.status !== 200) throw new Error(`POST answered ${answer.status}`)
    await answer.arrayBuffer()
  }
  const times: number[] = []
  const ask = async () => {
    const begin = performance.now()
    await server.count(pool.poolId)
    times.push(performance.now() - begin)
  }
  const samples: Sample[] = []
  const report = async () => {
    const segments = await segmentsOf(server)
    samples.push({ seconds: seconds - (end - performance.now()) / 1000, segments })
    const sorted = times.splice(0).sort((a, b) => a - b)
    const { anonymous, shared } = memory(server.child.pid as number)
    const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? 0
    print(
      row(
        `after ${samples.at(-1)!.seconds.toFixed(0)} s`,
        `${segments} segments, ${short(sent)} events, counter p50 ${median(sorted).toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, memory ${short(anonymous + shared)}B`,
      ),
    )
  }
  await Promise.all([
    everyMs((1000 * BATCH) / rate, end, post),
    everyMs(1000 / QUERIES_PER_SECOND, end, ask),
    everyMs(Math.min(REPORT_SECONDS, seconds / 3) * 1000, end, report),
  ])
  const counted = await server.count(pool.poolId)
  print(row('', `counter ${counted}, sent ${sent}${counted === String(sent) ? '' : ': DIFFERS'}`))
  const half = samples.filter(sample => sample.seconds >= seconds / 2)
  const slope =
    half.length < 2
      ? 0
      : (half.at(-1)!.segments - half[0]!.segments) / (half.at(-1)!.seconds - half[0]!.seconds)
  print(
    row(
      'an hour, by the second half',
      `${Math.round((samples.at(-1)?.segments ?? 0) + slope * (3600 - seconds))} segments`,
    ),
  )
  await server.stop()
}

async function segmentsOf(server: TestServer): Promise<number> {
  const text = await (await fetch(`${server.base}/metrics`)).text()
  return Number(/^weir_segments (\d+)/m.exec(text)?.[1] ?? -1)
}
