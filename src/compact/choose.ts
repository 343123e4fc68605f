/**
 * Chooses the next merge of a pool, or none. Pure.
 *
 *   W-6, W-7  A merge takes segments side by side in sequence order, of one plan version, none of them barred: no
 *             update or delete stands between its inputs.
 *
 *   1  expired   segments wholly, then partly below the retention's cutoff
 *   2  marked    segments that are mostly marked; wholly marked ones first, others with smaller neighbours
 *   3  small     a window of small neighbours, the cheapest per segment that it saves
 *
 * A window of small segments is worth a merge where no row's segment grows by less than twice (so a row is written
 * again about log n times), or where the result is full and never merged for its size again. Sizes for which that
 * never holds (each segment larger than the next ones together) are at most log n in number when segments come as
 * seals make them; whatever they are, COMPACT_RUN_MAX bounds them.
 *
 * It ends: every merge leaves fewer segments, or as many without what made it worth it.
 */
import {
  COMPACT_BYTES_MAX,
  COMPACT_FAN_IN,
  COMPACT_INPUTS_MAX,
  COMPACT_MARKED_SHARE,
  COMPACT_ROWS_FLOOR,
  COMPACT_ROWS_MAX,
  COMPACT_RUN_MAX,
} from '../limits.ts'
import type { Debt, PoolSegment } from './protocol.ts'

/** What is known of a pool. */
export interface Look {
  /** All, in any order. */
  readonly segments: readonly PoolSegment[]
  /** Segments that no merge may touch now: held by the sealer, or quarantined. */
  readonly isBarred: (segment: number) => boolean
  /** Retention's cutoff where a pass is due. */
  readonly expireBeforeUs: number | undefined
}

export type Reason = 'expired' | 'marked' | 'small'

/** One merge. */
export interface Choice {
  readonly reason: Reason
  /** By rising sequence. */
  readonly inputs: readonly PoolSegment[]
}

/** The next merge, or undefined: there is nothing worth one. */
export function choose(look: Look): Choice | undefined {
  const runs = runsOf(look)
  const inputs = expired(runs, look.expireBeforeUs)
  if (inputs !== undefined) return { reason: 'expired', inputs }
  const marked = mostlyMarked(runs)
  if (marked !== undefined) return { reason: 'marked', inputs: marked }
  const small = cheapestWindow(runs)
  return small === undefined ? undefined : { reason: 'small', inputs: small }
}

/** What merges would rewrite, as far as it can be told now: all of it is in the order in which `choose` would take it. */
export function debtOf(look: Look, quarantined: number): Debt {
  const toMerge = new Set<PoolSegment>()
  const small = new Set<PoolSegment>()
  for (const run of runsOf(look)) {
    for (const one of run)
      if (isDead(one) || isPartlyExpired(one.of, look.expireBeforeUs)) toMerge.add(one.of)
    for (const part of smallParts(run)) {
      let covered = 0
      for (const { from, to } of windowsOf(part)) {
        for (const one of part.slice(Math.max(from, covered), to)) small.add(one.of)
        covered = Math.max(covered, to)
      }
    }
  }
  for (const one of small) toMerge.add(one)
  return {
    smallSegments: small.size,
    markedRows: look.segments.reduce((sum, one) => sum + one.marked, 0),
    bytesToMerge: [...toMerge].reduce((sum, one) => sum + one.bytes, 0),
    quarantined,
  }
}

/** The same segments by rising sequence. */
export function bySequence<S extends { readonly sequenceFrom: number }>(segments: readonly S[]): S[] {
  return [...segments].sort((a, b) => a.sequenceFrom - b.sequenceFrom)
}

/** A segment that may be merged, measured. */
interface Measured {
  readonly of: PoolSegment
  /** Rows and deletes. */
  readonly rows: number
  /** Those that a merge would leave out. */
  readonly dead: number
  /** What it would weigh after a merge; 1 is the most that one merge may read. */
  readonly weight: number
}

function measure(of: PoolSegment, isOldest: boolean): Measured {
  const rows = of.rows + of.deletes
  // Nothing is older than the oldest segment, so its deletes have no more to do.
  const dead = of.marked + (isOldest ? of.deletes : 0)
  const live = rows - dead
  const bytes = (of.bytes * live) / Math.max(rows, 1)
  const weight = Math.max(Math.max(live, COMPACT_ROWS_FLOOR) / COMPACT_ROWS_MAX, bytes / COMPACT_BYTES_MAX)
  return { of, rows, dead, weight }
}

/** Stretches of segments, any part of which may be one merge's inputs. */
function runsOf(look: Look): Measured[][] {
  const runs: Measured[][] = []
  let run: Measured[] = []
  for (const [index, of] of bySequence(look.segments).entries()) {
    const isBarred = look.isBarred(of.segment)
    if (isBarred || (run.length > 0 && run.at(-1)?.of.planVersion !== of.planVersion)) {
      if (run.length > 0) runs.push(run)
      run = []
    }
    if (!isBarred) run.push(measure(of, index === 0))
  }
  if (run.length > 0) runs.push(run)
  return runs
}

/** Adds up what one merge reads. One segment always fits, whatever its size. */
class Load {
  rows = 0
  bytes = 0
  count = 0

