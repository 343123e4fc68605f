/**
 * The types of the front end: replies, routes, the times of clients, and the functions of other
 * layers that app/server.ts passes in.
 *
 * One ingest request: target() → body into a slab → parse(task) → commit(batch) → 200.
 */

import type { Identity } from '../catalog/access/token.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { BasicAuth } from '../catalog/documents/model.ts'
import type { BatchBuffer } from '../format/batch-layout.ts'
import type { RequestKind } from '../format/schema.ts'
import type { ReplayPort } from '../jobs/replay-rejected.ts'
import type { Jobs } from '../jobs/run-jobs.ts'
import type { Span } from '../log/log-types.ts'
import type { ParseResult, ParseTask } from '../parse/parse-task.ts'
import type { RisingClock } from '../util/clock.ts'
import type { Refusal } from '../util/errors.ts'
import { ANSWER_MS_MAX, BODY_MS_MAX, STREAM_IDLE_MS, WAIT_MS_MAX } from '../util/limits.ts'
import type { RequestIds } from '../util/request-id.ts'
import type { TraceSpan } from '../util/tracing.ts'
import type { Responder } from './http/responder.ts'
import type { Tls } from './http/tls.ts'
import type { RequestHead, Transport } from './http/transport.ts'
import type { IngestPool } from './ingest/ingest-pool.ts'
import type { Sender } from './ingest/sender.ts'
import type { SlotOwner } from './slots.ts'

/** Window in which a body's bytes are counted; then a waiting request gets its space. */
const BODY_WINDOW_MS = 500
/** Time without a byte after which an upload ends, unless Weir itself pauses it. */
const UPLOAD_STALL_MS = 60_000
/** Time for which a client may take nothing; then its stream closes and unpins its files. */
const STREAM_STALL_MS = 60_000
/** Time for which a stream waits for a slot; then it is 503. It outlasts readers that idle. */
const STREAM_WAIT_MS = STREAM_IDLE_MS + 2_000

export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent unchanged; "" sends no body. */
  readonly body: string | Uint8Array
  /** keptHead() of status and headers, kept for a reply that is sent many times. */
  readonly head?: string
}

/** An answer that is produced as fast as its client reads. Its status waits for the first chunk. */
export interface StreamReply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /**
   * The source. Its next chunk is requested when the socket has taken all but STREAM_AHEAD_BYTES;
   * the memory of the chunk before belongs to the source again then. `return()` is called when the
   * client disconnects. It may come before the first `next()`, so a source holds nothing before
   * that. An error before the first chunk becomes an ordinary problem answer. A later error closes
   * the connection without the end mark, so that no client takes a part for the whole.
   */
  readonly chunks: AsyncIterable<Uint8Array>
}

/** An answer that may become a stream. It begins only after it got a slot. */
export interface StreamAnswer {
  readonly owner: SlotOwner
  /** The answer is a file that is made as a whole: it takes one of the few slots of such files. */
  readonly isFile?: boolean
  begin(): Promise<Reply | StreamReply>
}

/** The target of a webhook id. A change of the pool or its source replaces the object. */
export interface IngestTarget {
  readonly poolNumber: number
  readonly poolId: string
  /** The schema and the pause of the pool. One object per pool, which changes. */
  readonly pool: IngestPool
  readonly basicAuth: BasicAuth | null
  /** False where every event is its own record, so that a DELETE names none. */
  readonly hasKey: boolean
  /** Gives each request its received-at. One object per pool. */
  readonly received: RisingClock
  /** Its memory, where the pool's key holds received-at: parse workers reserve a value an event. */
  readonly eventClock: SharedArrayBuffer | undefined
  /** undefined where the source takes JSON by POST and DELETE alone. */
  readonly sender: Sender | undefined
  /** Properties of its rows in the pool of rejected events; undefined where it keeps none. */
  readonly rejects: string | undefined
}

