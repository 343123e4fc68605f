/**
 * Chooses the next merge of a pool, or none, and counts its debt. Pure.
 *
 *   W-6, W-7  A merge takes segments side by side in sequence order, of one plan version, none of them barred: no
 *             update or delete stands between its inputs.
 *
 *   1  expired   segments wholly, then partly below the retention's cutoff
 *   2  marked    segments that are mostly marked; wholly marked ones first, others with smaller neighbours
 *   3  small     a window of small neighbours, the cheapest per segment that it saves (windows.ts)
 *
 * It ends: every merge leaves fewer segments, or as many without what made it worth it. So deletes count as dead only where
 * a merge drops them for sure: where `olderThan` names nothing, the same list that the merge is given.
 */

import type { GivenUpSegment } from '../keys/protocol.ts'
import { COMPACT_BYTES_MAX, COMPACT_MARKED_SHARE, COMPACT_ROWS_FLOOR, COMPACT_ROWS_MAX } from '../limits.ts'
import type { Debt, PoolSegment, TimeSpan } from './protocol.ts'
import { FULL, findWindow, Load } from './windows.ts'

/** What is known of a pool. */
export interface Look {
  /** All, in any order. */
  readonly segments: readonly PoolSegment[]
  /** Segments that are in no manifest any more, and that a rebuild would still read. Absent: none. */
  readonly givenUp?: readonly GivenUpSegment[]
  /** Segments that no merge may touch now: held by the sealer, or quarantined. */
  readonly isBarred: (segment: number) => boolean
  /** Rows that one merge may read where they are fewer than COMPACT_ROWS_MAX; see swap-costs.ts. */
  readonly rowsMax?: number
  /** Retention's cutoff where a pass is due. */
  readonly expireBeforeUs: number | undefined
}

type Reason = 'expired' | 'marked' | 'small'

/** One merge. */
export interface Choice {
  readonly reason: Reason
  /** By rising sequence. */
  readonly inputs: readonly PoolSegment[]
}

/** What a look finds. */
interface Found {
  /** The next merge; undefined: there is nothing worth one. */
  readonly choice: Choice | undefined
  readonly debt: Debt
}

/** The next merge and the debt of a pool, in one walk over its segments. `quarantined`: how many of them are. */
export function lookAt(look: Look, quarantined: number): Found {
  const runs = runsOf(look)
  const small = runs.map(run => smallOf(run, look.rowsMax ?? COMPACT_ROWS_MAX))
  return {
    choice: choiceOf(look, runs, small),
    debt: debtOfRuns(look, runs, small, quarantined),
  }
}

/** The next merge, or undefined: there is nothing worth one. */
export function choose(look: Look): Choice | undefined {
  return lookAt(look, 0).choice
}

/** What merges would rewrite, as far as it can be told now: all of it is in the order in which `choose` would take it. */
export function debtOf(look: Look, quarantined: number): Debt {
  return lookAt(look, quarantined).debt
}

/** The same segments by rising sequence. */
export function bySequence<S extends { readonly sequenceFrom: number }>(segments: readonly S[]): S[] {
  return [...segments].sort((a, b) => a.sequenceFrom - b.sequenceFrom)
}

