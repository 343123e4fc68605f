/**
 * Which segments are known to be whole. A segment that an earlier process wrote is compared with
 * its checksum before the first query reads it. One that this process wrote counts as whole,
 * because its checksum was made from the bytes in memory (decision 0055).
 *
 *   W-8   A query over a damaged segment rejects with SegmentDamaged and reads nothing.
 *   W-10  Nothing is read at the start: the first query that needs a file waits for its check.
 *   W-11  The check thread reads. Here is no loop over bytes.
 *
 * One file is read at a time, once for all queries that wait for it, and applications take turns. A
 * check that nobody waits for any more does not begin.
 */
import type { SegmentMeta } from '../../format/segment-meta.ts'
import { CLIENT_GONE, SegmentDamaged, Unavailable } from '../../util/errors.ts'
import { FairQueue } from '../../util/fair-queue.ts'
import type { CheckFile } from './check-file.ts'

interface ReadSegment {
  /** The Parquet file, absolute. */
  readonly file: string
  /** The manifest's own object: the state of the segment belongs to it. */
  readonly meta: SegmentMeta
}

interface Waiting {
  /** The application. */
  readonly fairKey: string
  readonly msMax: number
  /** Aborted when nobody waits for the answer any more. */
  readonly gone?: AbortSignal | undefined
}

/**
 * Makes sure that segments are whole. Returns undefined where they are known to be. Throws
 * SegmentDamaged, and rejects with it or with Unavailable.
 */
export type EnsureWhole = (segments: readonly ReadSegment[], waiting: Waiting) => Promise<void> | undefined

/** A check that runs or waits for its turn. */
interface Check {
  readonly segment: ReadSegment
  /** Queries that need it. */
  waiting: number
  /** Applications in whose turn it may begin. */
  readonly fairKeys: Set<string>
  readonly begin: () => void
  readonly done: Promise<void>
}

export class SegmentChecks {
  readonly #checkFile: CheckFile
  readonly #onDamaged: (error: SegmentDamaged) => void
  /** No entry: not checked yet. Entries vanish with the segment. */
  readonly #states = new WeakMap<SegmentMeta, 'whole' | SegmentDamaged | Check>()
  /** Bounded by the files of the queries that wait, of which the engine has a bounded number. */
  readonly #turns = new FairQueue<Check>()
  #isBusy = false

  /** @param onDamaged called once for each damaged segment, with the first error */
  constructor(checkFile: CheckFile, onDamaged: (error: SegmentDamaged) => void = () => {}) {
    this.#checkFile = checkFile
    this.#onDamaged = onDamaged
  }

  /** The segment was read in full and matches, or this process has written it. */
  setWhole(meta: SegmentMeta): void {
    this.#states.set(meta, 'whole')
  }

  /** The segment is damaged until the next start. */
  setDamaged(meta: SegmentMeta, error: SegmentDamaged): void {
    if (this.isDamaged(meta)) return
    this.#states.set(meta, error)
    this.#onDamaged(error)
  }

  isDamaged(meta: SegmentMeta): boolean {
    return this.#states.get(meta) instanceof SegmentDamaged
  }

  /** True where no query has to wait for the segment. */
  isKnown(meta: SegmentMeta): boolean {
    const state = this.#states.get(meta)
    return meta.rows === 0 || state === 'whole' || state instanceof SegmentDamaged
  }

  /** See EnsureWhole. The segments are pinned until it settles. */
  readonly ensureWhole: EnsureWhole = (segments, waiting) => {
    const checks: Check[] = []
    for (const segment of segments) {
      const state = segment.meta.rows === 0 ? 'whole' : this.#states.get(segment.meta)
      if (state instanceof SegmentDamaged) throw state
      if (state !== 'whole') checks.push(state ?? this.#waitFor(segment))
    }
    if (checks.length === 0) return undefined
    for (const check of checks) {
      check.waiting += 1
      if (!check.fairKeys.has(waiting.fairKey)) this.#turns.push(waiting.fairKey, check)
      check.fairKeys.add(waiting.fairKey)
    }
    if (!this.#isBusy) void this.#work()
    return inTime(Promise.all(checks.map(({ done }) => done)), waiting).finally(() => {
      for (const check of checks) check.waiting -= 1
    })
  }

  #waitFor(segment: ReadSegment): Check {
    let begin = () => {}
    const turn = new Promise<void>(resolve => {
      begin = resolve
    })
    const done = turn.then(() => this.#run(check))
    done.catch(() => undefined) // those that wait get the error
    const check: Check = { segment, waiting: 0, fairKeys: new Set(), begin, done }
    this.#states.set(segment.meta, check)
    return check
  }

  async #work(): Promise<void> {
    this.#isBusy = true
    for (let next = this.#turns.tryShift(); next !== undefined; next = this.#turns.tryShift()) {
      next.begin()
      await next.done.catch(() => undefined)
    }
    this.#isBusy = false
  }

  async #run(check: Check): Promise<void> {
    const { file, meta } = check.segment
    const isOurs = () => this.#states.get(meta) === check
    if (check.waiting === 0 && isOurs()) this.#states.delete(meta)
    if (!isOurs()) {
      // The scrub or a merge was faster, or nobody waits.
      const state = this.#states.get(meta)
      if (state instanceof SegmentDamaged) throw state
      return
    }
    try {
      await this.#checkFile({ file, checksum: meta.checksum ?? 0 })
      if (isOurs()) this.setWhole(meta)
    } catch (error) {
      if (isOurs()) this.#states.delete(meta)
      // Without a query that pins it, the file may have been removed.
      if (error instanceof SegmentDamaged && check.waiting > 0) this.setDamaged(meta, error)
      throw error
    }
  }
}

/** Rejects with Unavailable where the time is over, or the client has gone. */
async function inTime(work: Promise<unknown>, { msMax, gone }: Waiting): Promise<void> {
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(), msMax)
  const signal = gone === undefined ? limit.signal : AbortSignal.any([limit.signal, gone])
  const ended = new Promise<never>((_, reject) => {
    const end = () => reject(gone?.aborted === true ? CLIENT_GONE() : UNCHECKED())
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  })
  try {
    await Promise.race([work, ended])
  } finally {
    clearTimeout(timer)
    ended.catch(() => undefined)
  }
}

const UNCHECKED = () =>
  new Unavailable(
    'segments_unchecked',
    'the files of the query are compared with their checksums, once after each start: ask again in a moment',
  )
