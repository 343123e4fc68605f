/**
 * Group commit, the main thread's half: it numbers requests, gathers them while the log thread
 * writes and syncs the group before, and answers them in order. An append costs O(1), whatever its
 * number of records (W-11).
 *
 *   W-1   `durable` resolves only when the log thread has answered for the group that holds the
 *         records.
 *   W-2   Sequences come from one counter here. A group goes out as soon as the one before it is
 *         answered.
 *   W-3   The first failure makes the state `poisoned`: the group in flight, the queue and all
 *         later appends are refused. Only a restart ends this state.
 *   W-9   Queued records stand in slabs, and admission limits the slabs. This file asserts a
 *         generous bound.
 *   W-13  `release` lets a log file go only when all its records are below the lowest unflushed
 *         sequence.
 *
 * No timer forms groups: the next group fills while a sync runs, so the size of a group follows the
 * disk.
 *
 * A group that fits in no file waits for the spare thread. If the spare thread finds the disk full,
 * or the log thread finds no room for the group or no file descriptor for the next file, the group
 * and the queue are refused with `disk_full`. No reader takes any of it for written, so its
 * sequences are given out again (decision 0057).
 */

import { assert, fromWire, must, Unavailable } from '../util/errors.ts'
import { GROUP_BYTES_MAX, LOG_QUEUED_BYTES_MAX } from '../util/limits.ts'
import { fail, inform, warn } from '../util/say.ts'
import type { Thread } from '../util/thread-kit.ts'
import { firstFileBytes, logFileName, type Spare } from './log-folder.ts'
import type { LogCalls, LogEvents, LogThreadData, RecoveredState } from './log-thread.ts'
import type { CommitStats, LogState, PinnedLog, Span } from './log-types.ts'
import { type GenerationFile, type NoRoom, roomOfFile, spanBytes, type Written } from './log-writer.ts'
import type { SpareCalls, SpareEvents } from './spare-thread.ts'

/** An append until it is answered. Without spans it only asks for a sync. */
interface Waiting {
  /** It falls where appends before it are refused unwritten. */
  firstSequence: number
  readonly spans: readonly Span[]
  readonly records: number
  readonly bytes: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** The two threads of the log. Tests run them in their own thread. */
export interface CommitThreads {
  readonly log: Pick<Thread<LogCalls, LogEvents>, 'call' | 'tell' | 'listen' | 'stop' | 'terminate'>
  readonly spare: Pick<Thread<SpareCalls, SpareEvents>, 'tell' | 'listen' | 'stop'>
}

export class Commit {
  /** Called on every change of state. */
  onState: (state: LogState) => void = () => {}
  /** Called after each group with the duration of writing and syncing it, and its bytes. */
  onSync: (ms: number, bytes: number) => void = () => {}

  readonly #threads: CommitThreads
  readonly #durability: LogThreadData['durability']
  readonly #generation: number
  /** The log's files, as the log thread's answers tell of them. */
  readonly #files: GenerationFile[]
  #state: LogState = 'open'
  #refusal: Unavailable | undefined
  #nextSequence: number
  #syncedSequence: number
  #queue: Waiting[] = []
  #queuedBytes = 0
  #flight: readonly Waiting[] | undefined
  /** True while the group in flight waits for a file: it fits in none. */
  #parked = false
  /** Bytes of the smallest log file, which holds each append. */
  readonly #smallestFileBytes: number
  /** Bytes of each spare that the log thread has, in the order in which it takes them. */
  readonly #spares: number[]
  /** Why no spare file can be made; undefined while one can. */
  #noSpare: string | undefined
  /** Why the last group had no room or no file; undefined while there is. */
  #noRoom: string | undefined
  /** The last failure to remove old files, so that the operator reads it once. */
  #oldFilesFailure = ''
  /** Number of pins. Files stay while there is one. */
  #pins = 0
  /** The highest sequence that `release` was called with. */
  #releaseBelow = 0
  #stopping: Promise<void> | undefined

