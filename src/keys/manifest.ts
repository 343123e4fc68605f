/**
 * The manifest on the main thread: per pool its segments and their marks, as of the last flushed commit.
 *
 *   W-8   A snapshot is one consistent state; the files it names stay until it is released.
 *   W-4   Replaced files are given up only in `apply`, which follows the flush; given-up.ts says when they go.
 *   W-10  Marks are loaded at a pool's first query, not at start.
 *   W-11  Marks are kept as the lists that the index sent: nothing here walks over rows.
 */
import { MARK_PARTS_MAX } from '../limits.ts'
import type { QuerySegment } from '../query/protocol.ts'
import { assert, must } from '../util/assert.ts'
import { createWaiter } from './commit-waiter.ts'
import { GivenUp } from './given-up.ts'
import { type Entry, newEntry, type SegmentView } from './manifest-entry.ts'
import type {
  GivenUpSegment,
  KeyIndex,
  MarkDelta,
  PoolState,
  SealCommit,
  SealCommitted,
  SegmentMeta,
  SwapCommit,
} from './protocol.ts'

/** What a query reads. `release` is called once, when it ended. */
export interface Snapshot {
  readonly commit: number
  /** Those with rows, by rising number. */
  readonly segments: readonly QuerySegment[]
  /** All, those of deletes alone too, by rising number: what a merge or a backup reads. Their delete files are pinned with them. */
  readonly all: readonly QuerySegment[]
  release(): void
}

/** What a pool looks like from outside. */
export interface PoolView {
  readonly sealedSequence: number
  readonly nextSegment: number
  readonly segments: readonly SegmentView[]
}

export interface Manifest {
  /** Takes over a commit. Called once per commit, in their order, before anything waits on its results. */
  apply(seals: readonly SealCommit[], committed: readonly SealCommitted[]): void
  /** Takes over a swap, in the order of the commits' numbers, as `apply` does. */
  applySwap(swap: SwapCommit, committed: SealCommitted): void
  /** The pool's state now, pinned. Waits for its marks at first. Rejects with Unavailable. */
  snapshot(pool: number): Promise<Snapshot>
  /** Keeps every file of every pool as of this turn. Returns what lets them go, to be called once. */
  pinAll(): () => void
  /** undefined: nothing of the pool is sealed. */
  pool(pool: number): PoolView | undefined
  /** Numbers of the pools of which something is sealed. */
  pools(): number[]
  /** Segments that merges left nothing of and that a rebuild would still find: see given-up.ts. */
  emptied(pool: number): readonly GivenUpSegment[]
  /** The start left files in the pool's folder that nothing names: see GivenUp.keepEmptied. */
  keepEmptied(pool: number): void
  /** Forgets a deleted pool; its files are given up as they become free. */
  drop(pool: number): void
}

interface ManifestOptions {
  /** As the index was opened. */
  readonly pools: readonly PoolState[]
  readonly lastCommit: number
  readonly readMarks: KeyIndex['readMarks']
  /** Absolute folder of a pool's segments. */
  readonly folderOf: (pool: number) => string
  /** Gets files that no manifest and no snapshot names any more, to be unlinked: durably, when it returns or its promise resolves. */
  readonly onUnpinned: (files: readonly string[]) => Promise<void> | void
  /** Files are gone that deletes of the pool were kept for. */
  readonly onEmptiedGone?: (pool: number) => void
}

interface PoolEntry {
  sealedSequence: number
  nextSegment: number
  readonly segments: Map<number, Entry>
  /** Marks from before the start are in `marks`. */
  loaded: boolean
  loading: Promise<void> | undefined
}

