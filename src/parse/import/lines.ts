/**
 * NDJSON as rows: one JSON object a line. A line ends with LF or CRLF, the last one also with the
 * body. Blank lines are no rows. A byte order mark at the beginning of the body is dropped.
 *
 * A body whose first row has the property `_service_payload` is an export of a pool: the payloads
 * are its rows.
 *
 *   W-9  Of a line that is too long only its length is known.
 */
import { PAYLOAD } from '../../format/schema.ts'
import { IMPORT_ROW_BYTES_MAX } from '../../util/limits.ts'
import { JsonScan } from '../json-scan.ts'
import type { RowBatch } from './import-types.ts'
import type { RowBatches } from './row-batches.ts'

const LF = 0x0a
const CR = 0x0d
const COMMA = 0x2c
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** Turns the decoded pieces of a body into batches of rows. */
export interface RowReader {
  /** Decoded bytes so far. */
  readonly bytes: number
  /** Reads a piece; yields each batch that is full. */
  read(piece: Uint8Array): Generator<RowBatch, void, void>
  /** The body is damaged here: yields the rows that were read. */
  flush(): Generator<RowBatch, void, void>
  /** The body is complete: reads what is left, and yields the last batches. */
  end(): Generator<RowBatch, void, void>
}

export class LineReader implements RowReader {
  readonly #batches: RowBatches
  /** The beginning of a line whose end has not come. */
  #held: Buffer = Buffer.allocUnsafeSlow(64 * 1024)
  #heldBytes = 0
  /** The line is too long; its bytes are dropped. */
  #isTooLong = false
  /** Bytes of the body before the piece that is read, and before the line. */
  #bytesBefore = 0
  #lineStart = 0
  #lines = 0
  /** The body is an export of a pool: its first row has a payload. undefined: no row has come. */
  #isExport: boolean | undefined
  readonly #payload = new PayloadFinder()
  /** Bytes of the byte order mark that have come; -1: the body has none, or it is behind. */
  #markBytes = 0

  constructor(batches: RowBatches) {
    this.#batches = batches
  }

  get bytes(): number {
    return this.#bytesBefore
  }

