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
  const ahead = new BytesAhead()
  let isEnded = false
  for await (const chunk of chunks) {
    ahead.add(chunk)
    for (let found = nextMessage(ahead); found !== undefined; found = nextMessage(ahead)) {
      if (isEnded) throw brokenAnswer(ahead.first(WHY_BYTES))
      if (found === 'end') isEnded = true
      else yield found
    }
  }
  if (!isEnded || ahead.length > 0) throw brokenAnswer(ahead.first(WHY_BYTES))
}

/** Why an answer ended early, as its last bytes say. */
export function brokenAnswer(last: Uint8Array): Error {
  const text = Buffer.from(last).toString()
  const code = /Code: (\d{1,6})\. DB::/.exec(text)?.[1]
  return code === undefined
    ? new Unavailable('cluster', 'the answer of ClickHouse was cut off')
    : new ClickHouseError(Number(code), text.slice(text.indexOf('Code: ')))
}

/** The next message; undefined where more bytes are needed. */
function nextMessage(ahead: BytesAhead): ArrowMessage | 'end' | undefined {
  if (ahead.length < MESSAGE_HEAD_BYTES) return undefined
  const length = metadataBytes(ahead.first(MESSAGE_HEAD_BYTES))
  if (length === 0) {
    ahead.take(MESSAGE_HEAD_BYTES)
    return 'end'
  }
  if (length === undefined || length > METADATA_BYTES_MAX) {
    if (ahead.length >= WHY_BYTES) throw brokenAnswer(ahead.first(WHY_BYTES))
    return undefined
  }
  const bodyAt = MESSAGE_HEAD_BYTES + length
  if (ahead.length < bodyAt) return undefined
  const { header, bodyBytes } = messageParts(ahead.first(bodyAt).subarray(MESSAGE_HEAD_BYTES))
  if (bodyBytes < 0 || bodyBytes > MESSAGE_BYTES_MAX)
    throw new Unavailable('cluster', `ClickHouse sent a block of ${bodyBytes} bytes`)
  if (ahead.length < bodyAt + bodyBytes) return undefined
  return { header, bytes: ahead.take(bodyAt + bodyBytes) }
}

class BytesAhead {
  length = 0
  #chunks: Buffer[] = []

  add(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.length += chunk.length
  }

  /** A copy of the first bytes: at most `count`. */
  first(count: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(Buffer.allocUnsafeSlow(Math.min(count, this.length)).buffer)
    let at = 0
    for (const chunk of this.#chunks) {
      if (at === bytes.length) break
      const part = chunk.subarray(0, bytes.length - at)
      bytes.set(part, at)
      at += part.length
    }
    return bytes
  }

  /** The same, which are removed. */
  take(count: number): Uint8Array<ArrayBuffer> {
    const bytes = this.first(count)
    let rest = count
    const kept = this.#chunks.findIndex(chunk => {
      if (rest < chunk.length) return true
      rest -= chunk.length
      return false
    })
    this.#chunks = kept < 0 ? [] : this.#chunks.slice(kept)
    if (rest > 0 && this.#chunks[0] !== undefined) this.#chunks[0] = this.#chunks[0].subarray(rest)
    this.length -= count
    return bytes
  }
}
