/** A scheduler with fakes around it: a clock moved by hand, a merger whose merges the test ends, a manifest of its own. */

import type { Choice } from '../../src/compact/choose.ts'
import type { MergeDone, MergeJob, Merger, Pace, PoolSegment } from '../../src/compact/protocol.ts'
import { Scheduler } from '../../src/compact/scheduler.ts'
import type { Load, MergeFigures, SchedulerCalls } from '../../src/compact/scheduler-calls.ts'
import type { GivenUpSegment, SealCommitted, SwapCommit } from '../../src/keys/protocol.ts'
import { FakeClock, settle } from '../segment/fakes.ts'
import { merged } from './model.ts'

export const TICK_MS = 1000

export interface BenchPool {
  segments: PoolSegment[]
  held: Set<number>
  retentionDays: number
  nextSegment: number
}

interface HeldMerge {
  readonly job: MergeJob
  readonly pass: () => void
  readonly fail: (error: Error) => void
}

export class Bench {
  readonly clock = new FakeClock()
  wallMs = Date.UTC(2026, 0, 20, 12)
  readonly pools = new Map<number, BenchPool>()
  readonly jobs: MergeJob[] = []
  readonly swaps: SwapCommit[] = []
  readonly figures: MergeFigures[] = []
  readonly unlinked: number[] = []
  readonly warnings: string[] = []
  readonly fatal: Error[] = []
  readonly paces: Pace[] = []
  readonly forgotten: number[] = []
  readonly leftAlone = new Set<number>()
  failures = 0
  pins = 0
  looks = 0
  isHeld = false
  /** Segments are held by a running seal: forgetKept frees none. */
  isKeeping = false
  /** What a look takes. */
  lookMs = 0
  /** Of each pool. */
  emptied: GivenUpSegment[] = []
  /** Pinned segments have no marks, whatever the manifest said at the look. */
  pinsUnmarked = false
  held: HeldMerge | undefined
  /** The next ones fail with it, while it is set. */
  /** What keys take in swaps. */
  usPerKey: number | undefined
  failMerge: Error | undefined
  failSwap: Error | undefined
  failUnlink: Error | undefined
  load: Load = { ingestAgoMs: 60_000, tailBytes: 0, sealsAreSlow: false, isRefusing: false }
  readonly scheduler: Scheduler

  constructor(tickMs = TICK_MS) {
    this.scheduler = new Scheduler(this.#calls(tickMs))
  }

  add(pool: number, segments: PoolSegment[], retentionDays = 0): BenchPool {
    const made = { segments, held: new Set<number>(), retentionDays, nextSegment: 1000 }
    this.pools.set(pool, made)
    return made
  }

  /** Segments of a pool that are left, by sequence. */
  left(pool: number): string {
    const segments = this.pools.get(pool)?.segments ?? []
    return segments.map(one => `${one.segment}:${one.rows}`).join(' ')
  }

  async pass(ms = TICK_MS): Promise<void> {
    this.wallMs += ms
    await this.clock.pass(ms)
    await settle()
  }

  /** Lets the held merge end. */
  async end(error?: Error): Promise<void> {
    const held = this.held
    this.held = undefined
    if (error === undefined) held?.pass()
    else held?.fail(error)
    await settle()
  }

  readonly #unpin = () => {
    this.pins -= 1
  }

  #merger(): Merger {
    return {
      setPace: pace => void this.paces.push(pace),
      stop: async () => this.end(new Error('stopped')),
      merge: job => {
        this.jobs.push(job)
        if (this.failMerge !== undefined) return Promise.reject(this.failMerge)
        if (!this.isHeld) return Promise.resolve(this.#done(job))
        return new Promise((resolve, reject) => {
          this.held = { job, pass: () => resolve(this.#done(job)), fail: reject }
        })
      },
    }
  }

  #done(job: MergeJob): MergeDone {
    const marks = (input: MergeJob['inputs'][number]) =>
      input.marks.reduce((sum, { rows }) => sum + rows.length, 0)
    const inputs = job.inputs.map(input => ({ ...input.meta, marked: marks(input) }))
    const all = [...this.pools.values()].find(pool =>
      pool.segments.some(one => one.segment === inputs[0]?.segment),
    )
    const rest = (all?.segments ?? []).filter(one => !inputs.some(input => input.segment === one.segment))
    const choice: Choice = { reason: 'small', inputs }
    const after = merged([...rest, ...inputs], choice, job.segment, job.expireBeforeUs, this.emptied)
    const made = after.find(one => one.segment === job.segment)
    const meta = made === undefined ? undefined : (({ marked: _, ...rest }) => rest)(made)
    const rowsRead = inputs.reduce((sum, one) => sum + one.rows, 0)
    return { meta, keys: new ArrayBuffer(12), rowsRead, bytesRead: rowsRead }
  }

  #apply({ pool: number, add, remove }: SwapCommit): void {
    const pool = this.pools.get(number)
    if (pool === undefined) return
    const at = pool.segments.findIndex(one => one.segment === remove[0])
    const made = add === undefined ? [] : [{ ...add, marked: 0 }]
    pool.segments.splice(at, remove.length, ...made)
  }

  #calls(tickMs: number): SchedulerCalls {
    const { clock } = this
    return {
      merger: this.#merger(),
      clock: { nowMs: clock.nowMs, after: clock.after, wallMs: () => this.wallMs },
      tickMs,
      livePools: () => [...this.pools.keys()],
      pool: number => {
        const pool = this.pools.get(number)
        if (pool === undefined || this.leftAlone.has(number)) return undefined
        const plan = (version: number) => ({ pool: number, version }) as never
        return { poolId: `P${number}`, folder: `/${number}`, retentionDays: pool.retentionDays, plan }
      },
      segments: number => {
        this.looks += 1
        clock.ms += this.lookMs
        return this.pools.get(number)?.segments ?? []
      },
      emptied: () => this.emptied,
      held: number => this.pools.get(number)?.held ?? new Set(),
      forgetKept: number => {
        this.forgotten.push(number)
        if (!this.isKeeping) this.pools.get(number)?.held.clear()
      },
      takeSegmentNumber: number => (this.pools.get(number) as BenchPool).nextSegment++,
      pin: async number => {
        this.pins += 1
        const segments = [...(this.pools.get(number)?.segments ?? [])].map(({ marked, ...meta }) => ({
          meta,
          marks:
            marked === 0 || this.pinsUnmarked
              ? []
              : [{ segment: meta.segment, rows: new Uint32Array(marked) }],
        }))
        return { segments, release: this.#unpin }
      },
      swap: async (swap): Promise<SealCommitted> => {
        if (this.failSwap !== undefined) throw this.failSwap
        this.swaps.push(swap)
        const cost = this.usPerKey === undefined ? {} : { usPerKey: this.usPerKey }
        return { pool: swap.pool, commit: this.swaps.length, marks: [], ...cost }
      },
      apply: swap => this.#apply(swap),
      unlink: async (_, segments) => {
        if (this.failUnlink !== undefined) throw this.failUnlink
        this.unlinked.push(...segments)
      },
      load: () => this.load,
      onMerged: figures => void this.figures.push(figures),
      onFailed: () => {
        this.failures += 1
      },
      onFatal: error => void this.fatal.push(error),
      warn: text => void this.warnings.push(text),
    }
  }
}
