/**
 * Ingest: ready bodies → parse tasks → commit → answers.
 *
 *   W-1   The 200 of a request with accepted events is sent after its part is done. Where a batch
 *         has several parts, one that is late or fails holds up no other one, and the batch has
 *         ended when it is handed over. The store bounds what it has by room().
 *   W-9   A batch starts only while parseRoom() and room() allow it and all batches together stay
 *         within BATCHES_UNDER_WAY_BYTES_MAX. Requests that are ready meanwhile are bounded by the
 *         slabs. They wait for the memtable at most WAIT_MS_MAX.
 *   W-11  The work per request is constant. This thread inflates no bodies, and parses only batches
 *         of a few small ones: at most PARSED_HERE_BYTES_PER_TURN a turn (docs/decisions/0071).
 *
 * While a task of small bodies is parsed, further small bodies gather for the next task, as log
 * records gather during a sync. They gather in the slab that is being filled. A full slab, and
 * bodies that cannot share a task, do not wait.
 */
import { ERROR_WORDS } from '../../parse/kernel.ts'
import type { ParseResult } from '../../parse/parse-task.ts'
import { monotonicMs } from '../../util/clock.ts'
import { assert, must, type Refusal } from '../../util/errors.ts'
import {
  BATCH_BYTES_MAX,
  BATCHES_UNDER_WAY_MAX,
  KiB,
  MiB,
  PARSE_TASK_GATHERED_BYTES,
  PARSE_TASK_GATHERED_REQUESTS,
} from '../../util/limits.ts'
import { joinIds, NO_IDS } from '../../util/request-id.ts'
import { TraceStages } from '../../util/trace-stages.ts'
import type { ApiDeps, ApiTimes, CommittingPart, IngestTarget } from '../api-types.ts'
import { CORS_HEADERS, withCors } from '../cors.ts'
import { answerEarly, nothing, type Responder } from '../http/responder.ts'
import { problemReply, refusalOfError, refuse, rejectedHeaders } from '../problem.ts'
import type { Admission, RateLimit, RefusedAdmission } from './admission.ts'
import { Bodies, busy } from './bodies.ts'
import { type BatchSink, type BodySocket, IngestRequest, type Slab, SlabPool } from './body-memory.ts'
import { type Answer, answerOf, answerRefusal, Turns } from './ingest-answer.ts'
import { type Batch, commitBatchOf, isCommitted, takeBatch, weigh } from './ingest-batch.ts'
import { RejectedEvents } from './rejected-events.ts'

/** Bytes of batches up to the memtable, at which no task starts. One may go beyond it. */
export const BATCHES_UNDER_WAY_BYTES_MAX = 96 * MiB
/**
 * Requests of a batch that is parsed on this thread. A hand-over to a worker and back costs as much
 * as the parsing of ten small events; for more of them the worker has the better of it.
 */
const PARSED_HERE_REQUESTS_MAX = 8
/** Upper bound of the bytes of such a batch, whatever its columns: 0.2 ms of the slower kernel. */
const PARSED_HERE_BYTES_MAX = 256 * KiB
/** The same for one turn of the event loop: 1 ms. Further batches go to workers. */
const PARSED_HERE_BYTES_PER_TURN = 1 * MiB
/** Bytes of batches of gathered requests. Requests that cannot share a task do not wait. */
const PARSE_TASK_GATHERED_PARSED_BYTES = BATCH_BYTES_MAX / 2

const DELETED_POOL = refuse(404, 'unknown_webhook', 'no webhook has this id', rejectedHeaders(0))

const BATCH = { kind: 'post', allOrNothing: false, minimal: false, cors: false } as const

/** The context of a batch: its rows bring what columns read from requests as properties. */
const IN_PROPERTIES = new TextEncoder().encode('null')

const NO_CONTEXT = new Uint8Array(0)

/** The socket of a batch, whose body is complete. */
const NO_SOCKET: BodySocket = {
  bodyRead: true,
  ids: NO_IDS,
  span: undefined,
  pause: nothing,
  resume: nothing,
  waitOn: nothing,
  send: nothing,
  sendAndDrain: nothing,
}

