/**
 * What the api stage asks of the others. src/main.ts passes these functions in; types only.
 *
 * One request's way: target() → body into a slab → parse(job) → commit(batch) → 200.
 */
import type { BatchBuffer, BatchCost } from '../batch/layout.ts'
import type { Job, JobResult } from '../batch/protocol.ts'
import type { BasicAuth } from '../catalog/model.ts'
import type { Span } from '../commit/protocol.ts'

/** What a handler returns. Only reply.ts turns it into bytes on a socket. */
export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as it is; "" sends no body. */
  readonly body: string | Uint8Array
  /** headText() of status and headers, for a reply that is sent many times. */
  readonly head?: string
}

/** An answer that is made while it is sent: chunked, as fast as its client reads. Its status is told after the first chunk is there. */
export interface StreamReply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Asked for the next chunk when the socket took all but STREAM_AHEAD_BYTES; the last one's bytes are the source's again then.
   *  `return()` is called when the client goes away, and may come before the first `next()`: until that nothing may be held. A
   *  throw before the first chunk is an ordinary problem answer; one after it closes the connection without the end mark, so
   *  that no client takes a part for the whole. */
  readonly chunks: AsyncIterable<Uint8Array>
}

/** What the ingest path knows of a webhook id. One object per pool and plan version, replaced on a change. */
export interface IngestTarget {
  readonly poolNumber: number
  readonly poolId: string
  readonly planVersion: number
  /** The Plan as JSON in UTF-8. */
  readonly plan: SharedArrayBuffer
  /** batchCostOf() the plan. */
  readonly cost: BatchCost
  readonly basicAuth: BasicAuth | null
  readonly hasUniqueId: boolean
}

export interface Health {
  /** Recovered, not draining, disk writable. */
  readonly ready: boolean
  /** Why it is not ready, one sentence. */
  readonly why?: string
  /** The log refuses writes or the disk is full: ingest answers 503 with this. */
  readonly refuse?: { readonly code: string; readonly message: string }
}

/** A request to /graphql, /oauth2/token or one of `routes`, its body complete (at most CONTROL_BODY_BYTES_MAX). */
export interface ControlRequest {
  readonly authorization: string
  readonly contentType: string
  readonly body: Uint8Array
  /** Without the "?". */
  readonly query: string
  /** Percent-decoded `:name` parts of the route's path, in order. */
  readonly parameters: readonly string[]
}

/** One more control route, such as `POST /v1/admin/backup`. */
export interface ControlRoute {
  readonly method: 'GET' | 'POST'
  /** As uWebSockets.js writes it: `/v1/pools/:pool/arrow`. */
  readonly path: string
  readonly handle: (request: ControlRequest) => Promise<Reply | StreamReply>
}

/** Rows of one part of a job's result, for the tail. */
export interface CommitPart {
  readonly kind: 'post' | 'delete'
  readonly pool: number
  readonly version: number
  readonly batch: BatchBuffer
  /** A TailEntry's `requests` (ENTRY_WORDS each) but for word 0: the record's place in this batch, from 0.
   *  Its sequence is `firstSequence + place`. */
  readonly requests: Float64Array
}

/** The accepted requests of one job. */
export interface CommitBatch {
  /** In sequence order. Their memory stays as it is until the promise of commit() settled. */
  readonly spans: readonly Span[]
  readonly records: number
  /** Bytes of all spans, bitmaps left out. */
  readonly bytes: number
  readonly parts: readonly CommitPart[]
}

/** Counters, called once per request or job; they return at once. */
export interface ApiMeter {
  /** One answer: `route` is ingest, delete, graphql, token, health, metrics, other. */
  request(route: string, status: number): void
  /** Body bytes of one ingest request as they came. */
  bodyBytes(bytes: number): void
  /** Events of one answered ingest request: how many were accepted, and how many rejected by fault code. */
  events(poolId: string, accepted: number, rejected: ReadonlyMap<string, number>): void
  /** One refused ingest request, by its problem code. */
  refused(code: string): void
  /** One job handed to the parse workers. */
  job(requests: number, bytes: number): void
}

export interface ApiServices {
  /** By webhook id, from memory. undefined: unknown or deleted. */
  target(webhookId: string): IngestTarget | undefined
  /** Is this pool still there? Asked before a commit, and again before its answers. */
  isLive(poolNumber: number): boolean
  health(): Health
  /** Is there room in the tail? Else requests wait. */
  room(): boolean
  /** The listener is called when room may have appeared. */
  onRoom(listener: () => void): void
  /** Cuts a job. Called only while parseRoom(); rejections become 503 (Unavailable) or 500. */
  parse(job: Job): Promise<JobResult>
  /** May a job be handed over now? */
  parseRoom(): boolean
  /** The listener is called when a parse slot may have become free. */
  onParseRoom(listener: () => void): void
  /** Numbers, logs and puts the rows into the tail. Resolves when durable (W-1); rejects with Unavailable (503).
   *  After it settled nobody reads the spans any more. */
  commit(batch: CommitBatch): Promise<void>
  graphql(request: ControlRequest): Promise<Reply>
  token(request: ControlRequest): Promise<Reply>
  /** Further control routes: the Arrow stream, backup. */
  readonly routes: readonly ControlRoute[]
  /** Prometheus text. */
  metricsText(): Promise<string>
  readonly meter: ApiMeter
}

export interface ApiOptions {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
  /** Events a second and pool; 0: no limit. */
  readonly rateLimit: number
  /** WAIT_MS_MAX, unless a test says less. */
  readonly waitMsMax?: number
  /** BODY_MS_MAX, unless a test says less. */
  readonly bodyMsMax?: number
  /** STALLED_MS, unless a test says less. */
  readonly stalledMs?: number
  /** ANSWER_MS_MAX, unless a test says less. */
  readonly answerMsMax?: number
  /** STREAM_STALL_MS, unless a test says less. */
  readonly streamStallMs?: number
}

interface ApiStats {
  /** Requests begun and not answered. */
  readonly open: number
  readonly waitingRequests: number
  readonly heldBytes: number
  readonly slabsInUse: number
  readonly jobsRunning: number
  /** Answers that their clients do not read. */
  readonly unreadAnswers: number
  /** Streaming answers under way, those included that are not begun. */
  readonly streams: number
}

/** The running front end. */
export interface Api {
  readonly host: string
  readonly port: number
  stats(): ApiStats
  /** Stops listening, answers what is in flight, closes every connection. False: the deadline passed first. */
  stop(deadlineMs: number): Promise<boolean>
}
