/**
 * `/metrics`: counters, gauges and histograms in Prometheus' text form.
 *
 * Counters of the ingest path are plain numbers in Maps, because counting an event must not cost
 * more than adding one. prom-client gets them when the page is read.
 */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import type * as Prom from 'prom-client'
import type { MergeFigures } from '../store/compaction/compaction-types.ts'
import { getOrMake } from '../util/get-or-make.ts'
import { METRIC_APPLICATIONS_MAX } from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import { printable } from '../util/say.ts'

/**
 * Lines of weir_events_total (pool, result, code). Further pools are counted together as `other`.
 */
const METRIC_SERIES_MAX = 10_000
/** Syncs that wait until they are sorted into the histogram: about 0.2 ms of work. */
const METRIC_SYNCS_BUFFERED = 256

// Class by class, because the package's index also loads a push gateway, a cluster's registry and
// HTTP.
const Counter = loadPackage('prom-client/lib/counter.js') as typeof Prom.Counter
const Gauge = loadPackage('prom-client/lib/gauge.js') as typeof Prom.Gauge
const Histogram = loadPackage('prom-client/lib/histogram.js') as typeof Prom.Histogram
const Registry = loadPackage('prom-client/lib/registry.js') as typeof Prom.Registry
type Registry = Prom.Registry

/** One number, or one for each set of label values. Undefined where there is none now. */
type Value = number | readonly (readonly [...values: string[], count: number])[] | undefined

/** A reading taken when the page is asked for. */
type Reading = () => Value | Promise<Value>

export interface Metrics {
  /**
   * `count` events of `pool` (its unique name) were `accepted` or `rejected`. `code` is `ok` or the
   * code of the event error.
   */
  events(pool: string, result: 'accepted' | 'rejected', code: string, count: number): void
  /** A request to ingest or to import was refused as a whole, with this problem code. */
  refused(code: string): void
  /** A request to `pool` (its unique name) whose signature was refused. */
  signatureRefused(pool: string, code: string): void
  /** Rows of the pool of rejected events: stored, and left out for want of room. */
  rejectedRows(kept: number, leftOut: number): void
  /** Spans of traces: `exported`, or why they were lost. */
  spans(outcome: string, count: number): void
  request(status: number): void
  bytes(count: number): void
  sync(ms: number, bytes: number): void
  flush(ms: number, rows: number): void
  /** From the ack of a row to the sync of its flush. */
  visible(ms: number): void
  query(ms: number): void
  /** A query process has failed, or was ended because of a query, and another one starts. */
  queryProcessFailed(): void
  /** A query of `application` (its unique name) has waited this long for its turn. */
  queryWaited(application: string, ms: number): void
  merge(figures: MergeFigures): void
  mergeFailed(): void
  jobRows(kind: string, count: number): void
  /** A gauge that is read with the page. `labels` names the labels whose values a reading has. */
  gauge(name: string, help: string, reading: Reading, ...labels: readonly string[]): void
  /** A histogram of seconds that a store adds. The returned function takes milliseconds. */
  histogram(name: string, help: string): (ms: number) => void
  text(): Promise<string>
  stop(): void
}

const SYNC_SECONDS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5]
const MERGE_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300]
const FLUSH_SECONDS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]

/** A memtable that no reader asks for is flushed by its age, which is a minute. */
const VISIBLE_SECONDS = [...FLUSH_SECONDS, 20, 30, 45, 60, 90]

