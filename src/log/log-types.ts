/** The log as other layers see it. `commit-log.ts` implements `Commit`; `open-log.ts` opens it. */
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
   * Flushed sequence by pool number, for every pool that the catalog knows. -1: the pool is
   * deleted, and recovery skips its records. A record of a pool that is missing here is damage.
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
  /** Position of the first file. */
  readonly position: number
  /** First sequence of that file. */
  readonly firstSequence: number
  /** The last synced sequence. Every flushed sequence is at or below it. */
  readonly lastSequence: number
}

/** A held log: its files stay until `release`. */
export interface HeldLog {
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

/** The log, open for appends. */
export interface Commit {
  /**
   * Numbers the records and returns the first sequence at once. `durable` resolves when their sync
   * returned (with durability `os`: their write), in the order of the calls. It rejects with
   * Unavailable: `log_refused` after a failed write or sync, `disk_full` while the disk has no
   * room: then no start finds the records either.
   */
  append(
    spans: readonly Span[],
    records: number,
  ): { readonly firstSequence: number; readonly durable: Promise<void> }
  /** Syncs everything that was appended before the call, in every durability mode (W-13). */
  syncAll(): Promise<void>
  /**
   * Syncs as syncAll does. Resolves with a sequence that divides the log: every record appended
   * before the call is below it, or was refused; every record appended later has it or a higher
   * one. Rejects with Unavailable while the log refuses appends.
   */
  boundary(): Promise<number>
  /** Lets files go whose records all stand below `belowSequence`. They are recycled or removed. */
  release(belowSequence: number): void
  /**
   * Holds the log as it is now, up to its last synced sequence. None of its files goes before
   * `release()`.
   */
  hold(): HeldLog
  stats(): CommitStats
  /** Called on every change of state. */
  onState: (state: LogState) => void
  /** Called after each group with the duration of writing and syncing it, and its bytes. */
  onSync: (ms: number, bytes: number) => void
  /** Writes the clean-stop record, syncs, and ends the threads. */
  stop(): Promise<void>
}
