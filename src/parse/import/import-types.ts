/**
 * The messages between the main thread and the thread of one import. The thread inflates the body,
 * splits it into rows, and packs rows as bodies of POST: JSON arrays within EVENTS_MAX and
 * BODY_BYTES_MAX.
 *
 *   open(options) · give(piece) … end() · next() → batch … → end, or BodyBroken
 *
 * A *row* is a line of NDJSON that is not empty, a record of CSV, or a row of Parquet. Rows and
 * lines are counted from 1.
 */

import type { SchemaColumn } from '../../format/schema.ts'
import type { FieldComparison } from './compare-fields.ts'
import type { Naming } from './naming.ts'

export const IMPORT_FORMATS = ['ndjson', 'csv', 'parquet'] as const
export type ImportFormat = (typeof IMPORT_FORMATS)[number]

export const ENCODINGS = ['identity', 'gzip', 'zstd'] as const
export type Encoding = (typeof ENCODINGS)[number]

export interface ImportOptions {
  readonly format: ImportFormat
  readonly encoding: Encoding
  /** The first rows of the body are left out: they are stored already. */
  readonly skipRows: number
  /** Refused rows that are reported with their place; further ones are counted. */
  readonly errorsMax: number
  /** The columns of the pool: CSV and Parquet are converted by them. */
  readonly columns: readonly SchemaColumn[]
  readonly naming: Naming
  /** A file of its own for a body that is read as a whole. */
  readonly spoolFile: string
}

/** A row that was refused before it became an event. */
export interface BadRow {
  readonly row: number
  readonly line: number
  readonly code: string
  /** The column of the file; null where the row as a whole is wrong. */
  readonly column: string | null
  readonly message: string
}

/** Rows of the body in their order, as one body of POST. */
export interface RowBatch {
  /** A JSON array; empty where every row was refused. The receiver owns its memory. */
  readonly body: Uint8Array
  /** Row and line of each event of the body: two numbers an event. */
  readonly places: Float64Array
  /** The first refused rows of the import. */
  readonly refused: readonly BadRow[]
  /** All refused rows of this batch, by code. */
  readonly refusedBy: ReadonlyMap<string, number>
  /** Rows of the body up to the end of this batch, with those left out and refused. */
  readonly rows: number
  /** Bytes of the decoded body up to the end of this batch; 0 for Parquet. */
  readonly bytes: number
  /** Given where it is another one than before. */
  readonly compared?: FieldComparison
}

/** The end of a body: its rows, and its decoded bytes. */
export interface Done {
  readonly rows: number
  readonly bytes: number
  readonly compared?: FieldComparison
}

export type NextAnswer = { readonly batch: RowBatch } | { readonly done: Done }

export interface ImportCalls {
  /** The first call. */
  open(options: ImportOptions): void
  /** The next bytes of the body, moved. Resolves when there is room for more. */
  give(piece: Uint8Array): void
  /** The body is complete. */
  end(): void
  /**
   * The next batch, or the end. Rejects with BodyBroken after all rows before the damage.
   * @param room memory of an earlier batch that was moved to the caller, and is moved back
   */
  next(room: ArrayBuffer | undefined): NextAnswer
}

/** In place of the length of a Parquet row's event that is too long and is not made. */
export const TOO_LONG = -1

/** Follows the words of DuckDB or V8 where the memory does not hold the rows of a file. */
export const PARQUET_SMALLER = ': write it with fewer rows in a row group, or with fewer columns'

/** A body of text may begin with it. It is no part of the first row. */
export const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])
