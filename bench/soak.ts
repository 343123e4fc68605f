/**
 * Question: do memory, files, descriptors, log and threads stay the same over half an hour of mixed
 * work?
 *
 *   200 small pools and a large one, all of fixed size. Each round posts new records and updates,
 *   then deletes the oldest. 20 sums a second on small pools and 2 on the large one, and
 *   compaction. Prints a line each minute. Memory is read every two seconds: the median of a minute
 *   shows the trend, the peak shows the need of a merge of the large pool. At the end: the trend of
 *   each figure over the last third by a straight line, and every pool's count against the
 *   acknowledged events.
 *
 * The highest rate is no question here (bench -- path). Server and generator share the cores.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { Connection, NO_ANSWER, PREFER_MINIMAL, requestHead } from './connection.ts'
import { BENCH_SEED, benchEvent, createRandom } from './events.ts'
import { everyMs, folderBytes, memory, print, quantileOf, row, short, sleep, trendOf } from './measure.ts'
import { numberOf } from './options.ts'
import { countFiles, keyedPool, scrape, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface SoakOptions {
  readonly minutes?: string | undefined
  readonly pools?: string | undefined
  readonly rows?: string | undefined
}

const LANES = 4
const ROUNDS_PER_SECOND = 48
const LARGE_ROUNDS_PER_SECOND = 8
const COUNTERS_PER_SECOND = 20
const SUMS_PER_SECOND = 2
const SMALL_ROWS = 500
const FILL_EVENTS = 500
const REPORT_MS = 60_000
const MEMORY_MS = 2_000
const RETRY_MS = 200

/** Runs for `minutes` (30) with `pools` (200) small pools and a large one of `rows` (500,000). */
export async function benchSoak(options: SoakOptions): Promise<void> {
  const minutes = numberOf('minutes', options.minutes, 30)
  const count = Math.max(1, Math.round(numberOf('pools', options.pools, 200)))
  const rows = Math.max(FILL_EVENTS, numberOf('rows', options.rows, 500_000))
  print(
    `soak: ${count} pools of ${SMALL_ROWS} rows and one of ${short(rows)}, ${ROUNDS_PER_SECOND} + ${LARGE_ROUNDS_PER_SECOND} rounds/s, ${COUNTERS_PER_SECOND} + ${SUMS_PER_SECOND} queries/s, ${minutes} minutes`,
  )
  const server = await startWeir()
  const large = new SoakPool(await keyedPool(server), 100)
  await large.fill(rows)
  const small: SoakPool[] = []
  for (let index = 0; index < count; index++) {
    const pool = new SoakPool(await keyedPool(server), 5)
    await pool.fill(SMALL_ROWS)
    small.push(pool)
  }
  const samples = await soak(server, small, large, minutes)
  const wrong = await compare(server, [...small, large])
  for (const pool of [...small, large]) pool.close()
  await server.stop()
  summarise(samples)
  print(row('counts', wrong === 0 ? 'equal' : `DIFFER in ${wrong} pools`))
}

/**
 * A pool of known content: records `#from` to `#to - 1` are live. It sends one request at a time,
 * and refused requests again.
 */
class SoakPool {
  readonly pool: TestPool
  readonly #connection: Connection
  readonly #random = createRandom(BENCH_SEED)
  readonly #events: number
  #from = 0
  #to = 0
  /** Refused requests, and requests whose connection closed. Each was sent again. */
  refused = 0
  unanswered = 0
  readonly latenciesMs: number[] = []

  /** @param events number of records that each round posts, updates and deletes */
  constructor(pool: TestPool, events: number) {
    this.pool = pool
    this.#events = events
    this.#connection = new Connection(pool.url)
  }

  /** Rows that a counter must show. */
  get rows(): number {
    return this.#to - this.#from
  }

  async fill(rows: number): Promise<void> {
    while (this.rows < rows) await this.#post(Math.min(FILL_EVENTS, rows - this.rows), 0)
    this.latenciesMs.length = 0
  }