export function createMetrics(): Metrics {
  const registers = [new Registry()]
  const events = new EventCounts()
  const requests = new Map<number, number>()
  const refusals = new Map<string, number>()
  let bytes = 0
  countedByLabel(
    registers,
    'weir_events_total',
    'events by pool, result and code',
    ['pool', 'result', 'code'],
    () => events.series(),
  )
  const requestsHelp = 'HTTP requests by status; 0: the client closed the connection first'
  countedByLabel(registers, 'weir_requests_total', requestsHelp, ['status'], byOne(requests))
  countedByLabel(
    registers,
    'weir_refused_requests_total',
    'requests to ingest or to import that were refused as a whole, by code',
    ['code'],
    byOne(refusals),
  )
  countedByLabel(registers, 'weir_received_bytes_total', 'bytes of request bodies', [], () => [[[], bytes]])
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, buckets, registers })
  const syncs = countSyncs(registers)
  const visible = histogram(
    'weir_ack_to_visible_seconds',
    'from the oldest ack of a flush to its sync',
    VISIBLE_SECONDS,
  )
  const query = histogram('weir_query_seconds', 'queries, waiting and flush included', FLUSH_SECONDS)
  const compaction = countMerges(registers)
  const loop = watchEventLoop(registers)
  return {
    events: (pool, result, code, count) => events.add(pool, result, code, count),
    refused: code => add(refusals, code, 1),
    rejectedRows: countRejectedRows(registers),
    request: status => add(requests, status, 1),
    bytes: count => {
      bytes += count
    },
    sync: syncs,
    flush: countFlushes(registers),
    visible: ms => visible.observe(ms / 1000),
    query: ms => query.observe(ms / 1000),
    ...countFailures(registers),
    queryWaited: countWaits(registers),
    ...compaction,
    jobRows: countJobRows(registers),
    gauge: (name, help, reading, ...labels) => void readGauge(registers, name, help, reading, labels),
    histogram(name, help) {
      const added = histogram(name, help, FLUSH_SECONDS)
      return ms => added.observe(ms / 1000)
    },
    text: () => registers[0]!.metrics(),
    stop: () => loop.disable(),
  }
}

function counted(registers: Registry[], name: string, help: string, ...labelNames: string[]): Prom.Counter {
  return new Counter({ name, help, labelNames, registers })
}

function countFailures(
  registers: Registry[],
): Pick<Metrics, 'queryProcessFailed' | 'signatureRefused' | 'spans'> {
  const restarts = counted(
    registers,
    'weir_query_process_restarts_total',
    'query processes that crashed, or were ended because of a query; another one started each time',
  )
  const signatures = counted(
    registers,
    'weir_refused_signatures_total',
    'requests whose signature was refused, by pool and code',
    'pool',
    'code',
  )
  const spans = counted(
    registers,
    'weir_trace_spans_total',
    'spans of traces by outcome: exported, export_failed (the collector did not take them), queue_full',
    'outcome',
  )
  return {
    queryProcessFailed: () => restarts.inc(),
    signatureRefused: (pool, code) => signatures.inc({ pool, code }),
    spans: (outcome, count) => spans.inc({ outcome }, count),
  }
}

function countFlushes(registers: Registry[]): Metrics['flush'] {
  const name = 'weir_flush_seconds'
  const help = 'from the start of a flush to its sync'
  const flush = new Histogram({ name, help, buckets: FLUSH_SECONDS, registers })
  const flushed = counted(registers, 'weir_flushed_rows_total', 'rows taken from the memtables by flushes')
  return (ms, rows) => {
    flush.observe(ms / 1000)
    flushed.inc(rows)
  }
}

function countRejectedRows(registers: Registry[]): Metrics['rejectedRows'] {
  const help = 'rows of the pool of rejected events, by whether they were kept or left out for want of room'
  const counter = counted(registers, 'weir_rejected_rows_total', help, 'result')
  return (kept, leftOut) => {
    counter.inc({ result: 'kept' }, kept)
    counter.inc({ result: 'left_out' }, leftOut)
  }
}

/**
 * Syncs are observed many at a time. One by one, each would load prom-client's code into the
 * caches.
 */
function countSyncs(registers: Registry[]): Metrics['sync'] {
  let bytes = 0
  const buffered: number[] = []
  const observe = () => {
    for (const ms of buffered) histogram.observe(ms / 1000)
    buffered.length = 0
  }
  const histogram = new Histogram({
    name: 'weir_log_sync_seconds',
    help: 'write and sync of one group',
    buckets: SYNC_SECONDS,
    registers,
    collect: observe,
  })
  countedByLabel(registers, 'weir_log_bytes_total', 'bytes written to the log', [], () => [[[], bytes]])
  return (ms, count) => {
    bytes += count
    buffered.push(ms)
    if (buffered.length >= METRIC_SYNCS_BUFFERED) observe()
  }
}

/** Counters by one label. */
function byOne(counts: ReadonlyMap<string | number, number>) {
  return () => [...counts].map(([value, count]) => [[value], count] as const)
}