  *read(piece: Uint8Array): Generator<RowBatch, void, void> {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    let from = this.#markBytes < 0 ? 0 : this.#skipMark(bytes)
    for (;;) {
      const end = bytes.indexOf(LF, from)
      if (end < 0) break
      if (this.#heldBytes === 0 && !this.#isTooLong) yield* this.#line(bytes, from, end)
      else {
        this.#hold(bytes, from, end)
        yield* this.#endHeld()
      }
      from = end + 1
      this.#lineStart = this.#bytesBefore + from
    }
    this.#hold(bytes, from, bytes.length)
    this.#bytesBefore += bytes.length
  }

  *flush(): Generator<RowBatch, void, void> {
    if (this.#batches.hasRows) yield this.#batches.take(this.#lineStart)
  }

  *end(): Generator<RowBatch, void, void> {
    if (this.#markBytes > 0) this.#hold(MARK, 0, this.#markBytes)
    if (this.#heldBytes > 0 || this.#isTooLong) yield* this.#endHeld()
    this.#lineStart = this.#bytesBefore
    yield* this.flush()
  }

  /** Drops a byte order mark, which may come in several pieces. */
  #skipMark(bytes: Buffer): number {
    let at = 0
    while (at < bytes.length && this.#markBytes >= 0 && this.#markBytes < MARK.length) {
      if (bytes[at] === MARK[this.#markBytes]) {
        this.#markBytes += 1
        at += 1
      } else {
        this.#hold(MARK, 0, this.#markBytes) // a part of the mark is a line's beginning
        this.#markBytes = -1
      }
    }
    if (this.#markBytes === MARK.length) this.#markBytes = -1
    return at
  }

  #hold(bytes: Buffer, from: number, to: number): void {
    if (this.#isTooLong || from === to) return
    const end = this.#heldBytes + to - from
    // A line of the maximum may be followed by a CR.
    if (end > IMPORT_ROW_BYTES_MAX + 1) {
      this.#isTooLong = true
      this.#heldBytes = 0
      return
    }
    if (end > this.#held.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.#held.length))
      grown.set(this.#held.subarray(0, this.#heldBytes))
      this.#held = grown
    }
    this.#held.set(bytes.subarray(from, to), this.#heldBytes)
    this.#heldBytes = end
  }

  *#endHeld(): Generator<RowBatch, void, void> {
    const bytes = this.#heldBytes
    this.#heldBytes = 0
    if (this.#isTooLong) {
      this.#isTooLong = false
      this.#lines += 1
      yield* this.#refuseTooLong()
    } else yield* this.#line(this.#held, 0, bytes)
  }

  /** Takes the line in bytes [from, to). */
  *#line(bytes: Buffer, from: number, to: number): Generator<RowBatch, void, void> {
    this.#lines += 1
    const end = to > from && bytes[to - 1] === CR ? to - 1 : to
    if (isBlank(bytes, from, end)) return
    const batches = this.#batches
    this.#isExport ??= this.#payload.find(bytes, from, end) === 'found'
    if (batches.isSkipping) {
      batches.skip()
      return
    }
    if (this.#isExport) {
      yield* this.#exported(bytes, from, end)
      return
    }
    if (end - from > IMPORT_ROW_BYTES_MAX) {
      yield* this.#refuseTooLong()
      return
    }
    if (batches.isFull(end - from)) yield batches.take(this.#lineStart)
    batches.add(bytes, from, end, this.#lines)
  }

  /** Takes a line of an export: its payload is the row. */
  *#exported(bytes: Buffer, from: number, to: number): Generator<RowBatch, void, void> {
    const batches = this.#batches
    const payload = this.#payload
    const found = payload.find(bytes, from, to)
    const length = payload.to - payload.from
    if (batches.isFull(found === 'found' ? length : 0)) yield batches.take(this.#lineStart)
    if (found === 'found') batches.add(payload.bytes, payload.from, payload.to, this.#lines)
    else batches.refuse(found, this.#lines)
  }

  *#refuseTooLong(): Generator<RowBatch, void, void> {
    const batches = this.#batches
    if (batches.isSkipping) {
      batches.skip()
      return
    }
    if (batches.isFull(0)) yield batches.take(this.#lineStart)
    batches.refuse('row_too_long', this.#lines)
  }
}

const MARK = Buffer.from([0xef, 0xbb, 0xbf])

function isBlank(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at]
    if (byte !== 0x20 && byte !== 0x09 && byte !== CR) return false
  }
  return true
}

const PAYLOAD_KEY = Buffer.from(`"${PAYLOAD}"`)

/** Finds the payload in a line of an export. */
class PayloadFinder {
  readonly #scan = new JsonScan()
  /** The payload is bytes [from, to) of `bytes`. */
  from = 0
  to = 0

  get bytes(): Uint8Array {
    return this.#scan.bytes
  }

  /** Looks for it in the object in bytes [from, to). A code says why it is not there. */
  find(bytes: Buffer, from: number, to: number): 'found' | 'not_json' | 'no_payload' {
    const scan = this.#scan
    if (!scan.load(bytes, from, to - from) || scan.skipSpace() !== OPEN_OBJECT || !scan.enter())
      return 'not_json'
    let isFound = false
    while (scan.skipSpace() !== CLOSE_OBJECT) {
      const key = scan.pos
      if (!scan.skipKey()) return 'not_json'
      const isPayload = PAYLOAD_KEY.compare(scan.bytes, key, key + PAYLOAD_KEY.length) === 0
      const value = scan.pos
      if (!scan.skipValue()) return 'not_json'
      if (isPayload) {
        isFound = true
        this.from = value
        this.to = scan.pos
      }
      if (scan.skipSpace() === CLOSE_OBJECT) break
      if (scan.bytes[scan.pos] !== COMMA) return 'not_json'
      scan.pos += 1
      if (scan.skipSpace() === CLOSE_OBJECT) return 'not_json'
    }
    scan.leave()
    scan.skipSpace()
    if (scan.pos !== scan.end) return 'not_json'
    return isFound ? 'found' : 'no_payload'
  }
}