interface Parsed {
  readonly batch: Batch
  readonly result: ParseResult
  /** 1 for each request that has its answer. */
  readonly answered: Uint8Array
  /** Which groups had a pool when the batch was committed. */
  readonly wasLive: readonly boolean[]
}

export class Ingest {
  readonly slabs = new SlabPool<IngestRequest>()
  readonly bodies: Bodies
  readonly rejected: RejectedEvents
  /** Batches between the start of their parse and the moment when nobody reads them any more. */
  tasks = 0
  readonly #deps: ApiDeps
  readonly #rate: RateLimit
  /** Slabs with ready requests, each once: at most SLABS_MAX. */
  readonly #queue: Slab<IngestRequest>[] = []
  readonly #turns = new Turns()
  #scheduled = false
  /** Tasks of small bodies that are being parsed. */
  #smallTasks = 0
  /** Bytes of all batches under way: upper bounds while they are parsed, then their sizes. */
  #batchBytes = 0
  readonly #waitMsMax: number
  /** Monotonic: since when ready requests wait for nothing but the memtable. */
  #memtableFullSinceMs: number | undefined

  constructor(deps: ApiDeps, rate: RateLimit, times: ApiTimes) {
    this.#deps = deps
    this.#rate = rate
    this.#waitMsMax = times.waitMsMax
    this.bodies = new Bodies(this.slabs, {
      room: () => deps.room(),
      ready: request => this.#ready(request),
      refuse: (request, refusal) => this.#refuseBody(request, refusal),
      times,
    })
    this.slabs.onFree = () => this.bodies.pump()
    this.rejected = new RejectedEvents({
      target: () => deps.rejectedTarget(),
      mayPost: () => !this.bodies.waiting.isHalfFull,
      submit: (target, body, sink) => this.submit(target, body, sink),
      nameOf: poolId => deps.meter.poolName(poolId),
      onRows: (kept, leftOut) => deps.meter.rejectedRows(kept, leftOut),
    })
    deps.onRoom(() => {
      this.bodies.pump()
      this.#schedule()
    })
    deps.onParseRoom(() => this.#schedule())
    deps.onReleased(() => this.#schedule())
  }

  receive(admission: Admission, responder: Responder): void {
    const request = new IngestRequest(admission, responder)
    responder.onGone = () => this.bodies.drop(request)
    responder.onData((chunk, last) => this.bodies.chunk(request, chunk, last))
  }

  /**
   * Counts a request that was refused by its head, and keeps it where it is to be kept. True where
   * its body is read first, and answered then; a caller answers the others.
   */
  refuse(refused: RefusedAdmission, isReadable: boolean, responder: Responder): boolean {
    const { target, isKept, declaredBytes } = refused
    this.rejected.note(target, answerRefusal(refused.refused.refusal))
    if (!isKept) return false
    if (!isReadable || declaredBytes > this.rejected.room(target)) {
      this.#keepRefused(refused)
      return false
    }
    this.receive(refused, responder)
    return true
  }

  /** Keeps a request whose body nobody read. */
  #keepRefused({ target, context, refused }: Admission): void {
    const { refusal, contentType } = must(refused, 'the refusal of a request')
    this.rejected.keepRequest(target, {
      ...{ request: 0, index: null, code: refusal.code, column: null },
      ...{ message: refusal.message, contentType, text: undefined, context: context ?? NO_CONTEXT },
    })
  }

  /** Refuses a body that is not complete, or waits. */
  #refuseBody(request: IngestRequest, refusal: Refusal): void {
    const { admission } = request
    const { target, kind, cors, declaredBytes } = admission
    if (admission.refused !== undefined) {
      // It was refused before. Without room for its body it is kept without its text.
      this.#keepRefused(admission)
      answerEarly(request.responder, problemReply(admission.refused.refusal), declaredBytes)
      return
    }
    this.#deps.meter.refused(refusal.code)
    // Every answer to a body that was read has the counts.
    const counts = request.complete ? rejectedHeaders(0) : {}
    const counted = { ...refusal, headers: { ...counts, ...refusal.headers, ...(cors ? CORS_HEADERS : {}) } }
    if (request.sink !== undefined) {
      request.sink.answered(answerRefusal(counted))
      return
    }
    this.rejected.note(target, answerRefusal(refusal))
    if (refusal.status === 413 && kind === 'post' && admission.received?.signature === undefined)
      this.#keepRefused({ ...admission, refused: { refusal, contentType: null } })
    answerEarly(request.responder, problemReply(counted), declaredBytes)
  }