  /** Posts new records and updates random ones, then deletes as many of the oldest. */
  async round(): Promise<void> {
    await this.#post(this.#events, this.#events)
    const oldest = Array.from({ length: this.#events }, (_, i) => {
      const { id, time } = JSON.parse(benchEvent(this.#from + i, this.#random)) as Record<string, string>
      return JSON.stringify({ id, time })
    })
    await this.#send('DELETE', oldest)
    this.#from += this.#events
  }

  close(): void {
    this.#connection.close()
  }

  async #post(fresh: number, updates: number): Promise<void> {
    const event = (index: number) => benchEvent(index, this.#random)
    await this.#send('POST', [
      ...Array.from({ length: fresh }, (_, i) => event(this.#to + i)),
      ...Array.from({ length: updates }, () => event(this.#from + Math.floor(this.#random() * this.rows))),
    ])
    this.#to += fresh
  }

  async #send(method: 'POST' | 'DELETE', events: readonly string[]): Promise<void> {
    const body = `[${events.join(',')}]`
    const head = requestHead(method, this.pool.url, Buffer.byteLength(body), PREFER_MINIMAL)
    for (;;) {
      const begin = performance.now()
      const status = await this.#connection.send(head + body)
      this.latenciesMs.push(performance.now() - begin)
      if (status === 200) return
      if (status !== NO_ANSWER && status !== 429 && status !== 503)
        throw new Error(`the server answered ${status}`)
      if (status === NO_ANSWER) this.unanswered += 1
      else this.refused += 1
      await sleep(RETRY_MS)
    }
  }
}

/** One line of the report, as numbers. */
interface Sample {
  readonly minutes: number
  /** Median and largest of the minute. */
  readonly anonymous: number
  readonly peak: number
  readonly shared: number
  readonly files: number
  readonly descriptors: number
  readonly logBytes: number
  readonly threads: number
  readonly segments: number
}

async function soak(
  server: TestServer,
  small: readonly SoakPool[],
  large: SoakPool,
  minutes: number,
): Promise<Sample[]> {
  const begin = performance.now()
  const end = begin + minutes * 60_000
  const random = createRandom(BENCH_SEED)
  const queriesMs: number[] = []
  let failed = 0
  const ask = async (question: Promise<unknown>) => {
    const asked = performance.now()
    await question.then(
      () => queriesMs.push(performance.now() - asked),
      () => failed++,
    )
  }
  const lane = (number: number) => {
    const mine = small.filter((_, index) => index % LANES === number)
    let next = 0
    const round = async () => await mine[next++ % mine.length]?.round()
    return everyMs((LANES * 1000) / ROUNDS_PER_SECOND, end, round)
  }
  const samples: Sample[] = []
  const memories: number[] = []
  const readMemory = async () => void memories.push(memory(server.child.pid as number).anonymous)
  const report = async () => {
    const sample = await takeSample(server, (performance.now() - begin) / 60_000, memories.splice(0))
    samples.push(sample)
    const acksMs = [...small, large].flatMap(pool => pool.latenciesMs.splice(0))
    const all = (of: (pool: SoakPool) => number) => [...small, large].reduce((sum, pool) => sum + of(pool), 0)
    const times = (of: number[]) =>
      `${of.length}, p50 ${quantileOf(of, 0.5).toFixed(0)} ms, p99 ${quantileOf(of, 0.99).toFixed(0)} ms`
    print(row(`after ${sample.minutes.toFixed(1)} min`, describe(sample)))
    print(
      row(
        '',
        `acks ${times(acksMs)}, ${all(pool => pool.refused)} refused, ${all(pool => pool.unanswered)} without answer; queries ${times(queriesMs.splice(0))}, failed ${failed}`,
      ),
    )
  }
  const anyPool = () => small[Math.floor(random() * small.length)]?.pool.poolId ?? ''
  await Promise.all([
    ...Array.from({ length: LANES }, (_, number) => lane(number)),
    everyMs(1000 / LARGE_ROUNDS_PER_SECOND, end, () => large.round()),
    everyMs(1000 / COUNTERS_PER_SECOND, end, () => ask(server.sum(anyPool(), 'quantity'))),
    everyMs(1000 / SUMS_PER_SECOND, end, () => ask(server.sum(large.pool.poolId, 'quantity'))),
    everyMs(MEMORY_MS, end, readMemory),
    everyMs(Math.min(REPORT_MS, (end - begin) / 3), end, report),
  ])
  await report()
  if (failed > 0) print(row('queries', `${failed} FAILED`))
  return samples
}

async function takeSample(
  { child, base, dataDir }: TestServer,
  minutes: number,
  memories: number[],
): Promise<Sample> {
  const pid = child.pid as number
  const [page, files] = await Promise.all([scrape(base), countFiles(dataDir)])
  const { anonymous, shared } = memory(pid)
  memories.push(anonymous)
  return {
    minutes,
    anonymous: quantileOf(memories, 0.5),
    peak: Math.max(...memories),
    shared,
    files,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    logBytes: folderBytes(join(dataDir, 'log')),
    threads: readdirSync(`/proc/${pid}/task`).length,
    segments: page.value('weir_segments'),
  }
}

function describe(sample: Sample): string {
  const { anonymous, peak, shared, files, descriptors, logBytes, threads, segments } = sample
  return `anonymous ${short(anonymous)}B, peak ${short(peak)}B, shared ${short(shared)}B, ${files} files, ${descriptors} descriptors, log ${short(logBytes)}B, ${threads} threads, ${segments} segments`
}

async function compare(server: TestServer, pools: readonly SoakPool[]): Promise<number> {
  let wrong = 0
  for (const { pool, rows } of pools) {
    const counted = Number(await server.count(pool.poolId))
    if (counted === rows) continue
    wrong += 1
    print(row('', `pool ${pool.poolId} counts ${counted}, acknowledged ${rows}: DIFFERS`))
  }
  return wrong
}

function summarise(samples: readonly Sample[]): void {
  print('summary (largest of the run; change over the last third by a straight line)')
  const names = [
    'anonymous',
    'peak',
    'shared',
    'files',
    'descriptors',
    'logBytes',
    'threads',
    'segments',
  ] as const
  for (const name of names) {
    const { largest, change } = trendOf(samples, sample => sample[name])
    print(row(name, `${short(largest)}, ${change < 0 ? '-' : '+'}${short(Math.abs(change))}`))
  }
}
