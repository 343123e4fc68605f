/** A clock that is moved by hand, and a writer and an index that the test holds or fails. */

import type { BatchBuffer } from '../../src/format/batch-layout.ts'
import type { SegmentMeta } from '../../src/format/segment-meta.ts'
import type { FlushCommit, FlushCommitted } from '../../src/index/index-types.ts'
import type { FlushedSegment } from '../../src/store/flush/flush-pipeline.ts'
import { Flusher } from '../../src/store/flush/flusher.ts'
import type { FlushLimits } from '../../src/store/flush/memtable.ts'
import {
  type FlushDone,
  FlushFailed,
  type FlushTask,
  type SegmentWriter,
} from '../../src/store/flush/segment-writer.ts'
import { rowsOf } from '../../src/store/segment/assembler-js.ts'
import type { Clock } from '../../src/util/clock.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { keySchema, post } from './rows.ts'

/** Lets everything that is ready run. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 30; i++) await Promise.resolve()
}

export class FakeClock implements Clock {
  ms = 1
  #timers: { at: number; call: () => void }[] = []
  readonly nowMs = () => this.ms
  readonly after = (ms: number, call: () => void) => {
    const timer = { at: this.ms + ms, call }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter(other => other !== timer)
    }
  }

  /** Moves time, and runs what is due in order. */
  async pass(ms: number): Promise<void> {
    const end = this.ms + ms
    for (;;) {
      const next = this.#timers.filter(timer => timer.at <= end).sort((a, b) => a.at - b.at)[0]
      if (next === undefined) break
      this.#timers = this.#timers.filter(timer => timer !== next)
      this.ms = Math.max(this.ms, next.at)
      next.call()
      await settle()
    }
    this.ms = end
  }
}

function metaOf(task: FlushTask): SegmentMeta {
  return {
    segment: task.segment,
    rows: rowsOf(task.entries),
    bytes: 1,
    checksum: 1,
    schemaVersion: task.schema.version,
    sequenceFrom: task.sequenceFrom,
    sequenceTo: task.sequenceTo,
    receivedFromUs: 0,
    receivedToUs: 0,
    timestampFromUs: null,
    timestampToUs: null,
    tenant: null,
    deletes: 0,
  }
}

/** The same batch in more memory. */
function longer(batch: BatchBuffer, bytes: number): ArrayBuffer {
  const buffer = new ArrayBuffer(Math.max(bytes, batch.byteLength))
  new Uint8Array(buffer).set(new Uint8Array(batch))
  return buffer
}

/** A task or a commit that the test lets go on. */
interface Held<T> {
  readonly what: T
  readonly pass: () => void
  readonly fail: (error: Error) => void
}

/** A flusher with fakes around it. With `isHeld` the test passes each task and commit by hand. */
export class FlusherHarness implements SegmentWriter {
  readonly clock = new FakeClock()
  readonly tasks: FlushTask[] = []
  readonly commits: (readonly FlushCommit[])[] = []
  readonly committed: FlushedSegment[] = []
  readonly failures: string[] = []
  readonly unlinked: number[] = []
  readonly fatal: Error[] = []
  readonly order: string[] = []
  heldTasks: Held<FlushTask>[] = []
  heldCommits: Held<readonly FlushCommit[]>[] = []
  isHeld = false
  /** The index's answer about the cost of a flush. */
  costOf: (flush: FlushCommit) => { readonly keysMs?: number } = () => ({})
  failSync: Error | undefined
  failUnlinks = 0
  logBytes = 0
  readonly flusher: Flusher
  #sequence = 1

  constructor(limits?: FlushLimits) {
    this.flusher = new Flusher({
      writer: this,
      commit: flushes => this.#commit(flushes),
      syncLog: async () => {
        this.order.push('sync')
        if (this.failSync !== undefined) throw this.failSync
      },
      onCommitted: flushes => this.committed.push(...flushes),
      onFailed: (_, error) => this.failures.push(error.message),
      onFatal: error => this.fatal.push(error),
      logBytes: () => this.logBytes,
      clock: this.clock,
      ...(limits === undefined ? {} : { limits }),
    })
    for (const pool of [1, 2, 3, 4, 5]) this.addPool(pool)
  }

  addPool(pool: number): void {
    this.flusher.addPool({ pool, poolId: `P${pool}`, folder: `/none/${pool}`, nextSegment: 1 })
  }

  /**
   * Appends one request with one batch of `rows` rows, in a buffer of at least `bytes`. Returns its
   * sequence.
   */
  append(pool: number, rows: number, version = 1, bytes = 0): number {
    const sequence = this.#sequence++
    const row = { key: `k${sequence}`, payload: '{}', values: ['x'] }
    const schema = { ...keySchema, pool, version }
    const entry = post(schema, Array(rows).fill(row), [[sequence, 0, rows]])
    this.flusher.append(pool, schema, [bytes === 0 ? entry : { ...entry, batch: longer(entry.batch, bytes) }])
    return sequence
  }

  flush(task: FlushTask): Promise<FlushDone> {
    this.order.push('write')
    this.tasks.push(task)
    const done = { meta: metaOf(task), keys: undefined }
    return this.#hold(this.heldTasks, task, () => done)
  }

  async unlink(_: string, segments: readonly number[]): Promise<void> {
    // Everything that does not wait for it goes on.
    for (let turn = 0; turn < 5; turn++) await Promise.resolve()
    if (this.failUnlinks-- > 0) throw new Unavailable('unlink_failed', 'EIO')
    this.order.push('unlinked')
    this.unlinked.push(...segments)
  }

  async stop(): Promise<void> {}

  failTask(at: number): void {
    this.heldTasks[at]!.fail(new FlushFailed('ENOSPC'))
  }

  #commit(flushes: readonly FlushCommit[]): Promise<readonly FlushCommitted[]> {
    this.commits.push(flushes)
    const commit = this.commits.length
    const answers = () =>
      flushes.map(
        flush =>
          ({ pool: flush.pool, commit, deletionVectors: [], ...this.costOf(flush) }) satisfies FlushCommitted,
      )
    return this.#hold(this.heldCommits, flushes, answers)
  }

  /** `result` is made when it is passed on. */
  #hold<T, R>(held: Held<T>[], what: T, result: () => R): Promise<R> {
    if (!this.isHeld) return Promise.resolve(result())
    return new Promise((resolve, reject) => {
      held.push({ what, pass: () => resolve(result()), fail: reject })
    })
  }
}