/** The manifest of an index just opened. */
export function createManifest(options: ManifestOptions): Manifest {
  const pools = new Map<number, PoolEntry>()
  for (const state of options.pools) pools.set(state.pool, openPool(options, state))
  /** Numbers are never used again. */
  const dropped = new Set<number>()
  const applied = createWaiter(options.lastCommit)
  const givenUp = new GivenUp(options.onUnpinned, options.onEmptiedGone)

  const load = async (number: number, pool: PoolEntry): Promise<void> => {
    const { commit, marks } = await options.readMarks(number)
    // The answer may be ahead of us: with marks of a commit whose new rows we do not know yet, rows would vanish.
    await applied.reached(commit)
    takeMarks(pool, commit, marks)
  }
  const loadOnce = (number: number, pool: PoolEntry): Promise<void> => {
    pool.loading ??= load(number, pool).finally(() => {
      pool.loading = undefined
    })
    return pool.loading
  }
  return {
    apply: (seals, committed) => {
      assert(seals.length === committed.length, 'every seal has its answer')
      for (const [index, seal] of seals.entries()) {
        const answer = committed[index] as SealCommitted
        applied.set(answer.commit)
        if (dropped.has(seal.pool)) {
          giveUpLate(options, givenUp, seal.pool, seal.add)
          continue
        }
        const pool = pools.get(seal.pool) ?? newPool(pools, seal.pool)
        const crowded = applySeal(options, givenUp, pool, seal, answer)
        // Many short lists are read again as one; queries go on with what is here meanwhile.
        if (crowded && pool.loaded) loadOnce(seal.pool, pool).catch(() => undefined)
      }
    },
    applySwap: (swap, committed) => {
      applied.set(committed.commit)
      const pool = pools.get(swap.pool)
      assert(pool !== undefined || dropped.has(swap.pool), 'a swap is of a known pool')
      if (pool === undefined) giveUpLate(options, givenUp, swap.pool, swap.add)
      else takeSwap(options, givenUp, pool, swap, committed)
    },
    snapshot: async number => {
      for (;;) {
        const pool = pools.get(number)
        if (pool === undefined)
          return { commit: applied.now(), segments: [], all: [], release: () => undefined }
        if (pool.loaded) return pin(givenUp, pool, applied.now())
        await loadOnce(number, pool)
      }
    },
    pool: number => viewOf(pools.get(number)),
    pools: () => [...pools.keys()],
    pinAll: () => pinEntries(givenUp, entriesOf(pools)),
    emptied: pool => givenUp.emptied(pool),
    keepEmptied: pool => givenUp.keepEmptied(pool),
    drop: number => {
      const pool = pools.get(number)
      pools.delete(number)
      dropped.add(number)
      givenUp.drop(number)
      if (pool !== undefined) giveUp(givenUp, pool, [...pool.segments.keys()], false)
    },
  }
}

/** Of all pools. */
function entriesOf(pools: ReadonlyMap<number, PoolEntry>): Entry[] {
  return [...pools.values()].flatMap(({ segments }) => [...segments.values()])
}

function viewOf(pool: PoolEntry | undefined): PoolView | undefined {
  if (pool === undefined) return undefined
  const { sealedSequence, nextSegment, segments } = pool
  return {
    sealedSequence,
    nextSegment,
    segments: Array.from(segments.values(), ({ view }) => view),
  }
}

function openPool(options: ManifestOptions, state: PoolState): PoolEntry {
  const segments = new Map<number, Entry>()
  let marked = 0
  for (const view of state.segments) {
    // NOTE: the view as it came. V8 gives each spread of what a rest pattern made a hidden class: reads take ten times as long.
    const { marked: rows, ...meta } = view
    segments.set(meta.segment, newEntry(options.folderOf(state.pool), state.pool, meta, view))
    marked += rows
  }
  const { sealedSequence, nextSegment } = state
  return { sealedSequence, nextSegment, segments, loaded: marked === 0, loading: undefined }
}

function newPool(pools: Map<number, PoolEntry>, number: number): PoolEntry {
  const begun = { sealedSequence: 0, nextSegment: 1, loaded: true, loading: undefined }
  const pool: PoolEntry = { ...begun, segments: new Map() }
  pools.set(number, pool)
  return pool
}