  fits({ rows, of }: Measured): boolean {
    if (this.count === 0) return true
    return (
      this.count < COMPACT_INPUTS_MAX &&
      this.rows + rows <= COMPACT_ROWS_MAX &&
      this.bytes + of.bytes <= COMPACT_BYTES_MAX
    )
  }

  add({ rows, of }: Measured): void {
    this.rows += rows
    this.bytes += of.bytes
    this.count += 1
  }
}

// ── 1: expired ───────────────────────────────────────────────────────────────────────────────────────

function expired(runs: readonly Measured[][], beforeUs: number | undefined): PoolSegment[] | undefined {
  if (beforeUs === undefined) return undefined
  return (
    firstStretch(runs, one => isWhollyExpired(one.of, beforeUs)) ??
    firstStretch(runs, one => isPartlyExpired(one.of, beforeUs))
  )
}

function isWhollyExpired({ rows, timestampToUs }: PoolSegment, beforeUs: number): boolean {
  return rows > 0 && timestampToUs !== null && timestampToUs < beforeUs
}

function isPartlyExpired({ rows, timestampFromUs }: PoolSegment, beforeUs: number | undefined): boolean {
  return beforeUs !== undefined && rows > 0 && timestampFromUs !== null && timestampFromUs < beforeUs
}

/** The oldest segment that `wants`, with all that follow and want it too, as far as they fit. */
function firstStretch(
  runs: readonly Measured[][],
  wants: (one: Measured) => boolean,
): PoolSegment[] | undefined {
  for (const run of runs) {
    const from = run.findIndex(wants)
    if (from < 0) continue
    const load = new Load()
    let to = from
    for (; to < run.length; to++) {
      const one = run[to] as Measured
      if (!wants(one) || !load.fits(one)) break
      load.add(one)
    }
    return run.slice(from, to).map(one => one.of)
  }
  return undefined
}

// ── 2: marked ────────────────────────────────────────────────────────────────────────────────────────

/** Has it no visible row, or many that are not? */
function isDead(one: Measured): boolean {
  return hasNoRow(one) || one.dead > one.rows * COMPACT_MARKED_SHARE
}

/** None that is visible; its deletes may have to stay. */
function hasNoRow({ of, dead }: Measured): boolean {
  return dead > 0 && of.marked === of.rows
}

function mostlyMarked(runs: readonly Measured[][]): PoolSegment[] | undefined {
  const gone = firstStretch(runs, hasNoRow)
  if (gone !== undefined) return gone
  for (const run of runs) {
    const at = run.findIndex(isDead)
    if (at >= 0) return withSmaller(run, at)
  }
  return undefined
}

/** The segment at `at` with its neighbours, as long as each is no heavier than what is there already. */
function withSmaller(run: readonly Measured[], at: number): PoolSegment[] {
  const load = new Load()
  load.add(run[at] as Measured)
  let [from, to, weight] = [at, at + 1, (run[at] as Measured).weight]
  for (;;) {
    const before = run[from - 1]
    const after = run[to]
    if (before !== undefined && before.weight <= weight && load.fits(before)) {
      from -= 1
      load.add(before)
      weight += before.weight
    } else if (after !== undefined && after.weight <= weight && load.fits(after)) {
      to += 1
      load.add(after)
      weight += after.weight
    } else return run.slice(from, to).map(one => one.of)
  }
}

// ── 3: small ─────────────────────────────────────────────────────────────────────────────────────────

/** From this weight on a segment is not merged for its size: two of them may not fit in one merge. */
const FULL = 0.5

interface Window {
  /** Places in its part: [from, to). */
  readonly from: number
  readonly to: number
  /** Weight that is written for each segment that it saves. */
  readonly cost: number
}

function cheapestWindow(runs: readonly Measured[][]): PoolSegment[] | undefined {
  let best: Window | undefined
  let inputs: readonly Measured[] = []
  for (const run of runs)
    for (const part of smallParts(run))
      for (const window of windowsOf(part))
        if (best === undefined || window.cost < best.cost) {
          best = window
          inputs = part.slice(window.from, window.to)
        }
  return best === undefined ? undefined : inputs.map(one => one.of)
}

/** Stretches of a run without a full segment. */
function smallParts(run: readonly Measured[]): Measured[][] {
  const parts: Measured[][] = [[]]
  for (const one of run) {
    if (one.weight >= FULL) parts.push([])
    else parts.at(-1)?.push(one)
  }
  return parts.filter(part => part.length > 1)
}

/** All windows that are worth a merge; where there are none and the part is crowded, all that fit. */
function windowsOf(part: readonly Measured[]): Window[] {
  const worthy: Window[] = []
  const fitting: Window[] = []
  for (let from = 0; from < part.length - 1; from++) {
    const load = new Load()
    let [weight, heaviest] = [0, 0]
    for (let to = from + 1; to <= part.length; to++) {
      const one = part[to - 1] as Measured
      if (!load.fits(one)) break
      load.add(one)
      weight += one.weight
      heaviest = Math.max(heaviest, one.weight)
      if (load.count < 2) continue
      const window = { from, to, cost: weight / (load.count - 1) }
      const grows = load.count >= COMPACT_FAN_IN && heaviest <= weight / 2
      if (grows || weight >= FULL) worthy.push(window)
      else if (part.length > COMPACT_RUN_MAX) fitting.push(window)
    }
  }
  return worthy.length > 0 ? worthy : fitting
}
