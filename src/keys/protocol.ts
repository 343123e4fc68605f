/**
 * Main thread ↔ index worker, and the manifest that it sends after each flush.
 *
 * The index worker owns `data/index`; nobody else opens it. One `commit` is one LMDB transaction over any
 * number of pools; its answer is sent after the flush (W-4).
 */

/** Smallest and largest value, printed as filters print them, of a column that the planner prunes by. */
export interface ColumnRange {
  readonly min: string
  readonly max: string
}

/** One segment in the manifest. */
export interface SegmentMeta {
  readonly segment: number
  readonly rows: number
  readonly bytes: number
  /** CRC-32 of the Parquet file's bytes; null where there is none (`rows` is 0). */
  readonly checksum: number | null
  readonly planVersion: number
  /** Sequences of the rows and deletes of the seal(s) it stands for. */
  readonly sequenceFrom: number
  readonly sequenceTo: number
  /** Received-at of its rows, µs. */
  readonly receivedFromUs: number
  readonly receivedToUs: number
  /** Primary timestamp of its rows, µs (DATE: midnight). null: a row is null. Equal to received-at without one. */
  readonly timestampFromUs: number | null
  readonly timestampToUs: number | null
  /** Of the tenant column; null where there is none, or a value is null or over 64 bytes. */
  readonly tenant: ColumnRange | null
  /** A delete file stands beside it (or alone: `rows` is 0 then and there is no Parquet file). */
  readonly deletes: number
}

/** What a delete file says of its segment before its keys come. */
export interface DeletesHeader {
  readonly pool: number
  readonly planVersion: number
  readonly segment: number
  readonly sequenceFrom: number
  readonly sequenceTo: number
  /** Rows of the Parquet file beside it; above 0 the delete file counts only together with that file. */
  readonly rowsOfSeal: number
}

/** The sorted keys of one seal: one ArrayBuffer, moved. Int32 words, then bytes, little-endian:
 *
 *    0  count of keys n    1  bytes of all keys
 *    2 … 2+n               rows: the row in the new segment, or -1: the key is deleted
 *    2+n … 3+2n            n + 1 offsets of the keys in the bytes
 *    then the keys, each unique, in ascending order of their bytes
 */
export type KeyRun = ArrayBuffer

/** What one seal changes. */
export interface SealCommit {
  readonly pool: number
  /** The new segment; undefined where the seal left neither rows nor deletes. */
  readonly add: SegmentMeta | undefined
  /** Segments that the new one replaces: their rows and marks are gone. */
  readonly remove: readonly number[]
  /** undefined in a pool without a unique id. */
  readonly keys: KeyRun | undefined
  /** Every record of the pool up to this sequence is sealed. */
  readonly sealedSequence: number
}

/**
 * What compaction and retention change: segments that go, and the one (or none) that their rows moved to.
 *
 * Every key of the run is looked up again inside the transaction. Where it still points into a segment of `remove`,
 * it is pointed at its row in `add`, or removed where the row is -1 (expired). Where it points elsewhere or is gone, the
 * row was updated or deleted meanwhile: its copy in `add` is marked. No other segment's rows are marked.
 *
 * Every row of `remove` that is not marked by then must be found that way, by a key that points into its segment. Else keys are
 * lost or marks are wrong, and moving the rest would hide it: the swap is refused with SegmentsDisagree.
 */
export interface SwapCommit {
  readonly pool: number
  /** undefined: no row and no delete is left. Its `sequenceFrom` to `sequenceTo` covers those of `remove`. */
  readonly add: SegmentMeta | undefined
  /** Adjacent in sequence, none missing between them. All are in the index, or the pool is being dropped. */
  readonly remove: readonly number[]
  /** undefined in a pool without a unique id. */
  readonly keys: KeyRun | undefined
}

/** Of a segment that is in no manifest any more, while a rebuild would still find its file and no other one stands for it. */
export type GivenUpSegment = Pick<SegmentMeta, 'rows' | 'sequenceFrom' | 'timestampFromUs' | 'timestampToUs'>

/** Rows of a segment that were updated or deleted since: sorted row numbers. */
export interface MarkDelta {
  readonly segment: number
  readonly rows: Uint32Array
}

/** What a commit changed, for the manifest on the main thread. */
export interface SealCommitted {
  readonly pool: number
  /** Number of the transaction, rising: marks of this commit count for manifests from here on. */
  readonly commit: number
  readonly marks: readonly MarkDelta[]
  /** ms that its keys took, with their share of the flush; undefined: it has none. */
  readonly keysMs?: number
  /** µs that each of its keys took; undefined: it has too few to tell. */
  readonly usPerKey?: number
}

/** One pool's state when the index is opened. Marks are counted, not loaded (W-10). */
export interface PoolState {
  readonly pool: number
  readonly sealedSequence: number
  readonly nextSegment: number
  readonly segments: readonly (SegmentMeta & { readonly marked: number })[]
}

export interface IndexOpened {
  readonly pools: readonly PoolState[]
  readonly lastCommit: number
  /** The index was missing or foreign and has been rebuilt from the segments. */
  readonly rebuilt: boolean
  readonly keyLoop: 'native' | 'js'
}

/** The index as main.ts sees it (keys/index-client.ts implements it over the index worker). */
export interface KeyIndex {
  /** One transaction for all of them; resolves after the flush. Rejects with Unavailable: nothing changed. */
  commit(seals: readonly SealCommit[]): Promise<readonly SealCommitted[]>
  /** One transaction; resolves after the flush. Its marks are all of `swap.add`. Rejects with Unavailable or SegmentsDisagree: nothing changed. */
  swap(swap: SwapCommit): Promise<SealCommitted>
  /** All marks of a pool's segments as of the last commit. */
  readMarks(pool: number): Promise<{ readonly commit: number; readonly marks: readonly MarkDelta[] }>
  /** Removes everything of a deleted pool, in slices. */
  dropPool(pool: number): Promise<void>
  /** Waits for the running transaction, closes, ends the thread. */
  stop(): Promise<void>
}
