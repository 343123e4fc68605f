/**
 * Which files of the running epoch may leave the log (W-13). Known on the main thread from what the log worker
 * answers; the spare worker does the removing.
 */
import { must } from '../util/assert.ts'
import type { EpochFile } from './epoch.ts'
import { logFileName } from './file.ts'
import type { Head } from './head.ts'

export class LogFiles {
  readonly #epoch: number
  #files: EpochFile[]

  constructor(epoch: number, files: readonly EpochFile[]) {
    this.#epoch = epoch
    this.#files = [...files]
  }

  get count(): number {
    return this.#files.length
  }

  /** Where the log begins now. */
  get first(): EpochFile & { readonly epoch: number } {
    return { ...must(this.#files[0], 'the newest log file'), epoch: this.#epoch }
  }

  /** The log worker took this file into use. */
  add(file: EpochFile): void {
    this.#files.push(file)
  }

  /**
   * Takes the files whose records all stand below `belowSequence` off the list, never the newest.
   * undefined where there is none.
   */
  takeBelow(
    belowSequence: number,
    syncedSequence: number,
  ): { readonly head: Head; readonly names: readonly string[] } | undefined {
    let gone = 0
    while (gone + 1 < this.#files.length && this.#files[gone + 1]!.firstSequence <= belowSequence) gone += 1
    if (gone === 0) return undefined
    const names = this.#files.slice(0, gone).map(file => logFileName(this.#epoch, file.position))
    this.#files = this.#files.slice(gone)
    const first = must(this.#files[0], 'the newest log file')
    return { head: { epoch: this.#epoch, position: first.position, lastSequence: syncedSequence }, names }
  }
}
