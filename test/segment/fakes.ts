/** A clock that is moved by hand, and a writer and an index that the test holds or fails. */

import type { BatchBuffer } from '../../src/batch/layout.ts'
import { Unavailable } from '../../src/errors.ts'
import type { SealCommit, SealCommitted, SegmentMeta } from '../../src/keys/protocol.ts'
import type { SealedSegment } from '../../src/segment/pipeline.ts'
import { type SealDone, SealFailed, type SealJob, type SegmentWriter } from '../../src/segment/protocol.ts'
import { rowsOf } from '../../src/segment/runs.ts'
import { Sealer } from '../../src/segment/sealer.ts'
import type { SealClock } from '../../src/segment/sealer-calls.ts'
import type { TakeLimits } from '../../src/segment/tail.ts'
import { keyPlan, post } from './rows.ts'

/** Lets everything that is ready run. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 30; i++) await Promise.resolve()
}

export class FakeClock implements SealClock {
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

function metaOf(job: SealJob): SegmentMeta {
  return {
    segment: job.segment,
    rows: rowsOf(job.entries),
    bytes: 1,
    checksum: 1,
    planVersion: job.plan.version,
    sequenceFrom: job.sequenceFrom,
    sequenceTo: job.sequenceTo,
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

/** A job or a commit that the test lets go on. */
interface Held<T> {
  readonly what: T
  readonly pass: () => void
  readonly fail: (error: Error) => void
}

/** A sealer with fakes around it. With `isHeld` the test passes each job and commit by hand. */
export class Bench implements SegmentWriter {
  readonly clock = new FakeClock()
  readonly jobs: SealJob[] = []
  readonly commits: (readonly SealCommit[])[] = []
  readonly committed: SealedSegment[] = []
  readonly failures: string[] = []
  readonly unlinked: number[] = []
  readonly fatal: Error[] = []
  readonly order: string[] = []
  heldJobs: Held<SealJob>[] = []
  heldCommits: Held<readonly SealCommit[]>[] = []
  isHeld = false
  /** What the index tells of a seal. */
  costOf: (seal: SealCommit) => { readonly keysMs?: number } = () => ({})
  failSync: Error | undefined
  failUnlinks = 0
  logBytes = 0
  readonly sealer: Sealer
  #sequence = 1

  constructor(limits?: TakeLimits) {
    this.sealer = new Sealer({
      writer: this,
      commit: seals => this.#commit(seals),
      syncLog: async () => {
        this.order.push('sync')
        if (this.failSync !== undefined) throw this.failSync
      },
      onCommitted: seals => this.committed.push(...seals),
      onFailed: (_, error) => this.failures.push(error.message),
      onFatal: error => this.fatal.push(error),
      logBytes: () => this.logBytes,
      clock: this.clock,
      ...(limits === undefined ? {} : { limits }),
    })
    for (const pool of [1, 2, 3, 4, 5]) this.addPool(pool)
  }

  addPool(pool: number): void {
    this.sealer.addPool({ pool, poolId: `P${pool}`, folder: `/none/${pool}`, nextSegment: 1 })
  }

  /** Appends one batch of `rows` rows, one request, in a buffer of at least `bytes`; returns its sequence. */
  append(pool: number, rows: number, version = 1, bytes = 0): number {
    const sequence = this.#sequence++
    const row = { key: `k${sequence}`, payload: '{}', values: ['x'] }
    const plan = { ...keyPlan, pool, version }
    const entry = post(plan, Array(rows).fill(row), [[sequence, 0, rows]])
    this.sealer.append(pool, plan, [bytes === 0 ? entry : { ...entry, batch: longer(entry.batch, bytes) }])
    return sequence
  }

  seal(job: SealJob): Promise<SealDone> {
    this.order.push('write')
    this.jobs.push(job)
    const done = { meta: metaOf(job), keys: undefined, entries: job.giveBack ? job.entries : [] }
    return this.#hold(this.heldJobs, job, () => done)
  }

  async unlink(_: string, segments: readonly number[]): Promise<void> {
    for (let turn = 0; turn < 5; turn++) await Promise.resolve() // whatever does not wait for it goes on
    if (this.failUnlinks-- > 0) throw new Unavailable('unlink_failed', 'EIO')
    this.order.push('unlinked')
    this.unlinked.push(...segments)
  }

  async stop(): Promise<void> {}

  failJob(at: number): void {
    const held = this.heldJobs[at]!
    held.fail(new SealFailed('ENOSPC', held.what.entries))
  }

  #commit(seals: readonly SealCommit[]): Promise<readonly SealCommitted[]> {
    this.commits.push(seals)
    const commit = this.commits.length
    const answers = () =>
      seals.map(
        seal => ({ pool: seal.pool, commit, marks: [], ...this.costOf(seal) }) satisfies SealCommitted,
      )
    return this.#hold(this.heldCommits, seals, answers)
  }

  /** `result` is made when it is passed on. */
  #hold<T, R>(held: Held<T>[], what: T, result: () => R): Promise<R> {
    if (!this.isHeld) return Promise.resolve(result())
    return new Promise((resolve, reject) => {
      held.push({ what, pass: () => resolve(result()), fail: reject })
    })
  }
}
