/**
 * Main thread ↔ log worker, and what the commit stage gives to main.ts.
 *
 * Sequences are handed out by the main thread when it appends; a span's records stand one behind the other.
 */

/** Contiguous records in shared memory: complete but for sequence, group and checksum. */
export interface Span {
  readonly slab: SharedArrayBuffer
  /** Byte offset of the first record header. */
  readonly offset: number
  /** Bytes of all its records, padding included. */
  readonly bytes: number
  readonly records: number
  /** Follows the span's last record in the log: its accepted-bitmap. A record with one ends its span. */
  readonly bits?: Uint8Array
}

/** One record that recovery found above its pool's sealed sequence: a row of a chunk's table (replayed.ts). */
export interface Replayed {
  readonly sequence: number
  readonly kind: 'post' | 'delete'
  readonly pool: number
  readonly version: number
  readonly receivedAtMs: number
  readonly events: number
  readonly accepted: number
  /** In the chunk's slab: the body, and the bitmap or -1. */
  readonly offset: number
  readonly bodyBytes: number
  readonly bitsOffset: number
  /** For error messages. */
  readonly file: string
  readonly fileOffset: number
}

/** A run of replayed records; at most REPLAY_CHUNK_BYTES of bodies or one record. */
export interface ReplayChunk {
  readonly slab: SharedArrayBuffer
  /** A row per record (replayed.ts), by pool, each pool's in sequence order. Moved. */
  readonly table: Float64Array
  /** The files that rows name. */
  readonly files: readonly string[]
}

/** What must be known before the log can be read. */
export interface RecoverOptions {
  /** Sealed sequence of each pool number that the catalog knows; -1: deleted, its records are skipped.
   *  A record of a pool that is not in here is damage. */
  readonly sealed: ReadonlyMap<number, number>
  /** Gets the chunks in order; awaited before the next is read. */
  readonly replay: (chunk: ReplayChunk) => Promise<void>
}

/** State of the log that `/metrics`, `/readyz` and admission read. */
export type LogState = 'open' | 'disk_full' | 'poisoned' | 'stopped'

/** The log at one moment, for a copy. */
export interface LogSpan {
  readonly epoch: number
  /** Position of its first file, and that file's first sequence. */
  readonly position: number
  readonly firstSequence: number
  /** Synced; every sealed sequence is at or below. */
  readonly lastSequence: number
}

/** A span whose files stay. */
export interface HeldLog {
  readonly span: LogSpan
  /** Called once: files that were held back may go. */
  release(): void
}

export interface CommitStats {
  readonly state: LogState
  readonly queuedBytes: number
  readonly queuedSpans: number
  readonly files: number
  readonly lastSequence: number
}

/** The commit stage as main.ts sees it (commit/commit.ts implements it over the log worker). */
export interface Commit {
  /** Numbers the records (first sequence is returned at once) and resolves `durable` when their sync returned
   *  (with durability `os`: the write), in the order of the calls. Rejects with Unavailable
   *  (`log_refused`) after a failed write or sync, with `disk_full` while no log file can be made. */
  append(
    spans: readonly Span[],
    records: number,
  ): { readonly firstSequence: number; readonly durable: Promise<void> }
  /** Syncs everything appended before the call, in every durability mode (W-13). */
  syncAll(): Promise<void>
  /** Files whose records all stand below `sequence` may go; they are recycled or unlinked. */
  release(belowSequence: number): void
  /** The log as it is in this turn, up to its last synced sequence. No file of it goes before its `release()`. */
  hold(): HeldLog
  stats(): CommitStats
  /** Called on every change of state, and with each sync's duration in ms and group's bytes. */
  onState: (state: LogState) => void
  onSync: (ms: number, bytes: number) => void
  /** Writes the clean-stop mark, syncs, ends the thread. */
  stop(): Promise<void>
}
