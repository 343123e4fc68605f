/**
 * Arrow's type of each column type, and the frame of Arrow's IPC stream format.
 *
 * A message of a stream is: marker, length of its metadata, metadata, body. A length of 0 ends the
 * stream. This file does not load apache-arrow: the segment thread writes frames without it.
 */
import type * as Arrow from 'apache-arrow'
import { COLUMN_TYPE, type ColumnType } from './schema.ts'

/** The Arrow type of a column type. Classes differ between two loads of apache-arrow. */
export function arrowType(
  arrow: Pick<typeof Arrow, (typeof COLUMN_TYPE)[ColumnType]['arrow']>,
  type: ColumnType,
): Arrow.DataType {
  const Type = arrow[COLUMN_TYPE[type].arrow] as unknown as new (timezone: string) => Arrow.DataType
  return new Type('UTC') // only a timestamp takes an argument
}

const MARKER = 0xffffffff
/** Bytes of marker and length. */
export const MESSAGE_HEAD_BYTES = 8
export const END_OF_STREAM = new Uint8Array([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])

/** A message's metadata as it stands in a stream: with its head, padded to a multiple of 8. */
export function envelope(metadata: Uint8Array): Uint8Array {
  const padded = Math.ceil(metadata.length / 8) * 8
  const bytes = new Uint8Array(MESSAGE_HEAD_BYTES + padded)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, MARKER, true)
  view.setUint32(4, padded, true)
  bytes.set(metadata, MESSAGE_HEAD_BYTES)
  return bytes
}

/** Bytes of the metadata of the message that begins with `head`; undefined for none. */
export function metadataBytes(head: Uint8Array): number | undefined {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength)
  return view.getUint32(0, true) === MARKER ? view.getUint32(4, true) : undefined
}

/** The kind of a message and the bytes of its body. */
export interface MessageParts {
  /** See HEADER. */
  readonly header: number
  readonly bodyBytes: number
}

/** Of Schema.fbs: the union MessageHeader. */
export const HEADER = { schema: 1, recordBatch: 3 } as const
/** Where the fields header_type and bodyLength of a message stand in its table. */
const [HEADER_FIELD, BODY_FIELD] = [1, 3]

/**
 * Reads the metadata of a message, a flatbuffer. Throws RangeError where it is none.
 * https://github.com/apache/arrow/blob/main/format/Message.fbs
 */
export function messageParts(metadata: Uint8Array): MessageParts {
  const view = new DataView(metadata.buffer, metadata.byteOffset, metadata.byteLength)
  const table = view.getUint32(0, true)
  const fields = table - view.getInt32(table, true)
  const place = (field: number) => {
    const at = 4 + 2 * field
    const offset = at < view.getUint16(fields, true) ? view.getUint16(fields + at, true) : 0
    return offset === 0 ? undefined : table + offset
  }
  const [header, body] = [place(HEADER_FIELD), place(BODY_FIELD)]
  return {
    header: header === undefined ? 0 : view.getUint8(header),
    bodyBytes: body === undefined ? 0 : Number(view.getBigInt64(body, true)),
  }
}
