/**
 * Question: do ten counter queries a second, which flush ten small memtables a second, leave few
 * segments?
 *
 *   A steady stream of 100-event batches and ten counters a second. Prints live segments, query
 *   times and memory every 30 s. A straight line through the second half estimates the segments
 *   after an hour.
 *
 * The highest rate is no question here (bench -- path).
 */
import { BENCH_SEED, benchEvent, createRandom, eventId } from './events.ts'
import { everyMs, memory, print, quantileOf, row, short, slope } from './measure.ts'
import { numberOf } from './options.ts'
import { keyedPool, scrape, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface PollingOptions {
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
    const segments = (await scrape(server.base)).value('weir_segments')
    samples.push({ seconds: seconds - (end - performance.now()) / 1000, segments })
    const counters = times.splice(0)
    const { anonymous, shared } = memory(server.child.pid as number)
    print(
      row(
        `after ${samples.at(-1)!.seconds.toFixed(0)} s`,
        `${segments} segments, ${short(sent)} events, counter p50 ${quantileOf(counters, 0.5).toFixed(0)} ms, p99 ${quantileOf(counters, 0.99).toFixed(0)} ms, memory ${short(anonymous + shared)}B`,
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
  const perSecond = slope(half.map(sample => [sample.seconds, sample.segments]))
  print(
    row(
      'an hour, by the second half',
      `${Math.round((samples.at(-1)?.segments ?? 0) + perSecond * (3600 - seconds))} segments`,
    ),
  )
  await server.stop()
}
