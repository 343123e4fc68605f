/**
 * `/metrics`: what an operator watches, in Prometheus' text form.
 *
 * Counters of the ingest path are plain numbers in Maps, handed to prom-client when the page is read: counting an event
 * must not cost more than adding one.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type * as Prom from 'prom-client'
import type { MergeFigures } from './compact/scheduler-calls.ts'
import { METRIC_SERIES_MAX } from './limits.ts'
import { loadPackage } from './util/load-package.ts'

/** Class by class: the package's index brings a push gateway, a cluster's registry and HTTP along. */
const Counter = loadPackage('prom-client/lib/counter.js') as typeof Prom.Counter
const Gauge = loadPackage('prom-client/lib/gauge.js') as typeof Prom.Gauge
const Histogram = loadPackage('prom-client/lib/histogram.js') as typeof Prom.Histogram
const Registry = loadPackage('prom-client/lib/registry.js') as typeof Prom.Registry
type Registry = Prom.Registry

/** A reading taken when the page is asked for: one number, or one per label value. */
type Reading = () => number | readonly (readonly [string, number])[]

export interface Metrics {
  /** `count` events of `pool` (its unique name) were `accepted` or `rejected`; `code` is `ok` or the fault's. */
  events(pool: string, result: 'accepted' | 'rejected', code: string, count: number): void
  /** An ingest request was refused as a whole, with this problem code. */
  refused(code: string): void
  request(status: number): void
  bytes(count: number): void
  sync(ms: number, bytes: number): void
  seal(ms: number, rows: number): void
  /** From the ack of a row to the flush of its seal. */
  visible(ms: number): void
  query(ms: number): void
  merge(figures: MergeFigures): void
  mergeFailed(): void
  /** A gauge that is read when the page is. `label` names what the readings are told apart by. */
  gauge(name: string, help: string, reading: Reading, label?: string): void
  text(): Promise<string>
  stop(): void
}

const SYNC_SECONDS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5]
const MERGE_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300]
const SEAL_SECONDS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]

/** A tail that no reader asks for is sealed by its age, which is a minute. */
const VISIBLE_SECONDS = [...SEAL_SECONDS, 20, 30, 45, 60, 90]

export function createMetrics(): Metrics {
  const registers = [new Registry()]
  const registry = registers[0]!
  const events = new Map<string, number>()
  const requests = new Map<string, number>()
  const refusals = new Map<string, number>()
  let bytes = 0
  countedByLabel(
    registers,
    'weir_events_total',
    'events by pool, result and code',
    ['pool', 'result', 'code'],
    events,
  )
  const requestsHelp = 'HTTP requests by status; 0: the client went first'
  countedByLabel(registers, 'weir_requests_total', requestsHelp, ['status'], requests)
  countedByLabel(
    registers,
    'weir_refused_requests_total',
    'ingest requests refused as a whole, by code',
    ['code'],
    refusals,
  )
  countedPlainly(registers, 'weir_received_bytes_total', 'bytes of request bodies', () => bytes)
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, buckets, registers })
  const sync = histogram('weir_log_sync_seconds', 'write and sync of one group', SYNC_SECONDS)
  const seal = histogram('weir_seal_seconds', 'from the start of a seal to its flush', SEAL_SECONDS)
  const visible = histogram(
    'weir_ack_to_visible_seconds',
    'from the oldest ack of a seal to its flush',
    VISIBLE_SECONDS,
  )
  const query = histogram('weir_query_seconds', 'queries, waiting and seal included', SEAL_SECONDS)
  const synced = new Counter({ name: 'weir_log_bytes_total', help: 'bytes written to the log', registers })
  const sealed = new Counter({
    name: 'weir_sealed_rows_total',
    help: 'rows taken from the tails by seals',
    registers,
  })
  const compaction = countMerges(registers)
  const loop = watchEventLoop(registers)
  return {
    events(pool, result, code, count) {
      const key = `${pool}\n${result}\n${code}`
      // Pools come and go; the page must not grow for ever.
      const isKnown = events.has(key) || events.size < METRIC_SERIES_MAX
      add(events, isKnown ? key : `other\n${result}\n${code}`, count)
    },
    refused: code => add(refusals, code, 1),
    request: status => add(requests, String(status), 1),
    bytes: count => {
      bytes += count
    },
    sync(ms, count) {
      sync.observe(ms / 1000)
      synced.inc(count)
    },
    seal(ms, rows) {
      seal.observe(ms / 1000)
      sealed.inc(rows)
    },
    visible: ms => visible.observe(ms / 1000),
    query: ms => query.observe(ms / 1000),
    ...compaction,
    gauge: (name, help, reading, label) => void readGauge(registers, name, help, reading, label),
    text: () => registry.metrics(),
    stop: () => loop.disable(),
  }
}

