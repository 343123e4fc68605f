/**
 * Picks the next compaction of a pool, or none, and counts its debt. Pure.
 *
 *   W-6, W-7  A merge takes segments that are adjacent in sequence order, none of them excluded: no
 *             update or delete stands between its inputs. They may be of several schema versions.
 *
 * The reasons for a merge, in this order:
 *
 *   expired   segments that are wholly, then partly below the retention cutoff
 *   deleted   segments whose rows are mostly deleted: those without a visible row first, others
 *             with smaller neighbours
 *   small     the window of small neighbours that costs least for each segment that it saves
 *
 * A window of small segments is worth a merge where every row moves to a segment at least twice as
 * heavy (so a row is written again about log n times), or where the result is full and never merged
 * for its size again. A part may have no such window, where each segment is heavier than the next
 * ones together. When segments come from flushes, such a part has at most log n segments. For any
 * other sizes COMPACT_RUN_MAX is the bound.
 *
 * Merging ends: every merge leaves fewer segments, or as many without the reason for the merge.
 * Deletes therefore count as removable only where a merge drops them for sure: where `olderThan`,
 * which the merge uses too, names nothing.
 *
 *   W-11  A pool may have thousands of small segments, and the main thread inspects it. A window
 *         holds at most COMPACT_INPUTS_MAX segments, so the walk is linear, and it creates no
 *         object per window.
 */

import type { ObsoleteSegment, PoolSegment } from '../../index/index-types.ts'
import {
  COMPACT_FAN_IN,
  COMPACT_INPUTS_MAX,
  COMPACT_ROWS_FLOOR,
  COMPACT_ROWS_MAX,
  COMPACT_RUN_MAX,
  MiB,
} from '../../util/limits.ts'
import type { Debt, TimeSpan } from './compaction-types.ts'

/** Bytes of a merge's inputs. */
export const COMPACT_BYTES_MAX = 512 * MiB
/** Share of deleted rows above which a segment is rewritten. */
const COMPACT_DELETED_SHARE = 0.25

const DAY_MS = 86_400_000

/** The state of a pool that a pick depends on. */
export interface PickInput {
  /** All segments of the manifest, in any order. */
  readonly segments: readonly PoolSegment[]
  /**
   * Segments that no manifest names any more and that a rebuild would still read. Absent where
   * there are none.
   */
  readonly obsolete?: readonly ObsoleteSegment[]
  /** True for a segment that no merge may read now: it is replaceable or quarantined. */
  readonly isExcluded: (segment: number) => boolean
  /** Rows that one merge may read, where they are fewer than COMPACT_ROWS_MAX (CommitCosts). */
  readonly rowsMax?: number
  /** The retention cutoff where a retention pass is due. */
  readonly expireBeforeUs: number | undefined
}

/** One merge. */
export interface PickedCompaction {
  readonly reason: 'expired' | 'deleted' | 'small'
  /** By rising sequence. */
  readonly inputs: readonly PoolSegment[]
}

interface Inspection {
  /** Undefined where nothing is worth a merge. */
  readonly picked: PickedCompaction | undefined
  readonly debt: Debt
}

/**
 * The next merge and the debt of a pool, in one walk over its segments. `quarantined`: number of
 * quarantined segments.
 */
export function inspectPool(input: PickInput, quarantined: number): Inspection {
  const stretches = stretchesOf(input)
  const small = stretches.map(stretch => findSmall(stretch, input.rowsMax ?? COMPACT_ROWS_MAX))
  return {
    picked: pickFrom(input, stretches, small),
    debt: debtOf(input, stretches, small, quarantined),
  }
}

/** The next merge, or undefined where nothing is worth one. */
export function pickCompaction(input: PickInput): PickedCompaction | undefined {
  return inspectPool(input, 0).picked
}

/** The segments by rising sequence. */
export function bySequence<S extends { readonly sequenceFrom: number }>(segments: readonly S[]): S[] {
  return [...segments].sort((a, b) => a.sequenceFrom - b.sequenceFrom)
}

/**
 * The times of all rows that a rebuild would read before those from `sequence` on (W-6,
 * MergeTask.older).
 */
export function olderThan(
  sequence: number,
  segments: readonly PoolSegment[],
  obsolete: readonly ObsoleteSegment[],
): TimeSpan[] {
  return [...segments, ...obsolete]
    .filter(one => one.rows > 0 && one.sequenceFrom < sequence)
    .map(one => ({ fromUs: one.timestampFromUs, toUs: one.timestampToUs }))
}

