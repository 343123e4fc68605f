/**
 * A scheduler with fakes around it: a clock that the test moves, a merger whose merges the test
 * ends, and a manifest.
 */

import type {
  CompactionCommit,
  FlushCommitted,
  ObsoleteSegment,
  PoolSegment,
} from '../../../src/index/index-types.ts'
import type {
  MergeDone,
  MergeFigures,
  Merger,
  MergeSpeed,
  MergeTask,
  SchedulerDeps,
  ServerLoad,
} from '../../../src/store/compaction/compaction-types.ts'
import { Scheduler } from '../../../src/store/compaction/scheduler.ts'
import { FakeClock, settle } from '../flusher-harness.ts'
import { merged } from './random-manifests.ts'

export const TICK_MS = 1000

export interface HarnessPool {
  segments: PoolSegment[]
  replaceable: Set<number>
  retentionDays: number
  nextSegment: number
}

interface RunningMerge {
  readonly task: MergeTask
  readonly pass: () => void
  readonly fail: (error: Error) => void
}

export class SchedulerHarness {
  readonly clock = new FakeClock()
  wallMs = Date.UTC(2026, 0, 20, 12)
  readonly pools = new Map<number, HarnessPool>()
  /** The version column of all pools; -1: they have none. */
  keyVersion = -1
  readonly tasks: MergeTask[] = []
  readonly commits: CompactionCommit[] = []
  readonly figures: MergeFigures[] = []
  readonly unlinked: number[] = []
  /** Lines of level error. */
  readonly errors: string[] = []
  readonly warnings: string[] = []
  readonly fatal: Error[] = []
  readonly speeds: MergeSpeed[] = []
  readonly forgotten: number[] = []
  readonly leftAlone = new Set<number>()
  failures = 0
  pins = 0
  inspections = 0
  /** Why changes cannot be applied. */
  problem: string | undefined
  /** Merges wait for `end`. */
  waitsForEnd = false
  /** A running flush holds the segments: forgetRecentFlushes frees none. */
  isFlushing = false
  /** Time that one inspection takes. */
  inspectMs = 0
  /** Obsolete segments of every pool. */
  obsolete: ObsoleteSegment[] = []
  /** Pinned segments have no deleted rows, whatever the inspection found. */
  pinsWithoutDeleted = false
  /** The running merge, while `waitsForEnd`. */
  running: RunningMerge | undefined
  /** Cost of keys in compaction commits. */
  usPerKey: number | undefined
  /** While one of these is set, the call fails with it. */
  failMerge: Error | undefined
  failCompaction: Error | undefined
  failUnlink: Error | undefined
  load: ServerLoad = { ingestAgoMs: 60_000, flushingBytes: 0, flushesAreSlow: false, isRefusing: false }
  readonly scheduler: Scheduler

  constructor(tickMs = TICK_MS) {
    this.scheduler = new Scheduler(this.#deps(tickMs))
  }

  add(pool: number, segments: PoolSegment[], retentionDays = 0): HarnessPool {
    const made = { segments, replaceable: new Set<number>(), retentionDays, nextSegment: 1000 }
    this.pools.set(pool, made)
    return made
  }

  /** The segments of a pool by sequence, as `number:rows`. */
  left(pool: number): string {
    const segments = this.pools.get(pool)?.segments ?? []
    return segments.map(one => `${one.segment}:${one.rows}`).join(' ')
  }

  async pass(ms = TICK_MS): Promise<void> {
    this.wallMs += ms
    await this.clock.pass(ms)
    await settle()
  }

  /** Ends the running merge. */
  async end(error?: Error): Promise<void> {
    const { running } = this
    this.running = undefined
    if (error === undefined) running?.pass()
    else running?.fail(error)
    await settle()
  }

  readonly #unpin = () => {
    this.pins -= 1
  }