  /** Takes a batch of an import, which is copied at once. Without room it gets `busy`. */
  submit(target: IngestTarget, body: Uint8Array, sink: BatchSink): void {
    const readsRequest = target.sender?.readsRequest === true
    this.post({ target, ...BATCH, ...(readsRequest ? { context: IN_PROPERTIES } : {}) }, body, sink)
  }

  /** Takes a request of the server itself, which is copied at once. Without room it gets `busy`. */
  post(admission: Omit<Admission, 'declaredBytes'>, body: Uint8Array, sink: BatchSink): void {
    const whole = { ...admission, declaredBytes: body.byteLength }
    this.bodies.chunk(new IngestRequest(whole, NO_SOCKET, sink), body, true)
  }

  tick(nowMs: number): void {
    this.bodies.tick(nowMs)
    this.rejected.tick(nowMs)
    if (this.#memtableFullSinceMs === undefined) return
    if (this.#deps.room()) this.#schedule()
    else if (this.#memtableFullSinceMs + this.#waitMsMax <= nowMs) this.#refuseReady()
  }

  #refuseReady(): void {
    this.#memtableFullSinceMs = undefined
    const answer = refusedUnread(busy())
    while (this.#queue.length > 0) {
      const slab = must(this.#queue.shift(), 'a slab with ready requests')
      const refused = slab.ready
      slab.ready = []
      slab.readyBytes = 0
      slab.readyParsedBytes = 0
      for (const request of refused) {
        this.#send(request, answer)
        this.slabs.release(slab)
      }
    }
  }

  #ready(request: IngestRequest): void {
    const slab = must(request.slab, 'the slab of a ready body')
    weigh(request)
    slab.ready.push(request)
    slab.readyBytes += request.bytesMax
    slab.readyParsedBytes += request.parsedBytesMax
    if (slab.ready.length === 1) this.#queue.push(slab)
    if (!this.#isGathering(slab)) this.#schedule()
  }

  /** Dispatches after this turn's socket events: bodies that arrived together share a task. */
  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#dispatch()
    })
  }

  #dispatch(): void {
    let hereBytes = 0
    /** Slabs that gather more, or whose pools are paused. */
    const waiting: Slab<IngestRequest>[] = []
    while (this.#queue.length > 0 && this.#mayRun()) {
      const slab = must(this.#queue.shift(), 'a slab with ready requests')
      const batch = this.#isGathering(slab)
        ? undefined
        : takeBatch(slab, target => this.rejected.grant(target))
      if (batch === undefined) {
        waiting.push(slab)
        continue
      }
      if (slab.ready.length > 0) this.#queue.push(slab)
      this.tasks += 1
      this.#batchBytes += batch.parsedBytesMax
      const here =
        hereBytes < PARSED_HERE_BYTES_PER_TURN && isSmallest(batch) ? this.#deps.parseHere : undefined
      if (here !== undefined) hereBytes += batch.parsedBytesMax
      void this.#run(batch, here)
    }
    for (const slab of waiting) this.#queue.push(slab)
  }

  /** True while a slab may gather more, because another task is parsed meanwhile. */
  #isGathering({ filling, large, ready, readyBytes, readyParsedBytes }: Slab<IngestRequest>): boolean {
    if (this.#smallTasks === 0 || large || !filling) return false
    if (ready.length >= PARSE_TASK_GATHERED_REQUESTS) return false
    return readyBytes < PARSE_TASK_GATHERED_BYTES && readyParsedBytes < PARSE_TASK_GATHERED_PARSED_BYTES
  }

