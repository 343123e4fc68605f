/**
 * Ingest: ready bodies → jobs → commit → answers.
 *
 *   W-1  The 200 of a request with accepted events is sent after commit() resolved.
 *   W-9  Jobs run while parseRoom() and room() say so and their batches are within BATCHES_UNDER_WAY_BYTES_MAX; what
 *        is ready meanwhile is bounded by the slabs, and waits for the tail no longer than WAIT_MS_MAX.
 *
 * Small bodies that come while a job of such is cut gather for the next one, as the log's groups do during a sync, in the slab
 * that fills; what cannot share a job, or stands in a slab that is full, goes as before.
 * The work per request is constant here; bodies are neither parsed nor inflated on this thread (W-11).
 */
import { FAULT_WORDS } from '../batch/kernel.ts'
import type { JobResult } from '../batch/protocol.ts'
import type { Refusal } from '../errors.ts'
import {
  BATCHES_UNDER_WAY_BYTES_MAX,
  BODY_MS_MAX,
  JOB_GATHERED_BYTES,
  JOB_GATHERED_CUT_BYTES,
  JOB_GATHERED_REQUESTS,
  JOBS_UNDER_WAY_MAX,
  STALLED_MS,
  WAIT_MS_MAX,
} from '../limits.ts'
import { assert, must } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import type { Admission } from './admit.ts'
import { type Answer, answerOf, answerRefusal } from './answer.ts'
import { Bodies, busy } from './body.ts'
import { answerEarly } from './early.ts'
import { Fifo } from './fifo.ts'
import { type Batch, takeBatch, weigh } from './job.ts'
import { problemReply, refusalOfError, refuse, rejectedHeaders } from './problem.ts'
import type { ApiOptions, ApiServices } from './protocol.ts'
import type { RateLimit } from './rate.ts'
import type { Responder } from './reply.ts'
import { IngestRequest } from './request.ts'
import { type Slab, SlabPool } from './slab.ts'
import { commitBatchOf } from './spans.ts'
import { Turns } from './turns.ts'

const GONE_POOL = refuse(404, 'unknown_webhook', 'no webhook has this id', rejectedHeaders(0))

export class Ingest {
  readonly slabs = new SlabPool<IngestRequest>()
  readonly bodies: Bodies
  readonly #services: ApiServices
  readonly #rate: RateLimit
  /** Slabs with ready requests, each once. */
  readonly #queue = new Fifo<Slab<IngestRequest>>()
  readonly #turns = new Turns()
  #scheduled = false
  #jobs = 0
  /** Those of them that hold small bodies and are not cut. */
  #smallJobs = 0
  /** Batches of the jobs under way: what they may take, and after the cut what they do. */
  #batchBytes = 0
  readonly #waitMsMax: number
  /** Monotonic: since when ready requests wait for the tail alone. */
  #tailFullSinceMs: number | undefined

