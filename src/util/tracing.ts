/**
 * Traces of requests, sent over OTLP/HTTP by the libraries of OpenTelemetry, with the names of its
 * semantic conventions (docs/decisions/0080). Where the environment names no collector, nobody
 * loads this file, but for its types. The libraries read their variables themselves.
 *
 *   W-9  At most SPANS_QUEUED_MAX spans wait for the collector. Further ones are dropped, counted.
 *
 * A webhook's id is all that a sender needs, and queries name values of users. So a span has the
 * path of a known route only, and no query string, header, body or bound value.
 */
import { METHODS } from 'node:http'
import type * as Api from '@opentelemetry/api'
import type * as Core from '@opentelemetry/core'
import type * as Otlp from '@opentelemetry/exporter-trace-otlp-proto'
import type * as Resources from '@opentelemetry/resources'
import type * as Sdk from '@opentelemetry/sdk-trace-base'
import { monotonicMs, resolvesWithin, wallMs } from './clock.ts'
import { loadPackage } from './load-package.ts'
import { printable, warn } from './say.ts'
import { WEIR_VERSION } from './version.ts'

const api = loadPackage('@opentelemetry/api') as typeof Api
const core = loadPackage('@opentelemetry/core') as typeof Core
const otlp = loadPackage('@opentelemetry/exporter-trace-otlp-proto') as typeof Otlp
const resources = loadPackage('@opentelemetry/resources') as typeof Resources
const sdk = loadPackage('@opentelemetry/sdk-trace-base') as typeof Sdk

/**
 * Spans that wait for the collector: mostly 8 MB of them, 64 MB at the very most. A collector that
 * takes 20 ms for a batch of 512 gets 25,000 spans a second, those of 6,000 requests.
 */
const SPANS_QUEUED_MAX = 4_096
/** Characters of a text in a span, such as the SQL of a query. */
const TEXT_CHARACTERS_MAX = 4_096
/** Time that the last spans have at a stop: with a dead collector a server still ends in time. */
const STOP_MS_MAX = 1_000
/** Time after which a loss is said again: a slow collector takes some and loses some, for hours. */
const SAID_AGAIN_MS = 60_000

/** Counts spans, by `exported` or why they were lost. */
type OnSpans = (outcome: 'exported' | 'export_failed' | 'queue_full', count: number) => void

/** @param server attributes of every request */
export function startTracing(server: Api.Attributes, onSpans: OnSpans) {
  // Wrong settings of the libraries are said at the start. Their later messages are counted below.
  const say = (message: string) => warn(`traces: ${printable(message)}`)
  api.diag.setLogger({ error: say, warn: say, info() {}, debug() {}, verbose() {} }, api.DiagLogLevel.WARN)
  const weir = resources.resourceFromAttributes({ 'service.name': 'weir', 'service.version': WEIR_VERSION })
  const named = resources.detectResources({ detectors: [resources.envDetector] })
  const provider = new sdk.BasicTracerProvider({
    resource: resources.defaultResource().merge(weir).merge(named),
    spanProcessors: [countedProcessor(new otlp.OTLPTraceExporter(), onSpans)],
    spanLimits: { attributeValueLengthLimit: TEXT_CHARACTERS_MAX },
  })
  api.diag.disable()
  const tracer = provider.getTracer('weir', WEIR_VERSION)
  return {
    /** Begins the span of a request, in the trace of its client where there is one. */
    begin: (head: TracedHead): TraceSpan => {
      const sent = head.method.toUpperCase()
      const isKnown = KNOWN_METHODS.has(sent)
      const span = tracer.startSpan(isKnown ? sent : 'HTTP', OF_REQUEST, parentOf(head))
      if (!span.isRecording()) return new TraceSpan(span, tracer, 0)
      span.setAttributes({ ...server, 'http.request.method': isKnown ? sent : '_OTHER' })
      return new TraceSpan(span, tracer, wallMs() - monotonicMs())
    },
    stop: async (): Promise<void> => {
      if (!(await resolvesWithin(STOP_MS_MAX, provider.shutdown())))
        warn('traces: the last spans did not reach the collector before the end')
    },
  }
}

export type Tracing = ReturnType<typeof startTracing>

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)
const OF_REQUEST: Api.SpanOptions = { kind: api.SpanKind.SERVER }

interface TracedHead {
  readonly method: string
  header(name: string): string
  eachHeader(visit: (name: string, value: string) => void): void
}

const propagator = new core.W3CTraceContextPropagator()