  #mayRun(): boolean {
    if (this.tasks >= BATCHES_UNDER_WAY_MAX || this.#batchBytes >= BATCHES_UNDER_WAY_BYTES_MAX) return false
    if (!this.#deps.parseRoom()) return false
    const room = this.#deps.room()
    if (room) this.#memtableFullSinceMs = undefined
    else this.#memtableFullSinceMs ??= monotonicMs()
    return room
  }

  async #run(batch: Batch, here: ApiDeps['parseHere']): Promise<void> {
    const answered = new Uint8Array(batch.requests.length)
    let batchBytes = batch.parsedBytesMax
    const sequenced = beginGroups(batch)
    const stages = this.#stagesOf(batch.requests.keys(), batch)
    try {
      const result = here === undefined ? await this.#parse(batch) : here(batch.task)
      this.#batchBytes -= batchBytes
      stages?.end('parse', { 'weir.batch.requests': batch.requests.length })
      batchBytes = result.batches.reduce((sum, part) => sum + part.batch.byteLength, 0)
      this.#batchBytes += batchBytes
      this.#schedule() // the next task is parsed while this one is synced, so the log never waits
      for (const [group, rows] of result.rejected) this.rejected.keep(batch.task.groups[group]!.pool, rows)
      const wasLive = this.#liveGroups(batch)
      const parsed = { batch, result, answered, wasLive }
      const commit = commitBatchOf(batch, result, wasLive)
      const parts = commit.records > 0 ? this.#deps.commit(commit, () => stages?.end('log')) : []
      sequenced()
      let whole: Promise<void> | undefined
      for (const part of parts) {
        const answering = this.#answerPart(parsed, part, stages)
        if (part.rows === undefined) whole = answering
      }
      try {
        // Requests that are not committed are answered before the sync. Mostly there are none.
        if (commit.records < batch.requests.length)
          await this.#answer(parsed, row => !isCommitted(batch, result, wasLive, row))
      } finally {
        await whole // in any case: until then the log may read the slab
      }
    } catch (error) {
      this.#refuseRows(batch, answered, batch.requests.keys(), error)
    } finally {
      sequenced()
      this.tasks -= 1
      this.#batchBytes -= batchBytes
      for (const request of batch.requests) this.slabs.release(must(request.slab, 'the slab of a batch'))
      this.#schedule()
    }
  }