  #merger(): Merger {
    return {
      setSpeed: speed => void this.speeds.push(speed),
      stop: async () => this.end(new Error('stopped')),
      problemOf: async () => this.problem,
      merge: task => {
        this.tasks.push(task)
        if (this.failMerge !== undefined) return Promise.reject(this.failMerge)
        if (!this.waitsForEnd) return Promise.resolve(this.#done(task))
        return new Promise((resolve, reject) => {
          this.running = { task, pass: () => resolve(this.#done(task)), fail: reject }
        })
      },
    }
  }

  #done(task: MergeTask): MergeDone {
    const deletionVectors = (input: MergeTask['inputs'][number]) =>
      input.deletionVectors.reduce((sum, { rows }) => sum + rows.length, 0)
    const inputs = task.inputs.map(input => ({ ...input.meta, deletedRows: deletionVectors(input) }))
    const all = [...this.pools.values()].find(pool =>
      pool.segments.some(one => one.segment === inputs[0]?.segment),
    )
    const rest = (all?.segments ?? []).filter(one => !inputs.some(input => input.segment === one.segment))
    const { segment, expireBeforeUs } = task
    const hasVersions = this.keyVersion >= 0
    const after = merged(
      [...rest, ...inputs],
      { inputs },
      segment,
      expireBeforeUs,
      this.obsolete,
      hasVersions,
    )
    const made = after.find(one => one.segment === task.segment)
    const meta = made === undefined ? undefined : (({ deletedRows: _, ...rest }) => rest)(made)
    return { meta, keys: new ArrayBuffer(12) }
  }

  #apply({ pool: number, add, remove }: CompactionCommit): void {
    const pool = this.pools.get(number)
    if (pool === undefined) return
    const at = pool.segments.findIndex(one => one.segment === remove[0])
    const made = add === undefined ? [] : [{ ...add, deletedRows: 0 }]
    pool.segments.splice(at, remove.length, ...made)
  }

  #deps(tickMs: number): SchedulerDeps {
    const { clock } = this
    return {
      merger: this.#merger(),
      clock: { nowMs: clock.nowMs, after: clock.after, wallMs: () => this.wallMs },
      tickMs,
      livePools: () => [...this.pools.keys()],
      pool: number => {
        const pool = this.pools.get(number)
        if (pool === undefined || this.leftAlone.has(number)) return undefined
        const key = { columns: [], version: this.keyVersion }
        const schema = (version: number) => ({ pool: number, version, columns: [], key }) as never
        return { poolId: `P${number}`, folder: `/${number}`, retentionDays: pool.retentionDays, schema }
      },
      segments: number => {
        this.inspections += 1
        clock.ms += this.inspectMs
        return this.pools.get(number)?.segments ?? []
      },
      obsolete: () => this.obsolete,
      replaceableSegments: number => this.pools.get(number)?.replaceable ?? new Set(),
      forgetRecentFlushes: number => {
        this.forgotten.push(number)
        if (!this.isFlushing) this.pools.get(number)?.replaceable.clear()
      },
      takeSegmentNumber: number => (this.pools.get(number) as HarnessPool).nextSegment++,
      pin: async number => {
        this.pins += 1
        const all = [...(this.pools.get(number)?.segments ?? [])].map(({ deletedRows, ...meta }) => ({
          file: '',
          meta,
          deletionVectors:
            deletedRows === 0 || this.pinsWithoutDeleted
              ? []
              : [{ segment: meta.segment, rows: new Uint32Array(deletedRows) }],
        }))
        return { all, release: this.#unpin }
      },
      commit: async (commit): Promise<FlushCommitted> => {
        if (this.failCompaction !== undefined) throw this.failCompaction
        this.commits.push(commit)
        const cost = this.usPerKey === undefined ? {} : { usPerKey: this.usPerKey }
        return { pool: commit.pool, commit: this.commits.length, deletionVectors: [], ...cost }
      },
      apply: commit => this.#apply(commit),
      unlink: async (_, segments) => {
        if (this.failUnlink !== undefined) throw this.failUnlink
        this.unlinked.push(...segments)
      },
      load: () => this.load,
      onMerged: figures => void this.figures.push(figures),
      onDamaged: () => undefined,
      onFailed: () => {
        this.failures += 1
      },
      onFatal: error => void this.fatal.push(error),
      fail: text => void this.errors.push(text),
      warn: text => void this.warnings.push(text),
    }
  }
}