/** The span of the client that the request belongs to. Of several ones, and a wrong one, none. */
function parentOf(head: TracedHead): Api.Context {
  if (head.header('traceparent') === '') return api.ROOT_CONTEXT
  const traceparent: string[] = []
  const tracestate: string[] = []
  head.eachHeader((name, value) => {
    if (name === 'traceparent') traceparent.push(value)
    else if (name === 'tracestate') tracestate.push(value)
  })
  if (traceparent.length !== 1) return api.ROOT_CONTEXT
  return propagator.extract(api.ROOT_CONTEXT, { traceparent, tracestate }, api.defaultTextMapGetter)
}

/** A span, which records nothing where its trace is not sampled. Times are monotonic. */
export class TraceSpan {
  readonly traceId: string
  readonly #span: Api.Span
  readonly #tracer: Api.Tracer
  /** Wall clock less monotonic clock when the request came, for all its spans. */
  readonly #originMs: number

  constructor(span: Api.Span, tracer: Api.Tracer, originMs: number) {
    this.traceId = span.spanContext().traceId
    this.#span = span
    this.#tracer = tracer
    this.#originMs = originMs
  }

  /** False after the end, too. */
  get isRecording(): boolean {
    return this.#span.isRecording()
  }

  /** Begins a span inside this one. */
  child(name: string): TraceSpan {
    return new TraceSpan(this.#start(name, monotonicMs()), this.#tracer, this.#originMs)
  }

  /** A stage inside the span, which is over. */
  stage(name: string, fromMs: number, toMs: number, attributes?: Api.Attributes): void {
    if (this.isRecording) this.#start(name, fromMs, attributes).end(this.#at(toMs))
  }

  /** @param path as sent, or a text in its place where a part of it is secret */
  route({ method }: TracedHead, route: string, path: string): void {
    if (!this.isRecording) return
    this.#span.updateName(`${method.toUpperCase()} ${route}`)
    this.#span.setAttributes({ 'http.route': route, 'url.path': path })
  }

  /** Ends the span of a request. @param status 0 where the client disconnected first */
  answered(status: number): void {
    if (status > 0) this.#span.setAttribute('http.response.status_code', status)
    this.end(status === 0 ? 'client_disconnected' : status >= 500 ? `${status}` : undefined)
  }

  end(errorType?: string): void {
    if (!this.isRecording) return
    if (errorType !== undefined)
      this.#span.setAttribute('error.type', errorType).setStatus({ code: api.SpanStatusCode.ERROR })
    this.#span.end(this.#at(monotonicMs()))
  }

  #start(name: string, fromMs: number, attributes: Api.Attributes = {}): Api.Span {
    const kind = 'db.system.name' in attributes ? api.SpanKind.CLIENT : api.SpanKind.INTERNAL
    const context = api.trace.setSpan(api.ROOT_CONTEXT, this.#span)
    return this.#tracer.startSpan(name, { kind, attributes, startTime: this.#at(fromMs) }, context)
  }

  #at(ms: number): Api.HrTime {
    return core.millisToHrTime(this.#originMs + ms)
  }
}

/**
 * The library's queue, which drops spans without a word. So what goes in, comes out and arrives is
 * counted here. A loss is said once, until the collector takes spans again.
 */
function countedProcessor(exporter: Sdk.SpanExporter, onSpans: OnSpans): Sdk.SpanProcessor {
  let queued = 0
  let saidMs: number | undefined
  const lose = (outcome: Parameters<OnSpans>[0], count: number, why: string) => {
    if (saidMs === undefined) warn(`traces: spans are lost, ${why}; weir_trace_spans_total counts them`)
    saidMs ??= monotonicMs()
    onSpans(outcome, count)
  }
  const counted: Sdk.SpanExporter = {
    export(spans, done) {
      queued -= spans.length
      exporter.export(spans, ({ code, error }) => {
        if (code === core.ExportResultCode.SUCCESS) {
          if (saidMs !== undefined && saidMs + SAID_AGAIN_MS < monotonicMs()) saidMs = undefined
          onSpans('exported', spans.length)
        } else lose('export_failed', spans.length, `the collector does not take them: ${reasonOf(error)}`)
        done({ code: core.ExportResultCode.SUCCESS })
      })
    },
    shutdown: () => exporter.shutdown(),
  }
  const batches = new sdk.BatchSpanProcessor(counted, { maxQueueSize: SPANS_QUEUED_MAX })
  return {
    onStart() {},
    onEnd(span) {
      if (queued >= SPANS_QUEUED_MAX) {
        lose('queue_full', 1, `${SPANS_QUEUED_MAX} wait for the collector`)
        return
      }
      queued += 1
      batches.onEnd(span)
    },
    forceFlush: () => batches.forceFlush(),
    shutdown: () => batches.shutdown(),
  }
}

/** The error of a connection, which may lack a message, or the status of the answer. */
function reasonOf(error: (Error & { readonly code?: string | number }) | undefined): string {
  return printable(`${error?.code ?? ''} ${error?.message ?? ''}`.trim())
}