export interface Health {
  /** Events are accepted, synced and visible to queries. */
  readonly ready: boolean
  readonly why?: string
  /** Set while the log refuses writes or the disk is full: the 503 of ingest. */
  readonly refuse?: { readonly code: string; readonly message: string }
}

/** A request to /graphql, /oauth2/token or one of `routes`, its body complete. */
export interface ControlRequest {
  readonly address: string
  readonly authorization: string
  readonly contentType: string
  readonly body: Uint8Array
  /** Without the "?". */
  readonly query: string
  /** Percent-decoded `:name` parts of the route's path, in order. */
  readonly parameters: readonly string[]
  /** The headers that its route names; "" where one is not there. */
  readonly headers: Readonly<Record<string, string>>
  readonly gone: AbortSignal
  readonly ids: RequestIds
  readonly span: TraceSpan | undefined
}

export interface ControlRoute {
  readonly methods: readonly ('GET' | 'POST')[]
  /** As in `/v1/pools/:pool/arrow`. */
  readonly path: string
  /** A longer body is 413. */
  readonly bodyBytesMax: number
  readonly cors?: true
  /** Headers that it reads besides those of every request. In lower case. */
  readonly headers?: readonly string[]
  readonly handle: (request: ControlRequest) => Promise<Reply | StreamAnswer | OpenAnswer>
  /** Ends answers that last, when the server stops. */
  readonly stop?: () => void
}

/** A path whose answer to GET is in memory. */
export interface PageRoute {
  readonly path: string
  readonly read: (head: RequestHead) => Reply
}

/** An answer that its route writes, as long as it likes. */
export interface OpenAnswer {
  open(responder: Responder): void
}

export interface CommitPart {
  readonly kind: RequestKind
  readonly pool: number
  readonly version: number
  readonly batch: BatchBuffer
  /** As in a MemtableEntry, but word 0 is the index of the log record in this batch. */
  readonly requests: Float64Array
  /** The same requests as rows of the parse task. */
  readonly rows: Int32Array
}

export interface CommitBatch {
  /** In sequence order. Their memory does not change while they are read: see CommittingPart. */
  readonly spans: readonly Span[]
  readonly records: number
  /** Bytes of all spans without bitmaps. */
  readonly bytes: number
  readonly parts: readonly CommitPart[]
}

/** Requests that become durable together. */
export interface CommittingPart {
  /**
   * As in CommitPart; undefined for all that are committed. Then the spans are read until `done`.
   */
  readonly rows: Int32Array | undefined
  /**
   * Resolves when the records are durable (W-1) and visible to the next question. Rejects with
   * Unavailable (503).
   */
  readonly done: Promise<void>
  /** What a trace calls the time until then. */
  readonly stage: 'memtable' | 'insert'
}

/** Counters, called once per request. They return at once. */
export interface ApiMeter {
  request(status: number): void
  bodyBytes(bytes: number): void
  /** Events of one answered ingest request: accepted ones, and rejected ones by error code. */
  events(poolId: string, accepted: number, rejected: ReadonlyMap<string, number>): void
  refused(code: string): void
  /** A request whose signature was refused, by the code of its 401. */
  signatureRefused(poolId: string, code: string): void
  /** Rows of the pool of rejected events: stored, and left out. */
  rejectedRows(kept: number, leftOut: number): void
  /** The unique name of a pool. */
  poolName(poolId: string): string
}

