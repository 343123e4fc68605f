/** Main thread ↔ export thread, and what the export stage asks of the others. */
import type { ColumnType } from '../../format/schema.ts'
import type { QuerySegment } from '../../index/index-types.ts'

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

/**
 * Writes the selected live rows of some segments to a new temporary file; leaves none where it
 * rejects.
 */
export type CopySegments = (segments: readonly QuerySegment[]) => Promise<CopiedFile>

/** One file as Arrow record batches, each a whole message. */
export interface BatchSource {
  /**
   * undefined: that was all. The bytes stay as they are until the next call, which uses their
   * memory again. Rejects with Damaged where the file does not hold what was copied.
   * @param room memory that came from here and was moved away since; moved back
   */
  next(room?: ArrayBuffer): Promise<Uint8Array | undefined>
  /** Gives up the file. Called once, at any time that no next() runs. */
  close(): Promise<void>
}

/** Opens files as batches; the file is unlinked as soon as it is open, or cannot be opened. */
export type OpenBatches = (copied: CopiedFile) => Promise<BatchSource>

/** What the main thread asks of the export thread. */
export interface ExportCalls {
  /** Returns the number that the other calls name the file by. */
  open(copied: CopiedFile): number
  /**
   * The next batch, moved. `room`: the memory of the batch before, moved back. One call of a file
   * at a time.
   */
  next(from: { readonly file: number; readonly room: ArrayBuffer | undefined }): Uint8Array | undefined
  close(file: number): void
  /** The message that begins a stream of these columns. */
  schema(columns: readonly ExportColumn[]): Uint8Array
}