  constructor(
    threads: CommitThreads,
    options: Pick<LogThreadData, 'durability' | 'fileBytesMax'>,
    state: RecoveredState,
  ) {
    this.#threads = threads
    this.#durability = options.durability
    this.#smallestFileBytes = firstFileBytes(options.fileBytesMax)
    this.#generation = state.summary.generation
    this.#files = [...state.files]
    this.#nextSequence = state.summary.lastSequence + 1
    this.#syncedSequence = state.summary.lastSequence
    this.#spares = state.spares.map(({ bytes }) => bytes)
    this.#listen()
    threads.spare.tell('begin', { spares: state.spares, old: state.old })
  }

  #listen(): void {
    const { log, spare } = this.#threads
    log.listen(
      {
        written: written => this.#written(written),
        noSpare: () => this.#park(),
        noRoom: refused => this.#groupRefused(refused),
        roomAgain: () => {
          this.#noRoom = undefined
          this.#updateDiskFull()
        },
        failed: error => this.#poison(fromWire(error)),
      },
      error => this.#poison(error),
    )
    spare.listen(
      {
        ready: spare => this.#spareReady(spare),
        full: reason => this.#spareRefused(reason),
        oldFilesLeft: reason => {
          if (this.#oldFilesFailure !== reason)
            warn(`old log files cannot be removed yet, the next try follows: ${reason}`)
          this.#oldFilesFailure = reason
        },
      },
      // The log thread may still write from the group's slabs, so the group waits for its own
      // answer.
      error => this.#poison(error, this.#parked ? undefined : this.#flight),
    )
  }

