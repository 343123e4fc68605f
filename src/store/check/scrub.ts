/**
 * The scrub reads every segment and delete file again, one after the other at a low rate, and
 * compares each with its checksum: damage is found within SCRUB_PASS_MS, in files that no query
 * needs too.
 *
 * A pass begins at a random file, so that a server that is often restarted reads all files in time
 * too. The rate follows from the bytes of all files. A pass that is done early waits for the next.
 */
import { hasDeleteFile, type SegmentMeta } from '../../format/segment-meta.ts'
import type { Manifest } from '../../index/manifest.ts'
import type { SegmentPaths } from '../../index/obsolete-segments.ts'
import { callAfter, monotonicMs } from '../../util/clock.ts'
import { SELF_CHECKED } from '../../util/crc32.ts'
import { SegmentDamaged } from '../../util/errors.ts'
import { MiB, SCRUB_BEGIN_MS } from '../../util/limits.ts'
import type { CheckFile, FileToCheck } from './check-file.ts'
import type { SegmentChecks } from './segment-checks.ts'

/** Time in which the scrub reads every file once. */
const SCRUB_PASS_MS = 7 * 24 * 3_600_000
/**
 * Bytes a second that the scrub reads at least, 4 % of what a slow disk gives. Above 2.4 TiB it
 * reads faster, to end in time.
 */
const SCRUB_BYTES_PER_S_MIN = 4 * MiB

interface ScrubDeps {
  readonly checkFile: CheckFile
  readonly checks: SegmentChecks
  readonly manifest: Pick<Manifest, 'files' | 'isLive'>
  /** The file is damaged. Called once for each delete file; `checks` tells of the others. */
  onDamaged(error: SegmentDamaged): void
}

interface ScrubTimes {
  readonly beginMs: number
  readonly passMs: number
  readonly bytesPerSecondMin: number
}

const TIMES: ScrubTimes = {
  beginMs: SCRUB_BEGIN_MS,
  passMs: SCRUB_PASS_MS,
  bytesPerSecondMin: SCRUB_BYTES_PER_S_MIN,
}

/** Figures for `/metrics`. */
interface ScrubStats {
  /** Bytes read since the start. */
  readonly bytes: number
  /** Passes that ended since the start. */
  readonly passes: number
  /** Part of the present pass that is done, by bytes, from 0 to 1; 1 between two passes. */
  readonly progress: number
}

export class Scrub {
  readonly #deps: ScrubDeps
  readonly #times: ScrubTimes
  /** Damaged delete files. Queries do not read them, so `checks` does not know them. */
  readonly #damagedDeletes = new WeakSet<SegmentMeta>()
  #bytes = 0
  #passes = 0
  #pass = { bytes: 0, of: 0 }
  #cancel: (() => void) | undefined
  #isStopped = false

  constructor(deps: ScrubDeps, times: Partial<ScrubTimes> = {}) {
    this.#deps = deps
    this.#times = { ...TIMES, ...times }
  }

  /** Begins after a while. Called when the server is ready. */
  start(): void {
    this.#beginIn(this.#times.beginMs)
  }

  /** Begins no further file. The running check ends with its thread. */
  stop(): void {
    this.#isStopped = true
    this.#cancel?.()
  }

  stats(): ScrubStats {
    const { bytes, of } = this.#pass
    return {
      bytes: this.#bytes,
      passes: this.#passes,
      progress: of === 0 ? (this.#passes > 0 ? 1 : 0) : Math.min(1, bytes / of),
    }
  }

  #beginIn(ms: number): void {
    if (this.#isStopped) return
    this.#cancel = callAfter(ms, () => void this.#runPass())
  }

  async #runPass(): Promise<void> {
    const beganMs = monotonicMs()
    const segments = this.#deps.manifest.files()
    const of = segments.reduce((sum, { meta }) => sum + meta.bytes, 0)
    this.#pass = { bytes: 0, of }
    const { passMs, bytesPerSecondMin } = this.#times
    const bytesPerSecond = Math.max(bytesPerSecondMin, (1000 * of) / passMs)
    const from = Math.floor(Math.random() * segments.length)
    for (const segment of [...segments.slice(from), ...segments.slice(0, from)]) {
      if (this.#isStopped) return
      await this.#checkSegment(segment, bytesPerSecond)
      this.#pass.bytes += segment.meta.bytes
      this.#bytes += segment.meta.bytes
    }
    this.#passes += 1
    this.#beginIn(Math.max(this.#times.beginMs, passMs - (monotonicMs() - beganMs)))
  }

  async #checkSegment(segment: SegmentPaths, bytesPerSecond: number): Promise<void> {
    const { checks } = this.#deps
    const { meta, file, deletes } = segment
    if (hasDeleteFile(meta) && !this.#damagedDeletes.has(meta)) {
      const found = await this.#check(segment, { file: deletes, checksum: SELF_CHECKED, bytesPerSecond })
      if (found instanceof SegmentDamaged) {
        this.#damagedDeletes.add(meta)
        this.#deps.onDamaged(found)
      }
    }
    const { checksum } = meta
    if (checksum === null || checks.isDamaged(meta)) return
    const found = await this.#check(segment, { file, checksum, bytesPerSecond })
    if (found instanceof SegmentDamaged) checks.setDamaged(meta, found)
    else if (found === 'whole') checks.setWhole(meta)
  }

  /** Resolves with undefined where the file is being removed, or the system refuses for now. */
  async #check(segment: SegmentPaths, file: FileToCheck): Promise<'whole' | SegmentDamaged | undefined> {
    if (this.#isStopped || !this.#deps.manifest.isLive(segment)) return undefined
    try {
      await this.#deps.checkFile(file)
      return 'whole'
    } catch (error) {
      return error instanceof SegmentDamaged && this.#deps.manifest.isLive(segment) ? error : undefined
    }
  }
}
