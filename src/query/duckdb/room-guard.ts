/**
 * Keeps room on the disk of the data folder while queries write temporary files, in the query
 * process.
 *
 *   W-9  Spilled rows and copies leave SPOOL_FREE_BYTES_MIN to the log and the segments, as imports
 *        do. Below it the query that has run longest of those that write ends, then the next one.
 */
import { statfsSync } from 'node:fs'
import { disk } from '../../util/disk.ts'
import { SPOOL_FREE_BYTES_MIN } from '../../util/limits.ts'

/**
 * Interval between two looks at the free space of the disk while queries write temporary files.
 * DuckDB wrote 20 to 60 MB in it, on two cores.
 */
const ROOM_CHECK_MS = 50

interface Writer {
  /** Those of it that are on the disk of the data folder now. */
  readonly writes: () => boolean
  /** Ends the query. Called again at each look until it has ended. */
  readonly end: () => void
}

export class RoomGuard {
  readonly #folder: string
  /** In the order in which they began. */
  readonly #writers = new Set<Writer>()
  #timer: NodeJS.Timeout | undefined

  /** @param folder on the disk of the data folder */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** Watches a query. Returns the end of that. */
  watch(writer: Writer): () => void {
    this.#writers.add(writer)
    this.#timer ??= setInterval(() => this.#look(), ROOM_CHECK_MS)
    return () => {
      this.#writers.delete(writer)
      if (this.#writers.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }

  #look(): void {
    const writing = [...this.#writers].find(({ writes }) => writes())
    if (writing !== undefined && !this.#hasRoom()) writing.end()
  }

  #hasRoom(): boolean {
    const { bavail, bsize } = statfsSync(this.#folder)
    return bavail * bsize >= SPOOL_FREE_BYTES_MIN
  }
}

export function holdsFiles(folder: string): boolean {
  return disk.exists(folder) && disk.readdir(folder).length > 0
}