  /** Answers the requests of a part by its own outcome. */
  async #answerPart(
    parsed: Parsed,
    { rows, done, stage }: CommittingPart,
    ofBatch: TraceStages | undefined,
  ): Promise<void> {
    const { batch, result, wasLive, answered } = parsed
    const stages = rows === undefined ? ofBatch : this.#stagesOf(rows, batch)
    const due = rows && new Set(rows)
    const isDue = (row: number) =>
      due === undefined ? isCommitted(batch, result, wasLive, row) : due.has(row)
    try {
      await done
      stages?.end(stage)
      await this.#answer(parsed, isDue)
    } catch (error) {
      this.#refuseRows(batch, answered, [...batch.requests.keys()].filter(isDue), error)
    }
  }

  /** Answers those that have no answer yet. */
  #refuseRows({ requests }: Batch, answered: Uint8Array, rows: Iterable<number>, error: unknown): void {
    const refused = [...rows].filter(row => answered[row] === 0)
    if (refused.length === 0) return
    const ids = joinIds(refused.map(row => requests[row]!.ids))
    const answer = refusedUnread(refusalOfError(error, 'ingest', ids))
    for (const row of refused) {
      answered[row] = 1
      this.#send(requests[row]!, answer)
    }
  }

  #stagesOf(rows: Iterable<number>, { requests }: Batch): TraceStages | undefined {
    if (this.#deps.trace === undefined) return undefined
    return new TraceStages(Array.from(rows, row => requests[row]!.responder.span))
  }

  async #parse({ task, isSmall }: Batch): Promise<ParseResult> {
    if (isSmall) this.#smallTasks += 1
    try {
      return await this.#deps.parse(task)
    } finally {
      if (isSmall) this.#smallTasks -= 1
    }
  }

  /** Whether the pool of each group exists, which may end at any time before the answer. */
  #liveGroups(batch: Batch): boolean[] {
    return batch.task.groups.map(group => this.#deps.isLive(group.pool))
  }

  /**
   * Answers the rows that are due. After the deletion of a pool was answered, its requests get 404,
   * never 2xx.
   */
  async #answer(parsed: Parsed, isDue: (row: number) => boolean): Promise<void> {
    const { batch, result, answered, wasLive } = parsed
    let live = this.#liveGroups(batch)
    let error = 0
    const errors = result.errors.length / ERROR_WORDS
    for (let row = 0; row < batch.requests.length; row += 1) {
      const from = error
      while (error < errors && result.errors[error * ERROR_WORDS] === row) error += 1
      if (answered[row] === 1 || !isDue(row)) continue
      const turn = this.#turns.take(error - from)
      if (turn !== undefined) {
        await turn
        if (answered[row] === 1) continue // it was refused meanwhile
        live = this.#liveGroups(batch)
      }
      const group = batch.groupOf[row]!
      const exists = live[group] === true && wasLive[group] === true
      const request = batch.requests[row]!
      const { admission } = request
      const answer = exists
        ? answerOf(admission, batch.task.groups[group]!.schema, result, row, { from, to: error })
        : answerRefusal(DELETED_POOL)
      const logged = result.recordBytes[row]! > 0
      assert(logged || answer.accepted === 0, 'a request with accepted events has a record')
      this.#send(request, answer)
      answered[row] = 1
    }
  }

  #send(request: IngestRequest, given: Answer): void {
    const { target, refused, reservedUs } = request.admission
    // Whatever became of its body, a request that its head refused has one answer.
    const answer = refused === undefined ? given : answerRefusal(refused.refusal)
    // Refused events of a replay were counted when they came.
    const isAgain = reservedUs !== undefined
    if (request.sink !== undefined && (request.sink.isOwn || (isAgain && answer.refusal !== undefined))) {
      request.sink.answered(answer)
      return
    }
    if (!isAgain) this.#rate.pay(target.poolNumber, answer.accepted + answer.rejected)
    this.#deps.meter.bodyBytes(request.bytes)
    this.#deps.meter.events(target.poolId, answer.accepted, answer.rejectedBy)
    // A refusal of the head was counted when the head came.
    const isCounted = refused !== undefined
    if (request.sink === undefined && !isCounted) this.rejected.note(target, answer)
    if (answer.refusal !== undefined && !isCounted) this.#deps.meter.refused(answer.refusal.code)
    if (answer.refusal?.status === 401) this.#deps.meter.signatureRefused(target.poolId, answer.refusal.code)
    if (request.sink !== undefined) request.sink.answered(answer)
    else request.responder.send(request.admission.cors ? withCors(answer.reply) : answer.reply)
  }
}

/** A few small plain bodies, each with few columns or few events. */
function isSmallest({ task, isSmall, requests, parsedBytesMax }: Batch): boolean {
  if (!isSmall || requests.length > PARSED_HERE_REQUESTS_MAX || task.received !== undefined) return false
  return parsedBytesMax <= PARSED_HERE_BYTES_MAX
}

/** The answer to a whole body, of which no event was counted. */
function refusedUnread(refusal: Refusal): Answer {
  return answerRefusal({ ...refusal, headers: { ...refusal.headers, ...rejectedHeaders(0) } })
}

/** Tells the pools that a batch begins; the first call of the result, that it has sequences. */
function beginGroups({ pools, requests, groupOf, task }: Batch): () => void {
  for (const pool of pools) pool.begun()
  let isSequenced = false
  return () => {
    if (isSequenced) return
    isSequenced = true
    for (const pool of pools) pool.sequenced()
    for (const [row, { sink }] of requests.entries()) sink?.sequenced(task.groups[groupOf[row]!]!.version)
  }
}