export interface ApiDeps {
  /** The target of a webhook id, from memory; undefined where the id is unknown or deleted. */
  target(webhookId: string): IngestTarget | undefined
  /** Makes the secret that a handshake brought the one of the webhook's source. */
  storeSecret(webhookId: string, secret: string | null): Promise<void>
  /** True while the pool exists. Asked before a commit, and again before its answers. */
  isLive(poolNumber: number): boolean
  /** The pool of rejected events. */
  rejectedTarget(): IngestTarget | undefined
  health(): Health
  room(): boolean
  onRoom(listener: () => void): void
  /** Called only while parseRoom(). A rejection becomes 503 (Unavailable) or 500. */
  parse(task: ParseTask): Promise<ParseResult>
  /** Runs a task in this thread; absent where every task goes to a worker. */
  parseHere?(task: ParseTask): ParseResult
  /** Sets the listener that is called when a paused pool has resumed: its bodies may be parsed. */
  onReleased(listener: () => void): void
  parseRoom(): boolean
  onParseRoom(listener: () => void): void
  /**
   * Numbers the records before it returns. Throws Unavailable (503) where it takes none.
   * @param onDurable a log calls it when the records are durable, before they are visible
   */
  commit(batch: CommitBatch, onDurable?: () => void): readonly CommittingPart[]
  graphql(request: ControlRequest): Promise<Reply>
  token(request: ControlRequest): Promise<Reply>
  readonly routes: readonly ControlRoute[]
  readonly pages: readonly PageRoute[]
  readonly imports: ImportDeps
  /** undefined when this Authorization header may read /metrics, otherwise the refusal. */
  metricsAccess(authorization: string): Refusal | undefined
  metricsText(): Promise<string>
  readonly meter: ApiMeter
  /** Begins the span of a request; absent where nothing is traced. */
  readonly trace?: ((head: RequestHead) => TraceSpan) | undefined
}

export interface ImportDeps {
  verify(authorization: string, address: string): Promise<Identity | Refusal>
  /** data/tmp, absolute. */
  readonly temporaryFolder: string
  readonly catalog: Pick<Catalog, 'change' | 'read'> & Partial<Pick<Catalog, 'process'>>
  /** Writes ends that the catalog refused. */
  readonly jobs: Pick<Jobs, 'end'>
}

export const API_TIMES = {
  waitMsMax: WAIT_MS_MAX,
  bodyMsMax: BODY_MS_MAX,
  bodyWindowMs: BODY_WINDOW_MS,
  answerMsMax: ANSWER_MS_MAX,
  uploadStallMs: UPLOAD_STALL_MS,
  streamStallMs: STREAM_STALL_MS,
  streamIdleMs: STREAM_IDLE_MS,
  streamWaitMs: STREAM_WAIT_MS,
}
export type ApiTimes = Readonly<typeof API_TIMES>

/** Tests set shorter times. */
export interface ApiOptions extends Partial<ApiTimes> {
  readonly host: string
  /** With 0 the operating system picks a free port. */
  readonly port: number
  /** Events per second and pool. 0 sets no limit. */
  readonly rateLimit: number
  readonly transport: Transport
  /** Absent for plain HTTP. */
  readonly tls?: Tls | undefined
  /** Where it is false, bodies in chunks get 411. */
  readonly chunked: boolean
  /** Connections at once. 0 or absent means RLIMIT_NOFILE minus DESCRIPTORS_RESERVED. */
  readonly connectionsMax?: number
  /** See ListenOptions. */
  readonly idleMsMax?: number
}

interface ApiStats {
  readonly open: number
  readonly waitingRequests: number
  readonly bufferedBytes: number
  readonly slabsInUse: number
  readonly tasksRunning: number
  readonly unreadAnswers: number
  readonly imports: number
  readonly streams: number
  readonly connections: number
  readonly connectionsMax: number
  readonly connectionsRefused: number
  readonly connectionsUnheard: number
}

export type ServerState = 'serving' | 'leaving' | 'stopping'

export interface Api {
  readonly host: string
  readonly port: number
  /** The way of rejected events into their pools again. */
  readonly replay: ReplayPort
  state(): ServerState
  stats(): ApiStats
  /**
   * Answers everything for so long, while /readyz is 503 and each answer ends its connection. Then
   * no connection is taken any more, and stop() is next.
   */
  leave(delayMs: number): Promise<void>
  /** Answers what is in flight, then closes. False where the deadline passed first. */
  stop(deadlineMs: number): Promise<boolean>
}