/**
 * The retention cutoff: rows with an older primary timestamp are removed, µs; undefined where
 * `days` is 0, which keeps rows for ever. A pool that keeps N days keeps today (UTC) and the N days
 * before it.
 */
export function cutoffUs(days: number, wallMs: number): number | undefined {
  if (days === 0) return undefined
  return (Math.floor(wallMs / DAY_MS) - days) * DAY_MS * 1000
}

/** A segment that a merge may read. */
export interface Candidate {
  readonly segment: Pick<PoolSegment, 'bytes'>
  /** Rows and deletes. */
  readonly rows: number
  /** Size after a merge; 1 is the most that one merge may read. */
  readonly weight: number
}

interface MeasuredSegment extends Candidate {
  readonly segment: PoolSegment
  /** Rows and deletes that a merge would leave out. */
  readonly dead: number
}

function measure(segment: PoolSegment, isOldest: boolean, rowsMax: number): MeasuredSegment {
  const rows = segment.rows + segment.deletes
  // Deletes are needed for older rows only.
  const dead = segment.deletedRows + (isOldest ? segment.deletes : 0)
  const live = rows - dead
  const bytes = (segment.bytes * live) / Math.max(rows, 1)
  const weight = Math.max(Math.max(live, COMPACT_ROWS_FLOOR) / rowsMax, bytes / COMPACT_BYTES_MAX)
  return { segment, rows, dead, weight }
}

/** Stretches of adjacent segments; any part of a stretch may be the inputs of one merge. */
function stretchesOf({ segments, obsolete = [], isExcluded, rowsMax = COMPACT_ROWS_MAX }: PickInput) {
  const stretches: MeasuredSegment[][] = []
  let stretch: MeasuredSegment[] = []
  let isOldest = true // no rows are older
  for (const segment of bySequence(segments)) {
    const isApart = isExcluded(segment.segment)
    if (isApart) {
      if (stretch.length > 0) stretches.push(stretch)
      stretch = []
    }
    isOldest &&= olderThan(segment.sequenceFrom, [], obsolete).length === 0
    if (!isApart) stretch.push(measure(segment, isOldest, rowsMax))
    isOldest &&= segment.rows === 0
  }
  if (stretch.length > 0) stretches.push(stretch)
  return stretches
}

function pickFrom(
  { expireBeforeUs, rowsMax = COMPACT_ROWS_MAX }: PickInput,
  stretches: readonly MeasuredSegment[][],
  small: readonly SmallSegments[],
): PickedCompaction | undefined {
  const expired = pickExpired(stretches, expireBeforeUs, rowsMax)
  if (expired !== undefined) return { reason: 'expired', inputs: expired }
  const deleted = pickDeleted(stretches, rowsMax)
  if (deleted !== undefined) return { reason: 'deleted', inputs: deleted }
  let cheapest: SmallWindow | undefined
  for (const window of small.flatMap(({ windows }) => windows))
    if (cheapest === undefined || window.cost < cheapest.cost) cheapest = window
  return cheapest && { reason: 'small', inputs: cheapest.inputs }
}

/**
 * The work of merges in the present state: `pickCompaction` would pick all of it in turn.
 */
function debtOf(
  { segments, expireBeforeUs }: PickInput,
  stretches: readonly MeasuredSegment[][],
  small: readonly SmallSegments[],
  quarantined: number,
): Debt {
  let [smallSegments, bytesToMerge] = [0, 0]
  for (const [index, stretch] of stretches.entries()) {
    const { isSmall } = small[index] as SmallSegments
    for (const [at, one] of stretch.entries()) {
      if (isSmall[at] === 1) smallSegments += 1
      if (isSmall[at] === 1 || isMostlyDeleted(one) || isPartlyExpired(one.segment, expireBeforeUs))
        bytesToMerge += one.segment.bytes
    }
  }
  const rowsDeleted = segments.reduce((sum, one) => sum + one.deletedRows, 0)
  return { smallSegments, rowsDeleted, bytesToMerge, quarantined }
}

/**
 * Adds up what one merge reads, `rowsMax` rows at most. One segment always fits, whatever its size.
 */
export class MergeBudget {
  readonly #rowsMax: number
  rows = 0
  bytes = 0
  count = 0

  constructor(rowsMax: number) {
    this.#rowsMax = rowsMax
  }

  fits({ rows, segment }: Candidate): boolean {
    if (this.count === 0) return true
    return (
      this.count < COMPACT_INPUTS_MAX &&
      this.rows + rows <= this.#rowsMax &&
      this.bytes + segment.bytes <= COMPACT_BYTES_MAX
    )
  }