  /**
   * Numbers the records and returns the first sequence at once. `durable` resolves when their sync
   * returned (with durability `os`: their write), in the order of the calls. It rejects with
   * Unavailable: `log_refused` after a failed write or sync, `disk_full` while the disk has no
   * room: then no start finds the records either.
   */
  append(spans: readonly Span[], records: number): { firstSequence: number; durable: Promise<void> } {
    const firstSequence = this.#nextSequence
    if (this.#refusal !== undefined) return { firstSequence, durable: Promise.reject(this.#refusal) }
    const bytes = spans.reduce((sum, span) => sum + spanBytes(span), 0)
    assert(records > 0 && spans.length > 0, 'an append has records')
    assert(bytes <= roomOfFile(this.#smallestFileBytes), 'an append fits in each log file')
    this.#nextSequence += records
    return { firstSequence, durable: this.#enqueue({ firstSequence, spans, records, bytes }) }
  }

  /** Syncs everything that was appended before the call, in every durability mode (W-13). */
  syncAll(): Promise<void> {
    if (this.#state === 'poisoned') return Promise.reject(this.#refusal)
    if (this.#state === 'stopped') return this.#stopping ?? Promise.resolve()
    return this.#enqueueSync()
  }

  /**
   * Syncs as syncAll does. Resolves with a sequence that divides the log: every record appended
   * before the call is below it, or was refused; every record appended later has it or a higher
   * one. Rejects with Unavailable while the log refuses appends.
   */
  boundary(): Promise<number> {
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal)
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        ...this.#syncOnly(),
        resolve: () => resolve(waiting.firstSequence),
        reject,
      }
      this.#push(waiting)
    })
  }

  /**
   * Lets files go whose records all stand below `belowSequence`, but never the newest file. They
   * are recycled or removed.
   */
  release(belowSequence: number): void {
    this.#releaseBelow = Math.max(this.#releaseBelow, belowSequence)
    if (this.#pins > 0 || this.#state === 'poisoned' || this.#state === 'stopped') return
    let gone = 0
    while (gone + 1 < this.#files.length && this.#files[gone + 1]!.firstSequence <= belowSequence) gone += 1
    if (gone === 0) return
    const names = this.#files.splice(0, gone).map(({ position }) => logFileName(this.#generation, position))
    const generation = this.#generation
    const header = { generation, position: this.#first.position, lastSequence: this.#syncedSequence }
    this.#threads.spare.tell('release', { header, names })
  }

  /** The file with which the log begins. */
  get #first(): GenerationFile {
    return must(this.#files[0], 'the newest log file')
  }

  /**
   * Pins the log as it is now, up to its last synced sequence. None of its files goes before
   * `release()`.
   */
  pin(): PinnedLog {
    this.#pins += 1
    let isPinned = true
    return {
      span: { generation: this.#generation, ...this.#first, lastSequence: this.#syncedSequence },
      release: () => {
        assert(isPinned, 'a pin is released once')
        isPinned = false
        this.#pins -= 1
        this.release(this.#releaseBelow)
      },
    }
  }

  stats(): CommitStats {
    return {
      state: this.#state,
      queuedBytes: this.#queuedBytes,
      queuedSpans: this.#queue.reduce((sum, waiting) => sum + waiting.spans.length, 0),
      files: this.#files.length,
      lastSequence: this.#nextSequence - 1,
    }
  }

  /** Writes the clean-stop record, syncs, and ends the threads. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    const clean = this.#state !== 'poisoned'
    // The log still writes what was appended before, and refuses everything from now on.
    const drained = clean ? this.#enqueueSync() : Promise.resolve()
    if (clean) this.#enter('stopped', new Unavailable('log_refused', 'the log is stopped'))
    try {
      await drained
      if (clean) await this.#threads.log.stop()
    } catch (error) {
      // A thread that crashed has poisoned the log already, and a group may still get its answer.
      if (this.#state !== 'poisoned') this.#poison(error as Error)
      throw error
    } finally {
      const spareStopped = this.#threads.spare.stop().catch(() => {}) // #poison gets a crash
      await Promise.all([this.#threads.log.terminate(), spareStopped])
      this.#refuseIfPoisoned()
    }
  }

  #enqueue({ firstSequence, spans, records, bytes }: Omit<Waiting, 'resolve' | 'reject'>): Promise<void> {
    return new Promise((resolve, reject) =>
      this.#push({ firstSequence, spans, records, bytes, resolve, reject }),
    )
  }

  #enqueueSync(): Promise<void> {
    return this.#enqueue(this.#syncOnly())
  }

  #syncOnly(): Omit<Waiting, 'resolve' | 'reject'> {
    return { firstSequence: this.#nextSequence, spans: [], records: 0, bytes: 0 }
  }

  #push(waiting: Waiting): void {
    this.#queue.push(waiting)
    this.#queuedBytes += waiting.bytes
    assert(this.#queuedBytes <= LOG_QUEUED_BYTES_MAX, 'admission bounds the bytes queued for the log')
    this.#pump()
  }

  /** Sends the queue as one group if the log thread is idle. */
  #pump(): void {
    if (this.#flight !== undefined || this.#queue.length === 0) return
    // A group fits in the next file, so that it may begin one.
    const room = roomOfFile(this.#spares[0] ?? this.#smallestFileBytes)
    const bytesMax = Math.min(GROUP_BYTES_MAX, room)
    let bytes = 0
    let count = 0
    while (count < this.#queue.length && bytes + this.#queue[count]!.bytes <= bytesMax) {
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
    this.#threads.log.tell('group', { firstSequence: flight[0]!.firstSequence, spans, sync })
  }

  #written(written: Written): void {
    const flight = this.#flight!
    this.#flight = undefined
    this.#rolled(written.rolled)
    const last = flight.at(-1)!
    const synced = this.#durability === 'fsync' || flight.some(waiting => waiting.spans.length === 0)
    if (synced) this.#syncedSequence = last.firstSequence + last.records - 1
    if (written.bytes > 0) this.onSync(written.ms, written.bytes)
    for (const waiting of flight) waiting.resolve()
    this.#pump()
  }

  /** A spare became the newest file of the log. */
  #rolled(file: Written['rolled']): void {
    if (file === undefined) return
    this.#files.push({ position: file.position, firstSequence: file.firstSequence })
    this.#spares.shift()
    this.#threads.spare.tell('taken', file.spare)
    this.#updateDiskFull()
  }

  #spareReady({ name, bytes }: Spare): void {
    this.#spares.push(bytes)
    this.#noSpare = undefined
    this.#threads.log.tell('spare', name)
    this.#updateDiskFull()
    if (this.#parked) this.#send()
  }

  #spareRefused(reason: string): void {
    if (this.#noSpare === undefined) fail(`no new log file can be made, the next try follows: ${reason}`)
    this.#noSpare = reason
    this.#updateDiskFull()
  }

  #groupRefused({ noRoom, rolled }: NoRoom): void {
    if (this.#refuseIfPoisoned()) return
    if (this.#noRoom === undefined)
      fail(`the log has no room, requests get 503 disk_full; the next try follows in a second: ${noRoom}`)
    this.#noRoom = noRoom
    this.#parked = true
    this.#rolled(rolled)
    this.#updateDiskFull()
  }

  #park(): void {
    if (this.#refuseIfPoisoned()) return
    this.#parked = true
    // A spare that was announced while the group was on its way reaches the log thread before the
    // group does.
    if (this.#spares.length > 0) this.#send()
    else this.#updateDiskFull()
  }

  /** Refuses the group that poison left in flight, now that it was not written. */
  #refuseIfPoisoned(): boolean {
    if (this.#state !== 'poisoned') return false
    this.#refuseFlight(must(this.#refusal, 'why the log is poisoned'))
    return true
  }

  #refuseFlight(error: Error): void {
    for (const waiting of this.#flight ?? []) waiting.reject(error)
    this.#flight = undefined
  }

  /**
   * Enters or leaves the state `disk_full`: it lasts while no file can be made or opened. It is no
   * poison.
   */
  #updateDiskFull(): void {
    const full = this.#noRoom !== undefined || (this.#noSpare !== undefined && this.#spares.length === 0)
    if (full && this.#state === 'open') this.#enter('disk_full', this.#fullError())
    if (!full && this.#state === 'disk_full') {
      inform('the log has room again and takes requests')
      this.#enter('open', undefined)
    }
    if (full && this.#parked) this.#refuseUnwritten()
  }

  /**
   * Refuses the parked group and the queue, which count as never written. Their sequences are used
   * again; syncs stay queued.
   */
  #refuseUnwritten(): void {
    const unwritten = [...this.#flight!, ...this.#queue]
    const error = this.#fullError()
    this.#nextSequence = unwritten[0]!.firstSequence
    this.#flight = undefined
    this.#parked = false
    this.#queuedBytes = 0
    this.#queue = unwritten.filter(waiting => waiting.spans.length === 0)
    for (const waiting of this.#queue) waiting.firstSequence = this.#nextSequence
    for (const waiting of unwritten) if (waiting.spans.length > 0) waiting.reject(error)
    this.#pump()
  }

  #fullError(): Unavailable {
    return new Unavailable('disk_full', `no room for the log: ${this.#noRoom ?? this.#noSpare}`)
  }

  /**
   * Refuses everything from now on.
   * @param inFlight a group that the log thread will still answer for
   */
  #poison(error: Error, inFlight?: readonly Waiting[]): void {
    if (this.#state === 'poisoned') {
      this.#refuseFlight(error)
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
    fail(refusal.message)
    this.#enter('poisoned', refusal)
    for (const waiting of refused) waiting.reject(refusal)
  }

  #enter(state: LogState, refusal: Unavailable | undefined): void {
    this.#state = state
    this.#refusal = refusal
    this.onState(state)
  }
}

/** The span with a bitmap of its own: a message clones the whole buffer behind a view. */
function ownBits(span: Span): Span {
  return span.bits === undefined ? span : { ...span, bits: span.bits.slice() }
}