/** Applications are made and deleted, so the number of series has a limit. */
function countWaits(registers: Registry[]): Metrics['queryWaited'] {
  const seconds = new Map<string, number>()
  countedByLabel(
    registers,
    'weir_application_query_wait_seconds_total',
    `time that queries of an application waited for their turn; of the first ${METRIC_APPLICATIONS_MAX} applications`,
    ['application'],
    byOne(seconds),
  )
  return (application, ms) => {
    const isNamed = seconds.has(application) || seconds.size < METRIC_APPLICATIONS_MAX
    add(seconds, isNamed ? application : 'other', ms / 1000)
  }
}

function countJobRows(registers: Registry[]): Metrics['jobRows'] {
  const rows = new Map<string, number>()
  const help = 'rows that jobs have deleted or set columns of, by kind of job'
  countedByLabel(registers, 'weir_job_rows_total', help, ['kind'], byOne(rows))
  return (kind, count) => add(rows, kind, count)
}

/** Counters of merges. The debt is a gauge (app/server-metrics.ts). */
function countMerges(registers: Registry[]): Pick<Metrics, 'merge' | 'mergeFailed'> {
  const counter = (what: string, help: string) => counted(registers, `weir_compaction_${what}_total`, help)
  const merges = counter('merges', 'merges that were committed')
  const failures = counter('failures', 'merges that failed; they are tried again')
  const rowsRead = counter('read_rows', 'rows of all inputs of merges, those that are not visible too')
  const bytesRead = counter('read_bytes', 'bytes of all inputs of merges')
  const rowsWritten = counter('written_rows', 'rows of segments that merges wrote')
  const bytesWritten = counter('written_bytes', 'bytes of segments that merges wrote')
  const seconds = new Histogram({
    name: 'weir_compaction_seconds',
    help: 'from the start of a merge to the sync of its commit',
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
  series: () => Iterable<readonly [values: readonly (string | number)[], count: number]>,
): void {
  new Counter({
    name,
    help,
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const [values, count] of series()) this.inc(labelsOf(labelNames, values), count)
    },
  })
}

/**
 * Values by the names of their labels. A value may be the name of a pool or an application, and the
 * page may be read on a terminal.
 */
function labelsOf(
  names: readonly string[],
  values: readonly (string | number)[],
): Record<string, string | number> {
  // The text form has an escape of its own for a line break.
  const shown = (value: string | number) =>
    typeof value === 'string' ? value.split('\n').map(printable).join('\n') : value
  return Object.fromEntries(names.map((name, index) => [name, shown(values[index] ?? '')]))
}

/** Events by pool, result and code. A Map in a Map: no text is joined for each request. */
class EventCounts {
  readonly #pools = new Map<string, Map<string, Map<string, number>>>()
  #series = 0

  add(pool: string, result: string, code: string, count: number): void {
    const known = this.#pools.get(pool)?.get(result)
    if (known?.has(code) === true) add(known, code, count)
    else this.#addSeries(pool, result, code, count)
  }

  *series(): Generator<readonly [readonly string[], number]> {
    for (const [pool, results] of this.#pools)
      for (const [result, codes] of results)
        for (const [code, count] of codes) yield [[pool, result, code], count]
  }

  /** Pools are made and deleted, so the number of series has a limit. */
  #addSeries(pool: string, result: string, code: string, count: number): void {
    const named = this.#series < METRIC_SERIES_MAX ? pool : 'other'
    const results = getOrMake(this.#pools, named, () => new Map<string, Map<string, number>>())
    const codes = getOrMake(results, result, () => new Map<string, number>())
    if (!codes.has(code)) this.#series += 1
    add(codes, code, count)
  }
}

function add<T>(counts: Map<T, number>, key: T, count: number): void {
  counts.set(key, (counts.get(key) ?? 0) + count)
}

function readGauge(
  registers: Registry[],
  name: string,
  help: string,
  reading: Reading,
  labelNames: readonly string[],
): void {
  new Gauge({
    name,
    help,
    labelNames: [...labelNames],
    registers,
    async collect() {
      const value = await reading()
      // Values without a reading leave the page.
      if (labelNames.length > 0) this.reset()
      else if (value === undefined) this.remove()
      if (typeof value === 'number') this.set(value)
      else for (const row of value ?? []) this.set(labelsOf(labelNames, row), row.at(-1) as number)
    },
  })
}

/**
 * The goal of W-11 is a delay of 5 ms at p99. The histogram covers the time since the page was last
 * read.
 */
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