  add({ rows, segment }: Candidate): void {
    this.rows += rows
    this.bytes += segment.bytes
    this.count += 1
  }
}

// ── expired ──────────────────────────────────────────────────────────────────────────────────────

function pickExpired(
  stretches: readonly MeasuredSegment[][],
  beforeUs: number | undefined,
  rowsMax: number,
): PoolSegment[] | undefined {
  if (beforeUs === undefined) return undefined
  return (
    firstThat(stretches, rowsMax, one => isWhollyExpired(one.segment, beforeUs)) ??
    firstThat(stretches, rowsMax, one => isPartlyExpired(one.segment, beforeUs))
  )
}

type SegmentTimes = Pick<PoolSegment, 'rows' | 'timestampFromUs' | 'timestampToUs'>

/** True when all rows are below the cutoff, by the manifest's statistics. */
export function isWhollyExpired(
  { rows, timestampToUs }: SegmentTimes,
  beforeUs: number | undefined,
): boolean {
  return beforeUs !== undefined && rows > 0 && timestampToUs !== null && timestampToUs < beforeUs
}

/** True when some rows are below the cutoff, by the manifest's statistics. */
export function isPartlyExpired(
  { rows, timestampFromUs }: SegmentTimes,
  beforeUs: number | undefined,
): boolean {
  return beforeUs !== undefined && rows > 0 && timestampFromUs !== null && timestampFromUs < beforeUs
}

/**
 * The oldest segment that `matches`, and the matching ones right after it, as far as they fit in
 * one merge.
 */
function firstThat(
  stretches: readonly MeasuredSegment[][],
  rowsMax: number,
  matches: (one: MeasuredSegment) => boolean,
): PoolSegment[] | undefined {
  for (const stretch of stretches) {
    const from = stretch.findIndex(matches)
    if (from < 0) continue
    const budget = new MergeBudget(rowsMax)
    let to = from
    for (; to < stretch.length; to++) {
      const one = stretch[to] as MeasuredSegment
      if (!matches(one) || !budget.fits(one)) break
      budget.add(one)
    }
    return stretch.slice(from, to).map(one => one.segment)
  }
  return undefined
}

// ── deleted ──────────────────────────────────────────────────────────────────────────────────────

function isMostlyDeleted(one: MeasuredSegment): boolean {
  return hasNoVisibleRow(one) || one.dead > one.rows * COMPACT_DELETED_SHARE
}

/** The segment has no visible row; its deletes may have to stay. */
function hasNoVisibleRow({ segment, dead }: MeasuredSegment): boolean {
  return dead > 0 && segment.deletedRows === segment.rows
}

function pickDeleted(stretches: readonly MeasuredSegment[][], rowsMax: number): PoolSegment[] | undefined {
  // No key of these segments moves, so the cost of keys is no limit.
  const invisible = firstThat(stretches, COMPACT_ROWS_MAX, hasNoVisibleRow)
  if (invisible !== undefined) return invisible
  for (const stretch of stretches) {
    const at = stretch.findIndex(isMostlyDeleted)
    if (at >= 0) return withSmallerNeighbours(stretch, at, rowsMax)
  }
  return undefined
}

/**
 * The segment at `at` and its neighbours, as long as each is no heavier than those before it
 * together.
 */
function withSmallerNeighbours(
  stretch: readonly MeasuredSegment[],
  at: number,
  rowsMax: number,
): PoolSegment[] {
  const budget = new MergeBudget(rowsMax)
  budget.add(stretch[at] as MeasuredSegment)
  let [from, to, weight] = [at, at + 1, (stretch[at] as MeasuredSegment).weight]
  for (;;) {
    const before = stretch[from - 1]
    const after = stretch[to]
    if (before !== undefined && before.weight <= weight && budget.fits(before)) {
      from -= 1
      budget.add(before)
      weight += before.weight
    } else if (after !== undefined && after.weight <= weight && budget.fits(after)) {
      to += 1
      budget.add(after)
      weight += after.weight
    } else return stretch.slice(from, to).map(one => one.segment)
  }
}

// ── small ────────────────────────────────────────────────────────────────────────────────────────

/**
 * From this weight on a segment is not merged for its size: two of them may not fit in one merge.
 */
const FULL_WEIGHT = 0.5

interface SmallWindow {
  readonly cost: number
  readonly inputs: readonly PoolSegment[]
}

interface SmallSegments {
  /** The cheapest window between each two full segments. */
  readonly windows: readonly SmallWindow[]
  /** By place in the stretch: 1 where the segment is in a window that is worth a merge. */
  readonly isSmall: Uint8Array
}

