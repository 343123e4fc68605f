/** Types that other layers share with the log. `open-log.ts` opens it. */
import type { ReplayChunk } from './replay-chunk.ts'

/** Adjacent records in shared memory, complete except for sequence, group and checksum. */
export interface Span {
  readonly slab: SharedArrayBuffer
  /** Byte offset of the first record header. */
  readonly offset: number
  /** Bytes of all records of the span, padding included. */
  readonly bytes: number
  readonly records: number
  /** Accepted-bitmap of the span's last record; it follows that record in the log. */
  readonly bits?: Uint8Array
}

/** The flushed sequences that a recovery starts from, and the taker of its chunks. */
export interface RecoverOptions {
  /**
   * Flushed sequence by pool number, for every pool that the catalog knows. It is -1 where the pool
   * is deleted: recovery skips its records. A record of a pool that is missing here is damage.
   */
  readonly flushed: ReadonlyMap<number, number>
  /** Gets the chunks in order. Recovery awaits the result before it hands over the next chunk. */
  readonly replay: (chunk: ReplayChunk) => Promise<void>
}

/** State of the log, which `/metrics`, `/readyz` and admission read. */
export type LogState = 'open' | 'disk_full' | 'poisoned' | 'stopped'

/** The extent of the log at one moment, for a copy. It has the fields of a log header. */
export interface LogSpan {
  readonly generation: number
  readonly position: number
  /** First sequence of that file. */
  readonly firstSequence: number
  /** The last synced sequence. Every flushed sequence is at or below it. */
  readonly lastSequence: number
}

/** A pinned log: its files stay until `release`. */
export interface PinnedLog {
  readonly span: LogSpan
  /** Lets the files go. To be called once. */
  release(): void
}

export interface CommitStats {
  readonly state: LogState
  readonly queuedBytes: number
  readonly queuedSpans: number
  readonly files: number
  readonly lastSequence: number
}
