/** Main thread ↔ export thread, and what the export stage asks of the others. */
import type { ColumnType } from '../batch/plan.ts'
import type { WireError } from '../errors.ts'
import type { QuerySegment } from '../query/protocol.ts'

/** A column of an answer. */
export interface ExportColumn {
  readonly name: string
  readonly type: ColumnType
}

/** A file of Arrow record batches: messages of the IPC stream format, without schema and end. */
export interface CopiedFile {
  readonly file: string
  readonly rows: number
}

/** Writes the selected live rows of some segments to a new temporary file; leaves none where it rejects. */
export type CopySegments = (segments: readonly QuerySegment[]) => Promise<CopiedFile>

/** One file as Arrow record batches, each a whole message. */
export interface BatchSource {
  /**
   * undefined: that was all. The bytes stay as they are until the next call, which uses their memory again. Rejects with
   * Damaged where the file does not hold what was copied.
   * @param room memory that came from here and was moved away since; moved back
   */
  next(room?: ArrayBuffer): Promise<Uint8Array | undefined>
  /** Gives up the file. Called once, at any time that no next() runs. */
  close(): Promise<void>
}

/** Opens files as batches; the file is unlinked as soon as it is open, or cannot be opened. */
export type OpenBatches = (copied: CopiedFile) => Promise<BatchSource>

export type ToExport =
  | { readonly kind: 'open'; readonly id: number; readonly copied: CopiedFile }
  /** `room`: the last batch's memory, moved back. */
  | { readonly kind: 'next'; readonly id: number; readonly room: ArrayBuffer | undefined }
  | { readonly kind: 'close'; readonly id: number }
  /** The message that begins a stream of these columns. */
  | { readonly kind: 'schema'; readonly id: number; readonly columns: readonly ExportColumn[] }
  | { readonly kind: 'stop' }

/** Answers come in the order of the questions of one id. */
export type FromExport =
  | { readonly kind: 'done'; readonly id: number; readonly bytes: Uint8Array | undefined }
  | { readonly kind: 'failed'; readonly id: number; readonly error: WireError }
