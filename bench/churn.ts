/**
 * Question: do 10M rows stay fast and small through 2M random updates and 500k deletes?
 *
 *   1  post rows at full speed into one pool; then ask counters of the idle server (before)
 *   2  update and delete at full speed, with 10 counters a second (during)
 *   3  ingest into new pools, in turn with and without compaction
 *   4  wait until the compaction debt is zero, with 10 counters a second; then ask counters of the
 *      idle server (after)
 *   5  compare visible rows and a sum with the model, print bytes on disk, run `weir verify` on the
 *      stopped folder
 *
 * A counter is a sum over a random hundredth of the time range. The highest rate is no question
 * here (bench -- path).
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS, BENCH_SEED, createRandom } from './events.ts'
import { type FloodDone, flood } from './flood.ts'
import { benchFolder, tracked } from './leftovers.ts'
import { folderBytes, median, memory, print, quantileOf, row, short, sleep } from './measure.ts'
import { numberOf } from './options.ts'
import { keyedPool, type Scrape, scrape, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface ChurnOptions {
  readonly rows?: string | undefined
  readonly updates?: string | undefined
  readonly deletes?: string | undefined
  readonly seconds?: string | undefined
  readonly pairs?: string | undefined
  readonly connections?: string | undefined
}

const COUNTERS_PER_SECOND = 10
const REPORT_MS = 30_000
const DEBT_MINUTES_MAX = 60
const DEBT = ['small_segments', 'deleted_rows', 'bytes_to_merge', 'pools_waiting', 'running']
/** One tick an hour: compaction does not run during the bench. */
const WITHOUT_COMPACTION = ['--compact-tick-ms', '3600000']

/** The state that all steps share. */
interface ChurnState {
  readonly rows: number
  /** Length of each run of ingest, and of the counters on the idle server. */
  readonly seconds: number
  readonly dataDir: string
  readonly connections: number
  server: TestServer
  pool: TestPool
}

/**
 * Runs with `rows` (10M), `updates` (2M) and `deletes` (500k). Step 3 has `pairs` (2) of runs of
 * `seconds` (20) each; the counters on the idle server take as long.
 */
export async function benchChurn(options: ChurnOptions): Promise<void> {
  const rows = ofBatches(numberOf('rows', options.rows, 10_000_000))
  const updates = ofBatches(numberOf('updates', options.updates, rows / 5))
  const deletes = ofBatches(numberOf('deletes', options.deletes, rows / 20))
  print(`churn: ${rows} rows, then ${updates} updates and ${deletes} deletes`)
  const dataDir = join(benchFolder('weir-churn-'), 'data')
  const server = await startWeir({ dataDir })
  const connections = numberOf('connections', options.connections, 16)
  const seconds = numberOf('seconds', options.seconds, 20)
  const bench: ChurnState = { rows, seconds, dataDir, connections, server, pool: await keyedPool(server) }
  await step(bench, 'rows posted', { kind: 'insert', rows })
  await checkCount(bench, rows)
  await idle(bench, 'counters before')
  const churned = await withCounters(bench, 'counters during the churn', () =>
    step(bench, 'updated and deleted', { kind: 'churn', rows, updates, deletes }),
  )
  await checkCount(bench, churned.rows)
  describeDisk(bench, 'disk before compaction')
  await ingestPairs(bench, numberOf('pairs', options.pairs, 2))
  await withCounters(bench, 'counters during compaction', () => settleDebt(bench))
  await idle(bench, 'counters after')
  describeDisk(bench, 'disk after compaction')
  const isRight = await checkModel(bench, churned)
  const end = await bench.server.stop()
  print(row('stopped', `${end.code ?? end.signal}`))
  const verified = await verify(dataDir)
  print(row('weir verify', verified))
  print(row('verdict', isRight && verified.startsWith('exit 0') ? 'rows and sum equal the model' : 'WRONG'))
}

/** Rounds to whole requests. */
function ofBatches(rows: number): number {
  return Math.round(rows / BATCH_EVENTS) * BATCH_EVENTS
}

type Step =
  | { readonly kind: 'insert'; readonly rows: number }
  | { readonly kind: 'churn'; readonly rows: number; readonly updates: number; readonly deletes: number }

/** Floods the pool, and prints a line every 30 s. */
async function step(bench: ChurnState, name: string, work: Step): Promise<FloodDone> {
  const begin = performance.now()
  let told = begin
  const { connections, pool } = bench
  const done = await flood({ ...work, url: pool.url, connections }, events => {
    if (performance.now() - told < REPORT_MS) return
    told = performance.now()
    const anonymous = short(memory(bench.server.child.pid as number).anonymous)
    print(
      row(
        `  after ${((told - begin) / 1000).toFixed(0)} s`,
        `${short(events)} events, anonymous ${anonymous}B`,
      ),
    )
  })
  const rate = short(done.events / done.seconds)
  print(
    row(
      name,
      `${done.events} in ${done.seconds.toFixed(1)} s: ${rate} events/s, ${done.again} requests sent again`,
    ),
  )
  return done
}

/** Counts the visible rows, which flushes the memtable. True where all expected rows are there. */
async function checkCount({ server, pool }: ChurnState, want: number): Promise<boolean> {
  const counted = await server.count(pool.poolId)
  const isRight = counted === String(want)
  print(row('rows visible', `${counted}${isRight ? ', as posted' : `: DIFFERS from ${want}`}`))
  return isRight
}

