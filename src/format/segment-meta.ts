/** What the index and the manifest say of one segment. */

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
  readonly schemaVersion: number
  /** Sequences of the rows and deletes of the flush(s) it stands for. */
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
