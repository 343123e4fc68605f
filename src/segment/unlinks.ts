/**
 * Removals in the segment thread. Those that wait behind the same seals are made together, so that thousands of pools do
 * not cost a sync each; a seal never overtakes a removal in its own folder.
 *
 *   W-6  What is to go is gone for good before the pool's next segment is there, and before its removal is answered.
 */
import type { Disk } from '../util/disk.ts'
import type { SegmentRequest } from './protocol.ts'
import { unlinkEverywhere } from './publish.ts'

export type UnlinkRequest = Extract<SegmentRequest, { do: 'unlink' }>

/** Called once for each request: its segments are gone for good, or the disk refused. */
type OnUnlinked = (request: UnlinkRequest, error: Error | undefined) => void

export class Unlinks {
  readonly #disk: Disk
  readonly #onUnlinked: OnUnlinked
  #waiting: UnlinkRequest[] = []

  constructor(disk: Disk, onUnlinked: OnUnlinked) {
    this.#disk = disk
    this.#onUnlinked = onUnlinked
  }

  /** It is made when no message is left in the port, or by `flush`. */
  add(request: UnlinkRequest): void {
    if (this.#waiting.length === 0) setImmediate(() => this.flush())
    this.#waiting.push(request)
  }

  /** Makes those of one folder now, or all. */
  flush(folder?: string): void {
    const now = this.#waiting.filter(one => folder === undefined || one.folder === folder)
    if (now.length === 0) return
    this.#waiting = this.#waiting.filter(one => !now.includes(one))
    const segments = new Map<string, number[]>()
    for (const one of now) segments.set(one.folder, [...(segments.get(one.folder) ?? []), ...one.segments])
    const failed = unlinkEverywhere(this.#disk, segments)
    for (const one of now) this.#onUnlinked(one, failed.get(one.folder))
  }
}