/** Counters of merges; what waits for one is a gauge (meter.ts). */
function countMerges(registers: Registry[]): Pick<Metrics, 'merge' | 'mergeFailed'> {
  const counter = (what: string, help: string) =>
    new Counter({ name: `weir_compaction_${what}_total`, help, registers })
  const merges = counter('merges', 'merges that were swapped in')
  const failures = counter('failures', 'merges that failed; they are tried again')
  const rowsRead = counter('read_rows', 'rows of all inputs of merges, those that are not visible too')
  const bytesRead = counter('read_bytes', 'bytes of all inputs of merges')
  const rowsWritten = counter('written_rows', 'rows of segments that merges wrote')
  const bytesWritten = counter('written_bytes', 'bytes of segments that merges wrote')
  const seconds = new Histogram({
    name: 'weir_compaction_seconds',
    help: 'from the start of a merge to the flush of its swap',
    buckets: MERGE_SECONDS,
    registers,
  })
  return {
    merge(figures) {
      merges.inc()
      rowsRead.inc(figures.rowsRead)
      bytesRead.inc(figures.bytesRead)
      rowsWritten.inc(figures.rowsWritten)
      bytesWritten.inc(figures.bytesWritten)
      seconds.observe(figures.ms / 1000)
    },
    mergeFailed: () => failures.inc(),
  }
}

function countedByLabel(
  registers: Registry[],
  name: string,
  help: string,
  labelNames: string[],
  counts: ReadonlyMap<string, number>,
): void {
  new Counter({
    name,
    help,
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const [key, count] of counts) {
        const values = key.split('\n')
        // Names of pools come first, and may hold line breaks themselves.
        const first = values.splice(0, values.length - labelNames.length + 1).join('\n')
        const labels = labelNames.map((label, index) => [label, index === 0 ? first : values[index - 1]])
        this.inc(Object.fromEntries(labels), count)
      }
    },
  })
}

function countedPlainly(registers: Registry[], name: string, help: string, count: () => number): void {
  new Counter({
    name,
    help,
    registers,
    collect() {
      this.reset()
      this.inc(count())
    },
  })
}

function add(counts: Map<string, number>, key: string, count: number): void {
  counts.set(key, (counts.get(key) ?? 0) + count)
}

function readGauge(
  registers: Registry[],
  name: string,
  help: string,
  reading: Reading,
  label: string | undefined,
): void {
  new Gauge({
    name,
    help,
    labelNames: label === undefined ? [] : [label],
    registers,
    collect() {
      const value = reading()
      if (label !== undefined) this.reset() // what has no reading any more goes
      if (typeof value === 'number') this.set(value)
      else for (const [which, count] of value) this.set({ [label ?? 'of']: which }, count)
    },
  })
}

/** W-11's goal is a delay of 5 ms at p99: the histogram covers the time since the page was last read. */
function watchEventLoop(registers: Registry[]) {
  const resolutionMs = 2
  const loop = monitorEventLoopDelay({ resolution: resolutionMs })
  loop.enable()
  const seconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - resolutionMs / 1000)
  new Gauge({
    name: 'weir_event_loop_delay_seconds',
    help: 'delay of the main thread since the page was last read',
    labelNames: ['quantile'],
    registers,
    collect() {
      for (const quantile of [50, 99])
        this.set({ quantile: String(quantile / 100) }, seconds(loop.percentile(quantile)))
      this.set({ quantile: '1' }, seconds(loop.max))
      loop.reset()
    },
  })
  return loop
}
