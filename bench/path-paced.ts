/**
 * `path`, paced: full batches at a fixed rate, 80 % of the highest.
 *
 *   P-3         Ack times. The generator (generator.ts) sends by the clock and not by the answers,
 *               so a latency counts from when its request was due. The time from the send, as wrk
 *               would measure it, stands beside it.
 *   P-6, load   The same load and four probes a second. A probe posts one event to the same pool
 *               and measures the time from its 200 until a counter counts it. The counter has a
 *               filter on its id and covers the two seconds around its time.
 *   P-6, idle   The same probes, and probes whose counters cover the whole pool, when all rows are
 *               flushed and the disk is quiet.
 *
 * The event-loop delay (W-11) is the server's own, over the load with probes. The bench's process
 * sends the probes, so they wait for a core like any client on this machine.
 */
import type { TestPool, TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS, BENCH_SEED, benchEvent, createRandom, eventId } from './events.ts'
import { type GeneratorDone, generate, type Latency } from './generator.ts'
import {
  cpuByThread,
  cpuSeconds,
  latencies,
  print,
  quantileOf,
  row,
  short,
  sleep,
  threadTimes,
} from './measure.ts'
import type { PathSettings } from './path.ts'
import { agreed, errorsOf, onFreshWeir, settled, watchServerMemory } from './path-runs.ts'
import { scrape } from './weir.ts'

const PROBE_EVERY_MS = 250
/** Open probes at once, so that a server without answers is not asked more and more. */
const PROBES_MAX = 16
const PROBE_MS_MAX = 30_000
const PROBE_RANGE_MS = 1000
const IDLE_SECONDS_MAX = 20
/** A producer number of their own makes their ids distinct. */
const PROBE_PRODUCER = 90_000_000
const GOALS = { ackMs: 25, loadedMs: 1000, idleMs: 50, loopMs: 5, loopMaxMs: 20 }

/** Runs at `rate` events a second. */
export async function paced(settings: PathSettings, rate: number): Promise<void> {
  print(
    `path, paced: ${short(rate)} events/s, ${BATCH_EVENTS} events a request, ${settings.connections} connections, ${settings.seconds} s without and ${settings.seconds} s with probes`,
  )
  await onFreshWeir(settings, async (server, pool) => {
    const pid = server.child.pid as number
    const stopMemory = watchServerMemory(pid)
    const before = { cpu: cpuSeconds(pid), threads: threadTimes(pid) }
    const alone = await load(settings, pool, rate, 1)
    report('P-3, acks', alone, rate, GOALS.ackMs)
    await scrape(server.base) // the event-loop delay counts from here
    const probes = new Probes(server, pool)
    const probed = await probes.during(() => load(settings, pool, rate, 2))
    const page = await scrape(server.base)
    report('acks beside probes', probed, rate)
    print(row('P-6, acknowledged → counted, under load', probes.report(GOALS.loadedMs)))
    const delay = (quantile: string) =>
      1000 * page.value(`weir_event_loop_delay_seconds{quantile="${quantile}"}`)
    const isMet = delay('0.99') <= GOALS.loopMs && delay('1') <= GOALS.loopMaxMs
    print(
      row(
        'W-11, event-loop delay',
        `p99 ${delay('0.99').toFixed(1)} ms, max ${delay('1').toFixed(1)} ms (goals ${GOALS.loopMs} and ${GOALS.loopMaxMs}: ${isMet ? 'met' : 'MISSED'})`,
      ),
    )
    await agreed(server, pool)
    print(
      row('', `server CPU ${(cpuSeconds(pid) - before.cpu).toFixed(1)} s, memory ${short(stopMemory())}B`),
    )
    print(row('', `CPU by thread: ${cpuByThread(pid, before.threads)}`))
    await settled(settings)
    await idle(settings, server, pool)
    await agreed(server, pool)
  })
}

async function idle(settings: PathSettings, server: TestServer, pool: TestPool): Promise<void> {
  const wait = () => sleep(Math.min(settings.seconds, IDLE_SECONDS_MAX) * 1000)
  const near = new Probes(server, pool)
  await near.during(wait)
  print(row('P-6, acknowledged → counted, idle', near.report(GOALS.idleMs)))
  const whole = new Probes(server, pool, true)
  await whole.during(wait)
  print(row('… asked over the whole pool', whole.report()))
}