/** True: a segment has so many lists of marks that they should be read again as one. */
function applySeal(
  options: ManifestOptions,
  givenUp: GivenUp,
  pool: PoolEntry,
  seal: SealCommit,
  { commit, marks }: SealCommitted,
): boolean {
  const crowded = addMarks(pool, commit, marks)
  if (seal.add !== undefined) {
    pool.segments.set(seal.add.segment, newEntry(options.folderOf(seal.pool), seal.pool, seal.add))
    pool.nextSegment = Math.max(pool.nextSegment, seal.add.segment + 1)
  }
  pool.sealedSequence = seal.sealedSequence
  giveUp(givenUp, pool, seal.remove, seal.add === undefined)
  return crowded
}

function takeSwap(
  options: ManifestOptions,
  givenUp: GivenUp,
  pool: PoolEntry,
  { pool: number, add, remove }: SwapCommit,
  { commit, marks }: SealCommitted,
): void {
  if (add !== undefined) {
    pool.segments.set(add.segment, newEntry(options.folderOf(number), number, add))
    pool.nextSegment = Math.max(pool.nextSegment, add.segment + 1)
    addMarks(pool, commit, marks)
  }
  giveUp(givenUp, pool, remove, add === undefined)
}

/** True: a segment has so many lists of marks that they should be read again as one. */
function addMarks(pool: PoolEntry, commit: number, marks: readonly MarkDelta[]): boolean {
  let crowded = false
  for (const { segment, rows } of marks) {
    const entry = pool.segments.get(segment)
    assert(entry !== undefined, 'marks name a segment of the manifest')
    entry.marks = [...entry.marks, { segment, rows, commit }]
    entry.view = { ...entry.view, marked: entry.view.marked + rows.length }
    crowded ||= entry.marks.length > MARK_PARTS_MAX
  }
  return crowded
}

/** Replaces what is known of commits up to `commit` by `marks`; keeps what came after. */
function takeMarks(pool: PoolEntry, commit: number, marks: readonly MarkDelta[]): void {
  const base = new Map(marks.map(delta => [delta.segment, delta.rows]))
  for (const [segment, entry] of pool.segments) {
    const later = entry.marks.filter(part => part.commit > commit)
    const rows = base.get(segment)
    entry.marks = rows === undefined ? later : [{ segment, rows, commit }, ...later]
  }
  pool.loaded = true
}

/** The segment of a seal or swap that came after its pool was dropped: nobody will ever read it. */
function giveUpLate(options: ManifestOptions, givenUp: GivenUp, pool: number, add?: SegmentMeta): void {
  if (add !== undefined) givenUp.add([newEntry(options.folderOf(pool), pool, add)], false)
}

function giveUp(givenUp: GivenUp, pool: PoolEntry, segments: readonly number[], isEmptied: boolean): void {
  const entries = segments.map(segment => must(pool.segments.get(segment), 'a segment that goes'))
  for (const segment of segments) pool.segments.delete(segment)
  givenUp.add(entries, isEmptied)
}

function pin(givenUp: GivenUp, pool: PoolEntry, commit: number): Snapshot {
  const entries = [...pool.segments.values()].sort((a, b) => a.meta.segment - b.meta.segment)
  const all = entries.map(({ file, meta, marks }) => ({ file, meta, marks }))
  const segments = all.filter(({ meta }) => meta.rows > 0)
  return { commit, segments, all, release: pinEntries(givenUp, entries) }
}

function pinEntries(givenUp: GivenUp, entries: readonly Entry[]): () => void {
  for (const entry of entries) entry.pins += 1
  let released = false
  return () => {
    assert(!released, 'a snapshot is released once')
    released = true
    for (const entry of entries) entry.pins -= 1
    givenUp.released(entries)
  }
}