  constructor(services: ApiServices, rate: RateLimit, options: ApiOptions) {
    this.#services = services
    this.#rate = rate
    this.#waitMsMax = options.waitMsMax ?? WAIT_MS_MAX
    this.bodies = new Bodies(this.slabs, {
      room: () => services.room(),
      ready: request => this.#ready(request),
      refuse: refuseBody(services),
      waitMsMax: this.#waitMsMax,
      bodyMsMax: options.bodyMsMax ?? BODY_MS_MAX,
      stalledMs: options.stalledMs ?? STALLED_MS,
    })
    this.slabs.onFree = () => this.bodies.pump()
    services.onRoom(() => {
      this.bodies.pump()
      this.#schedule()
    })
    services.onParseRoom(() => this.#schedule())
  }

  /** Jobs between parse and answer. */
  get jobs(): number {
    return this.#jobs
  }

  /** Takes the body of an admitted request, and answers it in the end. */
  receive(admission: Admission, responder: Responder): void {
    const request = new IngestRequest(admission, responder)
    responder.onGone = () => this.bodies.gone(request)
    responder.onData((chunk, last) => this.bodies.chunk(request, chunk, last))
  }

  /** Ends waits and bodies whose time is over. */
  tick(nowMs: number): void {
    this.bodies.tick(nowMs)
    if (this.#tailFullSinceMs === undefined) return
    if (this.#services.room()) this.#schedule()
    else if (this.#tailFullSinceMs + this.#waitMsMax <= nowMs) this.#refuseReady()
  }

  /** The tail had no room for so long that those who are ready for it get 429. */
  #refuseReady(): void {
    this.#tailFullSinceMs = undefined
    const refusal = busy()
    const answer = answerRefusal({ ...refusal, headers: { ...refusal.headers, ...rejectedHeaders(0) } })
    while (this.#queue.length > 0) {
      const slab = must(this.#queue.shift(), 'a slab with ready requests')
      const refused = slab.ready
      slab.ready = []
      slab.readyBytes = 0
      slab.readyCutBytes = 0
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
    slab.readyCutBytes += request.cutBytesMax
    if (slab.ready.length === 1) this.#queue.push(slab)
    if (!this.#isGathering(slab)) this.#schedule()
  }

  /** After this turn's sockets: all bodies that came together share a job. */
  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#dispatch()
    })
  }

  #dispatch(): void {
    const gathering: Slab<IngestRequest>[] = []
    while (this.#queue.length > 0 && this.#mayRun()) {
      const slab = must(this.#queue.shift(), 'a slab with ready requests')
      if (this.#isGathering(slab)) {
        gathering.push(slab)
        continue
      }
      const batch = takeBatch(slab)
      if (slab.ready.length > 0) this.#queue.push(slab)
      this.#services.meter.job(batch.requests.length, batch.bytes)
      this.#jobs += 1
      this.#batchBytes += batch.cutBytesMax
      void this.#run(batch)
    }
    for (const slab of gathering) this.#queue.push(slab)
  }

  /** Too little for a job of its own while another one is cut, and more may come. */
  #isGathering({ filling, large, ready, readyBytes, readyCutBytes }: Slab<IngestRequest>): boolean {
    if (this.#smallJobs === 0 || large || !filling) return false
    if (ready.length >= JOB_GATHERED_REQUESTS) return false
    return readyBytes < JOB_GATHERED_BYTES && readyCutBytes < JOB_GATHERED_CUT_BYTES
  }

  #mayRun(): boolean {
    if (this.#jobs >= JOBS_UNDER_WAY_MAX || this.#batchBytes >= BATCHES_UNDER_WAY_BYTES_MAX) return false
    if (!this.#services.parseRoom()) return false
    const room = this.#services.room()
    if (room) this.#tailFullSinceMs = undefined
    else this.#tailFullSinceMs ??= monotonicMs()
    return room
  }

  /** One job, to its last answer. Never rejects. */
  async #run(batch: Batch): Promise<void> {
    const answered = new Uint8Array(batch.requests.length)
    let batchBytes = batch.cutBytesMax
    try {
      const result = await this.#cut(batch)
      this.#batchBytes -= batchBytes
      batchBytes = bytesOf(result)
      this.#batchBytes += batchBytes
      this.#schedule() // what gathered meanwhile is cut while this job is synced: the log never waits for it
      const live = this.#liveGroups(batch)
      const commit = commitBatchOf(batch, result, live)
      const committed = commit.records > 0 ? this.#services.commit(commit) : undefined
      committed?.catch(() => {}) // It is awaited below; refusals may take turns until then.
      try {
        // Mostly every request is logged, and nobody can be answered before the sync.
        if (commit.records < batch.requests.length)
          await this.#answer(batch, result, answered, row => result.recordBytes[row] === 0)
      } finally {
        await committed // whatever happened: until then the log reads the slab
      }
      await this.#answer(batch, result, answered, () => true, live)
    } catch (error) {
      const refusal = refusalOfError(error, 'ingest')
      const answer = answerRefusal({ ...refusal, headers: { ...refusal.headers, ...rejectedHeaders(0) } })
      for (const [row, request] of batch.requests.entries())
        if (answered[row] === 0) this.#send(request, answer)
    }
    this.#jobs -= 1
    this.#batchBytes -= batchBytes
    for (const request of batch.requests) this.slabs.release(must(request.slab, 'the slab of a job'))
    this.#schedule()
  }

  async #cut({ job, isSmall }: Batch): Promise<JobResult> {
    if (isSmall) this.#smallJobs += 1
    try {
      return await this.#services.parse(job)
    } finally {
      if (isSmall) this.#smallJobs -= 1
    }
  }

  /** Is the pool of each group there? A pool may go at any time before the answer (section 5). */
  #liveGroups(batch: Batch): boolean[] {
    return batch.job.groups.map(group => this.#services.isLive(group.pool))
  }

  /**
   * Answers the rows that `due` names. After the commit, `committed` says which groups were part of it; a pool
   * that went meanwhile gets 404 too: after a deletion's answer no POST gets 2xx.
   */
  async #answer(
    batch: Batch,
    result: JobResult,
    answered: Uint8Array,
    due: (row: number) => boolean,
    committed?: readonly boolean[],
  ): Promise<void> {
    let live = this.#liveGroups(batch)
    let fault = 0
    const faults = result.faults.length / FAULT_WORDS
    for (let row = 0; row < batch.requests.length; row += 1) {
      const from = fault
      while (fault < faults && result.faults[fault * FAULT_WORDS] === row) fault += 1
      if (answered[row] === 1 || !due(row)) continue
      const turn = this.#turns.take(fault - from)
      if (turn !== undefined) {
        await turn
        live = this.#liveGroups(batch)
      }
      const group = batch.groupOf[row]!
      const there = live[group] === true && (committed === undefined || committed[group] === true)
      const request = batch.requests[row]!
      const { admission } = request
      const answer = there ? answerOf(admission, result, row, { from, to: fault }) : answerRefusal(GONE_POOL)
      const logged = result.recordBytes[row]! > 0
      assert(logged || answer.accepted === 0, 'a request with accepted events has a record')
      this.#send(request, answer)
      answered[row] = 1
    }
  }

  #send(request: IngestRequest, answer: Answer): void {
    const { target } = request.admission
    this.#rate.pay(target.poolNumber, answer.accepted + answer.rejected)
    this.#services.meter.bodyBytes(request.bytes)
    this.#services.meter.events(target.poolId, answer.accepted, answer.rejectedBy)
    if (answer.code !== undefined) this.#services.meter.refused(answer.code)
    request.responder.send(answer.reply)
  }
}

/** Memory that the batches of a result take. */
function bytesOf(result: JobResult): number {
  let bytes = 0
  for (const { batch } of result.parts) bytes += batch.byteLength
  return bytes
}

/** Ends a request whose body is not complete, or found no room. */
function refuseBody(services: ApiServices) {
  return (request: IngestRequest, refusal: Refusal): void => {
    services.meter.refused(refusal.code)
    // The counts stand on every answer to a body that was read.
    const counts = request.complete ? rejectedHeaders(0) : {}
    const counted = { ...refusal, headers: { ...counts, ...refusal.headers } }
    answerEarly(request.responder, problemReply(counted), request.admission.declaredBytes)
  }
}
