/**
 * Group commit, the main thread's half: numbers requests, gathers them while the log worker writes and syncs
 * the group before, and answers them in order. O(1) work an append, nothing per record (W-11).
 *
 *   W-1   `durable` resolves only when the log worker answered for the group that holds the records.
 *   W-2   Sequences come from one counter here; a group goes out as soon as the one before is answered.
 *   W-3   The first failure makes the state `poisoned`: the group in flight, the queue and all later appends
 *         are refused. Nothing leads back.
 *   W-9   What is queued stands in slabs, whose number admission limits; here a generous bound is asserted.
 *
 * No timer forms groups: while a sync runs the next group fills, so a group's size follows the disk.
 *
 * A group that fits in no file waits for the spare worker. If that finds the disk full, the group and the queue
 * are refused with `disk_full`; none of it was written, so their numbers are given out again.
 */
import { fromWire, Unavailable } from '../errors.ts'
import { GROUP_BYTES_MAX, LOG_QUEUED_BYTES_MAX } from '../limits.ts'
import { assert, unreachable } from '../util/assert.ts'
import { warn } from '../util/say.ts'
import { roomOfFile } from './epoch.ts'
import { LogFiles } from './files.ts'
import type { FromLog, FromSpare, Port, RecoveredState, ThreadData, ToLog, ToSpare } from './messages.ts'
import type { Commit, CommitStats, HeldLog, LogState, Span } from './protocol.ts'
import { spanBytes, type Written } from './writer.ts'

/** An append, or with no spans a wish to sync, until it is answered. */
interface Waiting {
  readonly firstSequence: number
  readonly spans: readonly Span[]
  readonly records: number
  readonly bytes: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

export interface CommitThreads {
  readonly log: Port<ToLog, FromLog>
  readonly spare: Port<ToSpare, FromSpare>
}

/** Over a recovered log: `openLog` (open.ts) makes it. */
export class LogCommit implements Commit {
  onState: (state: LogState) => void = () => {}
  onSync: (ms: number, bytes: number) => void = () => {}

  readonly #threads: CommitThreads
  readonly #durability: ThreadData['durability']
  readonly #groupBytesMax: number
  readonly #files: LogFiles
  #state: LogState = 'open'
  #refusal: Unavailable | undefined
  #nextSequence: number
  #syncedSequence: number
  #queue: Waiting[] = []
  #queuedBytes = 0
  #flight: readonly Waiting[] | undefined
  /** The flight came back because it fits in no file. */
  #parked = false
  #sparesReady: number
  #fullBecause: string | undefined
  /** The last trouble told, to say it once. */
  #trouble = ''
  /** Copies under way, and up to where files could go but for them. */
  #holds = 0
  #releaseBelow = 0
  #stopping: Promise<void> | undefined
  #onStopped: () => void = () => {}
  #onSpareEnded: () => void = () => {}
  #spareEnded = false

  constructor(
    threads: CommitThreads,
    options: Pick<ThreadData, 'durability' | 'fileBytes'>,
    state: RecoveredState,
  ) {
    this.#threads = threads
    this.#durability = options.durability
    this.#groupBytesMax = Math.min(GROUP_BYTES_MAX, roomOfFile(options.fileBytes))
    this.#files = new LogFiles(state.summary.epoch, state.files)
    this.#nextSequence = state.summary.lastSequence + 1
    this.#syncedSequence = state.summary.lastSequence
    this.#sparesReady = state.spares.length
    threads.log.onMessage = message => this.#fromLog(message)
    threads.log.onDeath = error => this.#poison(error)
    threads.spare.onMessage = message => this.#fromSpare(message)
    threads.spare.onDeath = error => {
      this.#spareEnded = true
      // The log worker still writes from its group's slabs: that group is settled by its own answer.
      this.#poison(error, this.#parked ? undefined : this.#flight)
    }
    threads.spare.post({ kind: 'begin', spares: state.spares, old: state.old })
  }