/** Rows that a rebuild would read before those from `sequence` on: their times (W-6, MergeJob.older). */
export function olderThan(
  sequence: number,
  segments: readonly PoolSegment[],
  givenUp: readonly GivenUpSegment[],
): TimeSpan[] {
  return [...segments, ...givenUp]
    .filter(one => one.rows > 0 && one.sequenceFrom < sequence)
    .map(one => ({ fromUs: one.timestampFromUs, toUs: one.timestampToUs }))
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

function measure(of: PoolSegment, isOldest: boolean, rowsMax: number): Measured {
  const rows = of.rows + of.deletes
  // Nothing is older than the oldest segment, so its deletes have no more to do.
  const dead = of.marked + (isOldest ? of.deletes : 0)
  const live = rows - dead
  const bytes = (of.bytes * live) / Math.max(rows, 1)
  const weight = Math.max(Math.max(live, COMPACT_ROWS_FLOOR) / rowsMax, bytes / COMPACT_BYTES_MAX)
  return { of, rows, dead, weight }
}

/** Stretches of segments, any part of which may be one merge's inputs. */
function runsOf({ segments, givenUp = [], isBarred, rowsMax = COMPACT_ROWS_MAX }: Look): Measured[][] {
  const runs: Measured[][] = []
  let run: Measured[] = []
  for (const [index, of] of bySequence(segments).entries()) {
    const isApart = isBarred(of.segment)
    if (isApart || (run.length > 0 && run.at(-1)?.of.planVersion !== of.planVersion)) {
      if (run.length > 0) runs.push(run)
      run = []
    }
    const isOldest = index === 0 && olderThan(of.sequenceFrom, [], givenUp).length === 0
    if (!isApart) run.push(measure(of, isOldest, rowsMax))
  }
  if (run.length > 0) runs.push(run)
  return runs
}

function choiceOf(look: Look, runs: readonly Measured[][], small: readonly SmallOfRun[]): Choice | undefined {
  const inputs = expired(runs, look)
  if (inputs !== undefined) return { reason: 'expired', inputs }
  const marked = mostlyMarked(runs, look.rowsMax ?? COMPACT_ROWS_MAX)
  if (marked !== undefined) return { reason: 'marked', inputs: marked }
  const window = cheapest(small.flatMap(({ windows }) => windows))
  return window === undefined ? undefined : { reason: 'small', inputs: window.inputs }
}

function debtOfRuns(
  { segments, expireBeforeUs }: Look,
  runs: readonly Measured[][],
  small: readonly SmallOfRun[],
  quarantined: number,
): Debt {
  let [smallSegments, bytesToMerge] = [0, 0]
  for (const [index, run] of runs.entries()) {
    const { isSmall } = small[index] as SmallOfRun
    for (const [at, one] of run.entries()) {
      if (isSmall[at] === 1) smallSegments += 1
      if (isSmall[at] === 1 || isDead(one) || isPartlyExpired(one.of, expireBeforeUs))
        bytesToMerge += one.of.bytes
    }
  }
  const markedRows = segments.reduce((sum, one) => sum + one.marked, 0)
  return { smallSegments, markedRows, bytesToMerge, quarantined }
}

// ── 1: expired ───────────────────────────────────────────────────────────────────────────────────────

function expired(
  runs: readonly Measured[][],
  { expireBeforeUs: beforeUs, rowsMax = COMPACT_ROWS_MAX }: Look,
): PoolSegment[] | undefined {
  if (beforeUs === undefined) return undefined
  return (
    firstStretch(runs, rowsMax, one => isWhollyExpired(one.of, beforeUs)) ??
    firstStretch(runs, rowsMax, one => isPartlyExpired(one.of, beforeUs))
  )
}

function isWhollyExpired({ rows, timestampToUs }: PoolSegment, beforeUs: number): boolean {
  return rows > 0 && timestampToUs !== null && timestampToUs < beforeUs
}

/** Does it hold rows below the cutoff, by what the manifest says? */
export function isPartlyExpired(
  { rows, timestampFromUs }: Pick<PoolSegment, 'rows' | 'timestampFromUs'>,
  beforeUs: number | undefined,
): boolean {
  return beforeUs !== undefined && rows > 0 && timestampFromUs !== null && timestampFromUs < beforeUs
}

/** The oldest segment that `wants`, with all that follow and want it too, as far as they fit. */
function firstStretch(
  runs: readonly Measured[][],
  rowsMax: number,
  wants: (one: Measured) => boolean,
): PoolSegment[] | undefined {
  for (const run of runs) {
    const from = run.findIndex(wants)
    if (from < 0) continue
    const load = new Load(rowsMax)
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

function mostlyMarked(runs: readonly Measured[][], rowsMax: number): PoolSegment[] | undefined {
  const gone = firstStretch(runs, COMPACT_ROWS_MAX, hasNoRow) // no key of theirs moves
  if (gone !== undefined) return gone
  for (const run of runs) {
    const at = run.findIndex(isDead)
    if (at >= 0) return withSmaller(run, at, rowsMax)
  }
  return undefined
}

/** The segment at `at` with its neighbours, as long as each is no heavier than what is there already. */
function withSmaller(run: readonly Measured[], at: number, rowsMax: number): PoolSegment[] {
  const load = new Load(rowsMax)
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

interface SmallWindow {
  readonly cost: number
  readonly inputs: readonly PoolSegment[]
}

/** Of one run: the cheapest window of each stretch without a full segment, and which of its segments stand in any window. */
interface SmallOfRun {
  readonly windows: readonly SmallWindow[]
  /** 1 by place in the run. */
  readonly isSmall: Uint8Array
}

function smallOf(run: readonly Measured[], rowsMax: number): SmallOfRun {
  const isSmall = new Uint8Array(run.length)
  const windows: SmallWindow[] = []
  for (let from = 0; from < run.length; ) {
    let to = from
    while (to < run.length && (run[to] as Measured).weight < FULL) to += 1
    if (to - from > 1) {
      const part = run.slice(from, to)
      const window = findWindow(part, rowsMax, isSmall.subarray(from, to))
      if (window !== undefined)
        windows.push({ cost: window.cost, inputs: part.slice(window.from, window.to).map(one => one.of) })
    }
    from = to + 1
  }
  return { windows, isSmall }
}

function cheapest(windows: readonly SmallWindow[]): SmallWindow | undefined {
  let best: SmallWindow | undefined
  for (const window of windows) if (best === undefined || window.cost < best.cost) best = window
  return best
}