function load(
  settings: PathSettings,
  pool: TestPool,
  rate: number,
  producer: number,
): Promise<GeneratorDone> {
  return generate({
    target: { kind: 'http', url: pool.url },
    events: BATCH_EVENTS,
    connections: settings.connections,
    seconds: settings.seconds,
    producer,
    form: 'array',
    rate: rate / BATCH_EVENTS,
  })
}

function report(name: string, done: GeneratorDone, rate: number, goalMs?: number): void {
  const reached = (done.requests * BATCH_EVENTS) / done.seconds
  const times = (of: Latency) =>
    `p50 ${of.p50Ms.toFixed(1)} ms, p99 ${of.p99Ms.toFixed(1)} ms, max ${of.maxMs.toFixed(0)} ms`
  print(row(name, `${times(done.due)}${verdict(done.due.p99Ms, goalMs)}; ${errorsOf(done.errors)}`))
  print(
    row(
      '',
      `from when they were sent: ${times(done.sent)}; ${short(reached)} events/s${reached < 0.95 * rate ? ': the rate is NOT KEPT' : ''}; generator (node) CPU ${done.cpuSeconds.toFixed(1)} s`,
    ),
  )
}

function verdict(p99Ms: number, goalMs: number | undefined): string {
  return goalMs === undefined ? '' : ` (goal p99 ${goalMs} ms: ${p99Ms <= goalMs ? 'met' : 'MISSED'})`
}

let probesSent = 0

/** Posts events by the clock and waits until each is counted. */
class Probes {
  readonly #server: TestServer
  readonly #pool: TestPool
  readonly #isWhole: boolean
  readonly #random = createRandom(BENCH_SEED)
  readonly #times: number[] = []
  readonly #underWay = new Set<Promise<void>>()
  #skipped = 0
  #failure = ''

  /** @param isWhole counters without a time range */
  constructor(server: TestServer, pool: TestPool, isWhole = false) {
    this.#server = server
    this.#pool = pool
    this.#isWhole = isWhole
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    const timer = setInterval(() => {
      if (this.#underWay.size >= PROBES_MAX) {
        this.#skipped += 1
        return
      }
      const probe = this.#probe()
        .catch(error => {
          this.#failure = (error as Error).message
        })
        .finally(() => this.#underWay.delete(probe))
      this.#underWay.add(probe)
    }, PROBE_EVERY_MS)
    try {
      return await work()
    } finally {
      clearInterval(timer)
      await Promise.all(this.#underWay)
    }
  }

  report(goalMs?: number): string {
    const failed = this.#failure === '' ? '' : `; FAILED: ${this.#failure}`
    if (this.#failure !== '') process.exitCode = 1
    const skipped =
      this.#skipped === 0 ? '' : `; ${this.#skipped} NOT SENT, ${PROBES_MAX} were open: true times are longer`
    const times = [...this.#times]
    return `${latencies(times)}${verdict(quantileOf(times, 0.99), goalMs)}, of ${times.length} probes${skipped}${failed}`
  }

  async #probe(): Promise<void> {
    const id = eventId(PROBE_PRODUCER, probesSent++)
    const at = Date.now()
    const event = { ...JSON.parse(benchEvent(0, this.#random)), id, time: new Date(at).toISOString() }
    const answer = await fetch(this.#pool.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(event),
    })
    await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`a probe was answered with ${answer.status}`)
    const acknowledgedMs = performance.now()
    const iso = (ms: number) => new Date(ms).toISOString()
    const input = {
      filters: [{ column: 'id', operator: 'EQUALS', value: id }],
      ...(this.#isWhole
        ? {}
        : { timeRange: { start: iso(at - PROBE_RANGE_MS), stop: iso(at + PROBE_RANGE_MS) } }),
    }
    while ((await this.#server.count(this.#pool.poolId, input)) !== '1')
      if (performance.now() - acknowledgedMs > PROBE_MS_MAX)
        throw new Error(`event ${id} is acknowledged and was not counted within ${PROBE_MS_MAX} ms`)
    this.#times.push(performance.now() - acknowledgedMs)
  }
}
