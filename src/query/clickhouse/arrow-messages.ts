/**
 * The messages of an answer in the format ArrowStream, each whole.
 *
 *   W-8  They end without an error only where the answer ends with Arrow's end mark. ClickHouse
 *        writes an exception into an answer that has begun, at the place of the next message.
 *   W-9  One message is in memory. ClickHouse makes them of blocks, which it bounds.
 */
import { MESSAGE_HEAD_BYTES, messageParts, metadataBytes } from '../../format/arrow.ts'
import { Unavailable } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'
import { ClickHouseError } from './http.ts'

/** Far more than a block of ClickHouse, and than the names of 10,000 columns. */
const MESSAGE_BYTES_MAX = 1024 * MiB
const METADATA_BYTES_MAX = 16 * MiB
/** Of an answer that is not whole: ClickHouse says at its end why. */
const WHY_BYTES = 2_000

export interface ArrowMessage {
  /** See HEADER. */
  readonly header: number
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** Rejects as the chunks do, with ClickHouseError, and with Unavailable for a part of an answer. */
export async function* arrowMessages(
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<ArrowMessage, void, void> {
  // The message that comes, with room for what is known of it: its head, its metadata, then all.
  let bytes = newRoom(MESSAGE_HEAD_BYTES)
  let filled = 0
  let isEnded = false
  for await (let chunk of chunks)
    while (chunk.length > 0) {
      const part = chunk.subarray(0, bytes.length - filled)
      bytes.set(part, filled)
      filled += part.length
      chunk = chunk.subarray(part.length)
      if (filled < bytes.length) continue
      const { length, header } = inspect(bytes)
      if (length > filled) {
        const room = newRoom(length)
        room.set(bytes)
        bytes = room
        continue
      }
      if (isEnded) throw brokenAnswer(bytes)
      if (length === 0) isEnded = true
      else yield { header, bytes }
      bytes = newRoom(MESSAGE_HEAD_BYTES)
      filled = 0
    }
  if (!isEnded || filled > 0) throw brokenAnswer(bytes.subarray(0, filled))
}

/** Why an answer ended early, as its last bytes say. */
export function brokenAnswer(last: Uint8Array): Error {
  const text = Buffer.from(last.subarray(0, WHY_BYTES)).toString()
  const code = /Code: (\d{1,6})\. DB::/.exec(text)?.[1]
  return code === undefined
    ? new Unavailable('cluster', 'the answer of ClickHouse was cut off')
    : new ClickHouseError(Number(code), text.slice(text.indexOf('Code: ')))
}

/** Memory of its own, which can be moved. It is not cleared. */
function newRoom(bytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer)
}

/** The length of the message that begins so, as far as its beginning tells. The end mark has 0. */
function inspect(begin: Uint8Array): { readonly length: number; readonly header: number } {
  const metadata = metadataBytes(begin)
  if (metadata === 0) return { length: 0, header: 0 }
  if (metadata === undefined || metadata > METADATA_BYTES_MAX) {
    // No message: what stands here says why.
    if (begin.length >= WHY_BYTES) throw brokenAnswer(begin)
    return { length: WHY_BYTES, header: 0 }
  }
  const bodyAt = MESSAGE_HEAD_BYTES + metadata
  if (begin.length < bodyAt) return { length: bodyAt, header: 0 }
  const { header, bodyBytes } = messageParts(begin.subarray(MESSAGE_HEAD_BYTES, bodyAt))
  if (bodyBytes < 0 || bodyBytes > MESSAGE_BYTES_MAX)
    throw new Unavailable('cluster', `ClickHouse sent a block of ${bodyBytes} bytes`)
  return { length: bodyAt + bodyBytes, header }
}