/** Asks counters until `work` is done, and prints their times. */
async function withCounters<T>(bench: ChurnState, name: string, work: () => Promise<T>): Promise<T> {
  const random = createRandom(BENCH_SEED)
  const times: number[] = []
  let failed = ''
  let underWay = 0
  const ask = async () => {
    const startMs = Date.UTC(2026, 0, 1) + Math.floor(random() * bench.rows * 0.99)
    const timeRange = {
      start: new Date(startMs).toISOString(),
      stop: new Date(startMs + Math.ceil(bench.rows / 100)).toISOString(),
    }
    const begin = performance.now()
    underWay += 1
    try {
      await bench.server.sum(bench.pool.poolId, 'quantity', { timeRange })
      times.push(performance.now() - begin)
    } catch (error) {
      failed = (error as Error).message
    } finally {
      underWay -= 1
    }
  }
  // Slow counters do not pile up: at most those of one second wait.
  const timer = setInterval(() => void (underWay < COUNTERS_PER_SECOND && ask()), 1000 / COUNTERS_PER_SECOND)
  try {
    return await work()
  } finally {
    clearInterval(timer)
    while (underWay > 0) await sleep(10)
    const third = Math.ceil(times.length / 3)
    const thirds = [0, 1, 2].map(n => median(times.slice(n * third, (n + 1) * third)).toFixed(0))
    const at = (quantile: number) => quantileOf(times, quantile).toFixed(0)
    print(
      row(name, `p50 ${at(0.5)} ms (in thirds ${thirds.join(', ')}), p99 ${at(0.99)} ms, of ${times.length}`),
    )
    if (failed !== '') print(`${row('FAILED', failed)}\n${bench.server.output().slice(-2000)}`)
  }
}

function idle(bench: ChurnState, name: string): Promise<void> {
  return withCounters(bench, name, () => sleep(bench.seconds * 1000))
}

function describeDisk({ server, dataDir }: ChurnState, name: string): void {
  const parts = ['segment', 'index', 'log'].map(part => `${part} ${short(folderBytes(join(dataDir, part)))}B`)
  const { anonymous } = memory(server.child.pid as number)
  print(row(name, `${parts.join(', ')}; anonymous memory ${short(anonymous)}B`))
}

/** Ingest into new pools; beside every second run the first pool is compacted. */
async function ingestPairs(bench: ChurnState, pairs: number): Promise<void> {
  const rates: { readonly without: number; readonly beside: number }[] = []
  for (let pair = 0; pair < pairs; pair++) {
    const without = await ingest(bench, WITHOUT_COMPACTION, `ingest without compaction ${pair + 1}`)
    const beside = await ingest(bench, [], `ingest beside compaction ${pair + 1}`)
    rates.push({ without, beside })
  }
  if (rates.length === 0) return
  const ratio = median(rates.map(({ without, beside }) => beside / without)).toFixed(2)
  print(row('ingest beside compaction against without', `${ratio} ×, median of ${pairs} pairs`))
}

async function ingest(bench: ChurnState, args: readonly string[], name: string): Promise<number> {
  await reopen(bench, args)
  const { url } = await keyedPool(bench.server)
  const before = await scrape(bench.server.base)
  const done = await flood(
    { kind: 'fill', seconds: bench.seconds, url, connections: bench.connections },
    () => {},
  )
  const after = await scrape(bench.server.base)
  const merged =
    after.value('weir_compaction_read_bytes_total') - before.value('weir_compaction_read_bytes_total')
  print(
    row(name, `${short(done.events / done.seconds)} events/s, ${short(merged)}B merged, ${debtOf(after)}`),
  )
  return done.events / done.seconds
}

async function reopen(bench: ChurnState, args: readonly string[]): Promise<void> {
  await bench.server.stop()
  bench.server = await startWeir({ dataDir: bench.dataDir, args })
}

function debtOf(page: Scrape): string {
  const debt = DEBT.map(name => `${name} ${short(page.value(`weir_compaction_${name}`))}`).join(', ')
  return `${page.value('weir_segments')} segments, ${debt}`
}

/** Waits until there is nothing to merge. Deleted rows below the threshold may stay. */
async function settleDebt({ server }: ChurnState): Promise<void> {
  const begin = performance.now()
  let told = 0
  let quiet = 0
  for (;;) {
    const page = await scrape(server.base)
    const minutes = (performance.now() - begin) / 60_000
    const waits = ['small_segments', 'bytes_to_merge', 'pools_waiting', 'running']
    quiet = waits.every(name => page.value(`weir_compaction_${name}`) === 0) ? quiet + 1 : 0
    const isOver = quiet >= 5 || minutes > DEBT_MINUTES_MAX
    if (isOver || performance.now() - told > REPORT_MS) {
      told = performance.now()
      print(row(isOver ? 'compaction ends' : 'compaction', `${minutes.toFixed(1)} min: ${debtOf(page)}`))
    }
    if (isOver) return
    await sleep(1000)
  }
}

async function checkModel(bench: ChurnState, want: FloodDone): Promise<boolean> {
  const isCount = await checkCount(bench, want.rows)
  const sum = await bench.server.sum(bench.pool.poolId, 'quantity')
  const isSum = Number(sum) === want.sum
  print(row('sum of quantity', `${sum}${isSum ? ', as the model' : `: DIFFERS from ${want.sum}`}`))
  return isCount && isSum
}

/** `exit <code>: <its last line>`. */
function verify(dataDir: string): Promise<string> {
  const main = fileURLToPath(new URL('../src/app/main.js', import.meta.url))
  return new Promise(resolve => {
    const child = execFile(
      process.execPath,
      [main, 'verify', '--data-dir', dataDir],
      { maxBuffer: 2 ** 28 },
      (error, out, err) => {
        const last = (out.trim() || err.trim()).split('\n').at(-1) ?? ''
        resolve(`exit ${error === null ? 0 : error.code}: ${last}`)
      },
    )
    tracked(child)
  })
}
