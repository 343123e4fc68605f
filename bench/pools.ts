/**
 * Question: do 2,000 pools with one event a second each hold steady?
 *
 *   Single events, evenly over all pools, and 20 counters a second on random pools. Three pools of
 *   four have a key. Prints a line every 30 s. At the end: the trend of the last third, kill -9,
 *   the time until the server answers again, and whether sampled pools count the acknowledged
 *   events.
 *
 * Goals: at most 20,000 files, anonymous memory of at most 1 GB, flush p99 of at most 1 s, no rise
 * in the last third. The highest rate is no question here (bench -- path). Server and generator
 * share the cores.
 */
import { join } from 'node:path'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { BENCH_COLUMNS, BENCH_SEED, createRandom } from './events.ts'
import {
  cpuByThread,
  cpuSeconds,
  folderBytes,
  memory,
  print,
  quantileOf,
  row,
  short,
  sleep,
  trendOf,
} from './measure.ts'
import { numberOf } from './options.ts'
import { startTrickle, type Trickle, type TrickleDone, type TrickleWindow } from './trickle.ts'
import { countFiles, type Scrape, scrape, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface PoolsBenchOptions {
  readonly minutes?: string | undefined
  readonly pools?: string | undefined
  readonly rate?: string | undefined
  readonly connections?: string | undefined
}

const REPORT_SECONDS = 30
const COUNTERS_PER_SECOND = 20
const SAMPLED_POOLS = 100
const CREATED_AT_ONCE = 16

/** One line of the report, as numbers. */
interface Sample {
  readonly minutes: number
  readonly files: number
  readonly memory: number
  readonly flushP99: number
  readonly segments: number
  readonly counterP99: number
}

const GOALS = { files: 20_000, memory: 1e9, flushP99: 1 }

/** Runs for `minutes` (15) with `pools` (2000) pools at `rate` (one a pool) events a second. */
export async function benchPools(options: PoolsBenchOptions): Promise<void> {
  const minutes = numberOf('minutes', options.minutes, 15)
  const count = Math.max(1, numberOf('pools', options.pools, 2000))
  const rate = numberOf('rate', options.rate, count)
  const connections = numberOf('connections', options.connections, 32)
  print(
    `pools: ${count} pools, ${rate} single events/s, ${COUNTERS_PER_SECOND} counters/s, ${minutes} minutes`,
  )
  const server = await startWeir()
  const pools = await createPools(server, count)
  const watch = new Watch(server)
  const start = { urls: pools.map(pool => pool.url), rate, connections, producer: 1 }
  const trickle = startTrickle(start, window => watch.add(window))
  const samples = await watchFor(minutes * 60, { server, pools, watch, trickle })
  print(row('CPU by thread', cpuByThread(server.child.pid as number)))
  const done = await trickle.stop()
  const ended = await server.kill()
  if (ended.signal !== 'SIGKILL') print(`  the server ended before:\n${ended.output}`)
  const again = await restart(server)
  const isEqual = await compare(again, pools, done)
  await again.stop()
  summarise(samples, isEqual)
}

async function createPools(server: TestServer, count: number): Promise<TestPool[]> {
  const begin = performance.now()
  const pools: TestPool[] = []
  const create = async (): Promise<void> => {
    for (let index = pools.length; index < count; index = pools.length) {
      pools.length = index + 1
      const key = index % 4 === 3 ? {} : { timestamp: 'time', uniqueId: 'id', tenant: 'tenant' }
      pools[index] = await server.createPool({ columns: [...BENCH_COLUMNS], ...key })
    }
  }
  await Promise.all(Array.from({ length: CREATED_AT_ONCE }, create))
  print(row('pools created', `${count} in ${((performance.now() - begin) / 1000).toFixed(1)} s`))
  return pools
}

/** Sums up the time between two lines of the report. */
class Watch {
  readonly #server: TestServer
  #latenciesMs: number[] = []
  #countersMs: number[] = []
  #errors = 0
  #behind = 0
  #before: { readonly page: Scrape; readonly cpu: number; readonly at: number } | undefined

  constructor(server: TestServer) {
    this.#server = server
  }

  add(window: TrickleWindow): void {
    for (const ms of window.latenciesMs) this.#latenciesMs.push(ms)
    this.#errors += window.errors
    this.#behind = window.behind
  }

  /** Adds the time of a counter; undefined where it failed. */
  counter(ms: number | undefined): void {
    if (ms === undefined) this.#errors += 1
    else this.#countersMs.push(ms)
  }

  async report(minutes: number, generatorPid: number): Promise<Sample | undefined> {
    const pid = this.#server.child.pid as number
    const { dataDir, base } = this.#server
    const [page, files] = await Promise.all([scrape(base), countFiles(dataDir)])
    const now = { page, cpu: cpuSeconds(pid), at: performance.now() }
    const before = this.#before
    this.#before = now
    if (before === undefined) return undefined
    const seconds = (now.at - before.at) / 1000
    // The quantile is NaN where nothing was flushed.
    const flushP99 = page.quantile('weir_flush_seconds', 0.99, before.page) || 0
    const flushes = page.value('weir_flush_seconds_count') - before.page.value('weir_flush_seconds_count')
    const rows = page.value('weir_flushed_rows_total') - before.page.value('weir_flushed_rows_total')
    const counterP99 = quantileOf(this.#countersMs, 0.99)
    const { anonymous, shared } = memory(pid)
    const segments = page.value('weir_segments')
    const memtable = page.value('weir_queue_depth{queue="memtable_bytes"}')
    const loop = page.value('weir_event_loop_delay_seconds{quantile="0.99"}') * 1000
    print(
      row(
        `after ${minutes.toFixed(1)} min`,
        `${files} files, ${segments} segments, anonymous ${short(anonymous)}B (+ shared ${short(shared)}B), flush p99 ${(flushP99 * 1000).toFixed(0)} ms, ${(flushes / seconds).toFixed(1)} flushes/s of ${(rows / Math.max(1, flushes)).toFixed(0)} rows`,
      ),
    )
    print(
      row(
        '',
        `ack p50 ${quantileOf(this.#latenciesMs, 0.5).toFixed(1)} ms, p99 ${quantileOf(this.#latenciesMs, 0.99).toFixed(1)} ms, ${short(this.#latenciesMs.length / seconds)}/s, ${this.#errors} errors, ${this.#behind} behind; counter p50 ${quantileOf(this.#countersMs, 0.5).toFixed(0)} ms, p99 ${counterP99.toFixed(0)} ms; loop p99 ${loop.toFixed(1)} ms`,
      ),
    )
    print(
      row(
        '',
        `server CPU ${((100 * (now.cpu - before.cpu)) / seconds).toFixed(0)} %, generator ${((100 * cpuSeconds(generatorPid)) / (now.at / 1000)).toFixed(0)} %, memtable ${short(memtable)}B, log ${short(folderBytes(join(dataDir, 'log')))}B in ${page.value('weir_log_files')} files in use`,
      ),
    )
    const compaction = page.lines('weir_compaction_').filter(([name]) => !/_bucket/.test(name))
    if (compaction.length > 0)
      print(row('', compaction.map(([name, value]) => `${name.slice(16)} ${short(value)}`).join(', ')))
    this.#latenciesMs = []
    this.#countersMs = []
    this.#errors = 0
    return { minutes, files, memory: anonymous, flushP99, segments, counterP99 }
  }
}

interface Running {
  readonly server: TestServer
  readonly pools: readonly TestPool[]
  readonly watch: Watch
  readonly trickle: Trickle
}

/** Asks counters and prints a line every 30 s. */
async function watchFor(seconds: number, running: Running): Promise<Sample[]> {
  const { server, pools, watch, trickle } = running
  const random = createRandom(BENCH_SEED)
  const begin = performance.now()
  const samples: Sample[] = []
  await watch.report(0, trickle.pid)
  const asking = setInterval(() => {
    const pool = pools[Math.floor(random() * pools.length)]!
    const asked = performance.now()
    server.count(pool.poolId).then(
      () => watch.counter(performance.now() - asked),
      () => watch.counter(undefined),
    )
  }, 1000 / COUNTERS_PER_SECOND)
  try {
    for (let due = Math.min(seconds, REPORT_SECONDS); due <= seconds; due += REPORT_SECONDS) {
      const wait = begin + due * 1000 - performance.now()
      const ended = await Promise.race([server.ended, sleep(wait).then(() => undefined)])
      if (ended !== undefined)
        throw new Error(`the server ended: ${ended.code ?? ended.signal}\n${ended.output}`)
      const sample = await watch.report((performance.now() - begin) / 60_000, trickle.pid)
      if (sample !== undefined) samples.push(sample)
    }
  } finally {
    clearInterval(asking)
  }
  return samples
}

async function restart(server: TestServer): Promise<TestServer> {
  const begin = performance.now()
  const again = await startWeir({ dataDir: server.dataDir })
  const ms = performance.now() - begin
  const replayed = /replayed (\d+) requests/.exec(again.output())?.[1] ?? '0'
  print(row('restart after kill -9', `${(ms / 1000).toFixed(2)} s, ${replayed} requests replayed`))
  return again
}

/** Sampled pools must count at least the acknowledged events and at most the sent ones. */
async function compare(server: TestServer, pools: readonly TestPool[], done: TrickleDone): Promise<boolean> {
  const random = createRandom(BENCH_SEED + 1)
  const begin = performance.now()
  let wrong = 0
  const sampled = Math.min(SAMPLED_POOLS, pools.length)
  for (let i = 0; i < sampled; i++) {
    const index = Math.floor(random() * pools.length)
    const counted = Number(await server.count(pools[index]!.poolId))
    const [least, most] = [done.acknowledged[index]!, done.sent[index]!]
    if (counted >= least && counted <= most) continue
    wrong += 1
    print(row('', `pool ${index} counts ${counted}, acknowledged ${least}, sent ${most}: DIFFERS`))
  }
  const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0)
  print(
    row(
      'acknowledged',
      `${sum(done.acknowledged)} of ${sum(done.sent)} sent; ${sampled - wrong} of ${sampled} sampled pools count them (${((performance.now() - begin) / sampled).toFixed(0)} ms each)`,
    ),
  )
  return wrong === 0
}

/** Prints the trend of each figure, its change as a part of the mean. */
function summarise(samples: readonly Sample[], isEqual: boolean): void {
  print('summary (largest of the run; change over the last third by a straight line)')
  for (const name of ['files', 'segments', 'memory', 'flushP99', 'counterP99'] as const) {
    const { largest, mean, change } = trendOf(samples, sample => sample[name])
    const goal = name in GOALS ? GOALS[name as keyof typeof GOALS] : undefined
    const verdict = goal === undefined ? '' : `, goal ${short(goal)}: ${largest <= goal ? 'met' : 'MISSED'}`
    const part = mean === 0 ? 0 : (100 * change) / mean
    print(row(name, `${short(largest)}, ${part >= 0 ? '+' : ''}${part.toFixed(1)} %${verdict}`))
  }
  print(row('counts', isEqual ? 'equal' : 'DIFFER'))
}