  append(spans: readonly Span[], records: number): { firstSequence: number; durable: Promise<void> } {
    const firstSequence = this.#nextSequence
    if (this.#refusal !== undefined) return { firstSequence, durable: Promise.reject(this.#refusal) }
    const bytes = spans.reduce((sum, span) => sum + spanBytes(span), 0)
    assert(records > 0 && spans.length > 0, 'an append has records')
    assert(bytes <= this.#groupBytesMax, 'an append fits in a group')
    this.#nextSequence += records
    return { firstSequence, durable: this.#enqueue({ firstSequence, spans, records, bytes }) }
  }

  syncAll(): Promise<void> {
    if (this.#state === 'poisoned') return Promise.reject(this.#refusal)
    if (this.#state === 'stopped') return this.#stopping ?? Promise.resolve()
    return this.#enqueueSync()
  }

  release(belowSequence: number): void {
    this.#releaseBelow = Math.max(this.#releaseBelow, belowSequence)
    if (this.#holds > 0 || this.#state === 'poisoned' || this.#state === 'stopped') return
    const gone = this.#files.takeBelow(belowSequence, this.#syncedSequence)
    if (gone !== undefined) this.#threads.spare.post({ kind: 'release', ...gone })
  }

  hold(): HeldLog {
    this.#holds += 1
    let held = true
    return {
      span: { ...this.#files.first, lastSequence: this.#syncedSequence },
      release: () => {
        assert(held, 'a hold is released once')
        held = false
        this.#holds -= 1
        this.release(this.#releaseBelow)
      },
    }
  }

  stats(): CommitStats {
    return {
      state: this.#state,
      queuedBytes: this.#queuedBytes,
      queuedSpans: this.#queue.reduce((sum, waiting) => sum + waiting.spans.length, 0),
      files: this.#files.count,
      lastSequence: this.#nextSequence - 1,
    }
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    const clean = this.#state !== 'poisoned'
    // What was appended before is still written; what comes from now on is refused.
    const drained = clean ? this.#enqueueSync() : Promise.resolve()
    if (clean) this.#enter('stopped', new Unavailable('log_refused', 'the log is stopped'))
    try {
      await drained
      if (clean) await this.#askStop()
    } finally {
      if (!this.#spareEnded) await this.#askSpareToEnd()
      await Promise.all([this.#threads.log.end(), this.#threads.spare.end()])
    }
  }

  /** The spare worker finishes the piece it writes, so that no file call is cut off. */
  #askSpareToEnd(): Promise<void> {
    return new Promise(resolve => {
      this.#onSpareEnded = resolve
      this.#threads.spare.onDeath = () => resolve()
      this.#threads.spare.post({ kind: 'end' })
    })
  }

  #askStop(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#onStopped = resolve
      this.#flight = [{ firstSequence: 0, spans: [], records: 0, bytes: 0, resolve, reject }]
      this.#threads.log.post({ kind: 'stop' })
    })
  }

  #enqueue(what: Omit<Waiting, 'resolve' | 'reject'>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...what, resolve, reject })
      this.#queuedBytes += what.bytes
      assert(this.#queuedBytes <= LOG_QUEUED_BYTES_MAX, 'admission bounds what is queued for the log')
      this.#pump()
    })
  }

  #enqueueSync(): Promise<void> {
    return this.#enqueue({ firstSequence: this.#nextSequence, spans: [], records: 0, bytes: 0 })
  }

  /** Sends what is queued as one group, if the log worker is idle. */
  #pump(): void {
    if (this.#flight !== undefined || this.#queue.length === 0) return
    let bytes = 0
    let count = 0
    while (count < this.#queue.length && bytes + this.#queue[count]!.bytes <= this.#groupBytesMax) {
      bytes += this.#queue[count]!.bytes
      count += 1
    }
    this.#flight = this.#queue.splice(0, count)
    this.#queuedBytes -= bytes
    this.#send()
  }

  #send(): void {
    const flight = this.#flight!
    const spans = flight.flatMap(waiting => waiting.spans.map(ownBits))
    const sync = this.#durability === 'fsync' || flight.some(waiting => waiting.spans.length === 0)
    this.#parked = false
    this.#threads.log.post({ kind: 'group', group: { firstSequence: flight[0]!.firstSequence, spans, sync } })
  }

  #fromLog(message: FromLog): void {
    switch (message.kind) {
      case 'written':
        this.#written(message.ms, message.written)
        return
      case 'no_spare':
        this.#park()
        return
      case 'stopped':
        this.#onStopped()
        return
      case 'failed':
        this.#poison(fromWire(message.error))
        return
      case 'replay':
      case 'recovered':
        assert(false, 'recovery ended before the log opened')
        return
      default:
        unreachable(message)
    }
  }

  #written(ms: number, written: Written): void {
    const flight = this.#flight!
    this.#flight = undefined
    if (written.rolled !== undefined) {
      this.#files.add({ position: written.rolled.position, firstSequence: written.rolled.firstSequence })
      this.#sparesReady -= 1
      this.#threads.spare.post({ kind: 'taken', name: written.rolled.spare })
      this.#judgeRoom()
    }
    const last = flight.at(-1)!
    const synced = this.#durability === 'fsync' || flight.some(waiting => waiting.spans.length === 0)
    if (synced) this.#syncedSequence = last.firstSequence + last.records - 1
    if (written.bytes > 0) this.onSync(ms, written.bytes)
    for (const waiting of flight) waiting.resolve()
    this.#pump()
  }

  #fromSpare(message: FromSpare): void {
    switch (message.kind) {
      case 'ready':
        this.#sparesReady += 1
        this.#fullBecause = undefined
        this.#threads.log.post({ kind: 'spare', name: message.name })
        this.#judgeRoom()
        if (this.#parked) this.#send()
        return
      case 'full':
        if (this.#fullBecause === undefined) warn(`no new log file can be made: ${message.what}`)
        this.#fullBecause = message.what
        this.#judgeRoom()
        return
      case 'trouble':
        if (this.#trouble !== message.what) warn(`old log files are kept for now: ${message.what}`)
        this.#trouble = message.what
        return
      case 'ended':
        this.#onSpareEnded()
        return
      default:
        unreachable(message)
    }
  }

  #park(): void {
    this.#parked = true
    // A spare that was announced while the group was on its way has reached the log worker before the group does.
    if (this.#sparesReady > 0) this.#send()
    else this.#judgeRoom()
  }

  /** Disk full is a state, not poison: it begins when no file can be made, and ends with the next spare. */
  #judgeRoom(): void {
    const full = this.#fullBecause !== undefined && this.#sparesReady === 0
    if (full && this.#state === 'open') {
      this.#enter('disk_full', new Unavailable('disk_full', `no room for the log: ${this.#fullBecause}`))
    }
    if (!full && this.#state === 'disk_full') this.#enter('open', undefined)
    if (full && this.#parked) this.#refuseUnwritten()
  }

  /** The parked group and the queue were never written: refuse them, reuse their numbers, keep the syncs. */
  #refuseUnwritten(): void {
    const unwritten = [...this.#flight!, ...this.#queue]
    const error = new Unavailable('disk_full', `no room for the log: ${this.#fullBecause}`)
    this.#nextSequence = unwritten[0]!.firstSequence
    this.#flight = undefined
    this.#parked = false
    this.#queuedBytes = 0
    this.#queue = unwritten
      .filter(waiting => waiting.spans.length === 0)
      .map(waiting => ({ ...waiting, firstSequence: this.#nextSequence }))
    for (const waiting of unwritten) if (waiting.spans.length > 0) waiting.reject(error)
    this.#pump()
  }

  /** @param inFlight a group that the log worker will still answer for */
  #poison(error: Error, inFlight?: readonly Waiting[]): void {
    if (this.#state === 'poisoned') {
      for (const waiting of this.#flight ?? []) waiting.reject(error)
      this.#flight = undefined
      return
    }
    const refusal =
      error instanceof Unavailable
        ? error
        : new Unavailable('log_refused', `the log's thread ended: ${error.message}`)
    const refused = inFlight === undefined ? [...(this.#flight ?? []), ...this.#queue] : this.#queue
    this.#flight = inFlight
    this.#parked = false
    this.#queue = []
    this.#queuedBytes = 0
    warn(refusal.message)
    this.#enter('poisoned', refusal)
    for (const waiting of refused) waiting.reject(refusal)
  }

  #enter(state: LogState, refusal: Unavailable | undefined): void {
    this.#state = state
    this.#refusal = refusal
    this.onState(state)
  }
}

/** A bitmap that is a view of a larger buffer would be cloned with all of it. */
function ownBits(span: Span): Span {
  return span.bits === undefined ? span : { ...span, bits: span.bits.slice() }
}