function findSmall(stretch: readonly MeasuredSegment[], rowsMax: number): SmallSegments {
  const isSmall = new Uint8Array(stretch.length)
  const windows: SmallWindow[] = []
  for (let from = 0; from < stretch.length; ) {
    let to = from
    while (to < stretch.length && (stretch[to] as MeasuredSegment).weight < FULL_WEIGHT) to += 1
    if (to - from > 1) {
      const part = stretch.slice(from, to)
      const window = findWindow(part, rowsMax, isSmall.subarray(from, to))
      if (window !== undefined)
        windows.push({
          cost: window.cost,
          inputs: part.slice(window.from, window.to).map(one => one.segment),
        })
    }
    from = to + 1
  }
  return { windows, isSmall }
}

interface Window {
  /** Places in the part: [from, to). */
  readonly from: number
  readonly to: number
  /** Weight that the merge writes for each segment that it saves. */
  readonly cost: number
}

/**
 * The cheapest window of one kind, the first of equal ones, and the end of the longest window from
 * each place (0 where there is none).
 */
class BestWindow implements Window {
  from = 0
  to = 0
  cost = Number.POSITIVE_INFINITY
  readonly ends: Uint32Array

  constructor(places: number) {
    this.ends = new Uint32Array(places)
  }

  /** Sets 1 at each place that a window covers. */
  cover(places: Uint8Array): void {
    let covered = 0
    for (let from = 0; from < this.ends.length; from++) {
      const to = this.ends[from] as number
      if (to <= covered) continue
      places.fill(1, Math.max(from, covered), to)
      covered = to
    }
  }
}

/**
 * The cheapest window that is worth a merge; where there is none and the part has more than
 * COMPACT_RUN_MAX segments, the cheapest window of all.
 * @param rowsMax rows that one merge may read
 * @param covered receives 1 at each place that such a window covers
 */
export function findWindow(
  part: readonly Candidate[],
  rowsMax: number,
  covered: Uint8Array,
): Window | undefined {
  const weights = new Float64Array(part.length)
  // NOTE: a loop; Float64Array.from with a function takes ten times as long.
  for (let at = 0; at < part.length; at++) weights[at] = (part[at] as Candidate).weight
  const worth = new BestWindow(part.length)
  const others = new BestWindow(part.length)
  let [end, rows, bytes] = [0, 0, 0]
  for (let from = 0; from < part.length - 1; from++) {
    // The longest window that fits in a merge. A window that begins later does not end sooner.
    for (; end < part.length && end - from < COMPACT_INPUTS_MAX; end++) {
      const { rows: more, segment } = part[end] as Candidate
      if (end > from && (rows + more > rowsMax || bytes + segment.bytes > COMPACT_BYTES_MAX)) break
      rows += more
      bytes += segment.bytes
    }
    weighWindows(from, end, weights, worth, others)
    rows -= (part[from] as Candidate).rows
    bytes -= (part[from] as Candidate).segment.bytes
  }
  const best = worth.to > 0 || part.length <= COMPACT_RUN_MAX ? worth : others
  if (best.to === 0) return undefined
  best.cover(covered)
  return best
}

/**
 * All windows that begin at `from` and end at `end` or before. This loop is the cost of an
 * inspection: numbers in locals.
 */
function weighWindows(
  from: number,
  end: number,
  weights: Float64Array,
  worth: BestWindow,
  others: BestWindow,
): void {
  let weight = weights[from] as number
  let heaviest = weight
  // NOTE: one by one; destructuring an array here makes an inspection take three times as long.
  let worthTo = 0
  let worthEnd = 0
  let worthCost = worth.cost
  let othersTo = 0
  let othersEnd = 0
  let othersCost = others.cost
  for (let at = from + 1; at < end; at++) {
    const one = weights[at] as number
    weight += one
    if (one > heaviest) heaviest = one
    const cost = weight / (at - from)
    if ((at - from >= COMPACT_FAN_IN - 1 && heaviest <= weight / 2) || weight >= FULL_WEIGHT) {
      worthEnd = at + 1
      if (cost < worthCost) {
        worthCost = cost
        worthTo = at + 1
      }
    } else {
      othersEnd = at + 1
      if (cost < othersCost) {
        othersCost = cost
        othersTo = at + 1
      }
    }
  }
  update(worth, from, worthTo, worthEnd, worthCost)
  update(others, from, othersTo, othersEnd, othersCost)
}

function update(best: BestWindow, from: number, to: number, end: number, cost: number): void {
  best.ends[from] = end
  if (to === 0) return
  best.from = from
  best.to = to
  best.cost = cost
}
