/**
 * The frame of Arrow's IPC stream format: each message is marker, length of its metadata, metadata, body; a length of 0 ends the
 * stream. Without apache-arrow: the segment thread writes frames and does not load it.
 */

const MARKER = 0xffffffff
/** Marker and length. */
export const MESSAGE_HEAD_BYTES = 8
export const END_OF_STREAM = new Uint8Array([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])

/** A message's metadata as it stands in a stream: with its head, and padded to a multiple of 8. */
export function envelope(metadata: Uint8Array): Uint8Array {
  const padded = Math.ceil(metadata.length / 8) * 8
  const bytes = new Uint8Array(MESSAGE_HEAD_BYTES + padded)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, MARKER, true)
  view.setUint32(4, padded, true)
  bytes.set(metadata, MESSAGE_HEAD_BYTES)
  return bytes
}

/** Bytes of the metadata of the message that begins with `head`; undefined: none does. */
export function metadataBytes(head: Uint8Array): number | undefined {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength)
  return view.getUint32(0, true) === MARKER ? view.getUint32(4, true) : undefined
}
