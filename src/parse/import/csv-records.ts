/**
 * Splits CSV (RFC 4180) into records and their fields, byte by byte, over borders of pieces.
 *
 *   field start ──"──► quoted ──"──► after quote ──"──► quoted (an escaped quote)
 *        └─ other ──► plain            └── , LF CRLF ──► the field ends
 *
 * Records end with LF or CRLF. A quote inside a plain field is a character of it. Bytes between a
 * closing quote and the next comma make the record malformed.
 *
 * A body that ends inside quotes has no last record: one unclosed quote would take all rows behind
 * it for one field.
 *
 *   W-9  Of a record that is too long no bytes are kept.
 */

import { BodyBroken } from '../../util/errors.ts'
import { IMPORT_ROW_BYTES_MAX } from '../../util/limits.ts'
import { COMMA, CR, LF, QUOTE } from '../characters.ts'
import { BYTE_ORDER_MARK } from './import-types.ts'

const FIELD_START = 0
const PLAIN = 1
const QUOTED = 2
const AFTER_QUOTE = 3
const AFTER_QUOTE_CR = 4

/** How a field was written. */
export const QUOTES = { none: 0, plain: 1, escaped: 2 } as const

/** Why a record is refused, or undefined where it is well-formed. */
export type RecordProblem = 'row_too_long' | 'bad_quotes' | undefined

/** Splits the pieces that it is given. What it says of a record is valid until the next call. */
export class CsvRecords {
  /** The field at index `f` is bytes [fields[3f], fields[3f + 1]) of `bytes`. */
  bytes: Buffer = Buffer.allocUnsafeSlow(512 * 1024)
  /** Start, end and a value of QUOTES for each field. */
  fields = new Int32Array(3 * 256)
  fieldCount = 0
  problem: RecordProblem
  /** The line on which the record begins. */
  line = 1
  /** Bytes of the body before the record. */
  start = 0
  /** Bytes of the body up to the end of the record. */
  end = 0
  /** The bytes of `bytes` that hold the record and what follows it. */
  #from = 0
  #to = 0
  #at = 0
  #state = FIELD_START
  #fieldFrom = 0
  #hasEscapes = false
  #lines = 0
  /** The line of the last quote that opened a field. */
  #quoteLine = 0
  #isTooLong = false
  /** Bytes of the body before `bytes[0]`. */
  #before = 0
  #isDone = true
  /** The body's first bytes were inspected for a byte order mark. */
  #isMarkChecked = false

  /** Bytes given so far. */
  get given(): number {
    return this.#before + this.#to
  }

  /** Adds a piece of the body, when next() has found no further record. */
  give(piece: Uint8Array): void {
    if (this.#isTooLong) this.#dropTo(this.#at)
    else if (this.#to + piece.byteLength > this.bytes.length) this.#dropTo(this.#from)
    const needed = this.#to + piece.byteLength
    if (needed > this.bytes.length) {
      const grown = Buffer.allocUnsafeSlow(2 * needed)
      grown.set(this.bytes.subarray(0, this.#to))
      this.bytes = grown
    }
    this.bytes.set(piece, this.#to)
    this.#to = needed
  }

  /** Forgets the bytes before `at`. */
  #dropTo(at: number): void {
    this.bytes.copyWithin(0, at, this.#to)
    this.#before += at
    this.#to -= at
    this.#at -= at
    this.#from = Math.max(0, this.#from - at)
    this.#fieldFrom = Math.max(0, this.#fieldFrom - at)
    for (let index = 0; index < 3 * this.fieldCount; index += 3) {
      this.fields[index]! -= at
      this.fields[index + 1]! -= at
    }
  }

  /** Finds the next record that ends in the given bytes. */
  next(): boolean {
    if (!this.#isMarkChecked && !this.#skipMark(false)) return false
    this.#begin()
    const { bytes } = this
    const to = this.#to
    let at = this.#at
    let state = this.#state
    while (at < to) {
      const byte = bytes[at]!
      at += 1
      if (state === PLAIN) {
        if (byte !== COMMA && byte !== LF) continue
        this.#endField(at - 1, QUOTES.none)
        if (byte === LF) return this.#endRecord(at)
        state = FIELD_START
        this.#fieldFrom = at
      } else if (state === QUOTED) {
        if (byte === QUOTE) state = AFTER_QUOTE
        else if (byte === LF) this.#lines += 1
      } else if (state === FIELD_START) {
        if (byte === QUOTE) {
          state = QUOTED
          this.#quoteLine = this.#lines + 1
          this.#hasEscapes = false
          this.#fieldFrom = at
        } else if (byte === COMMA) {
          this.#endField(at - 1, QUOTES.none)
          this.#fieldFrom = at
        } else if (byte === LF) {
          this.#endField(at - 1, QUOTES.none)
          return this.#endRecord(at)
        } else state = PLAIN
      } else if (byte === QUOTE && state === AFTER_QUOTE) {
        this.#hasEscapes = true
        state = QUOTED
      } else if (byte === LF || (byte === COMMA && state === AFTER_QUOTE)) {
        this.#endField(at - (state === AFTER_QUOTE ? 2 : 3), this.#hasEscapes ? QUOTES.escaped : QUOTES.plain)
        if (byte === LF) return this.#endRecord(at)
        state = FIELD_START
        this.#fieldFrom = at
      } else if (byte === CR && state === AFTER_QUOTE) state = AFTER_QUOTE_CR
      else {
        this.problem ??= 'bad_quotes'
        state = PLAIN
      }
    }
    this.#at = at
    this.#state = state
    if (!this.#isTooLong && at - this.#from > IMPORT_ROW_BYTES_MAX + 1) {
      this.#isTooLong = true
      this.fieldCount = 0
    }
    return false
  }

  /** Ends the last record, if there is one. @throws BodyBroken the body ends inside quotes */
  last(): boolean {
    if (!this.#isMarkChecked) this.#skipMark(true)
    this.#begin()
    if (!this.#isTooLong && this.#at === this.#from) return false
    if (this.#state === QUOTED)
      throw new BodyBroken(
        'unclosed_quote',
        `the file ends inside quotes, which were opened in line ${this.#quoteLine}`,
      )
    const behind = this.#state === AFTER_QUOTE ? 1 : this.#state === AFTER_QUOTE_CR ? 2 : 0
    const quotes = behind === 0 ? QUOTES.none : this.#hasEscapes ? QUOTES.escaped : QUOTES.plain
    this.#endField(this.#to - behind, quotes)
    return this.#endRecord(this.#to)
  }

  /** Drops a byte order mark. Returns false where it may come yet. */
  #skipMark(isEnd: boolean): boolean {
    const first = this.bytes.subarray(0, Math.min(this.#to, BYTE_ORDER_MARK.length))
    const isPart = first.equals(BYTE_ORDER_MARK.subarray(0, first.length))
    if (isPart && first.length < BYTE_ORDER_MARK.length && !isEnd) return false
    if (isPart && first.length === BYTE_ORDER_MARK.length) this.#at = BYTE_ORDER_MARK.length
    this.#isMarkChecked = true
    return true
  }

  #begin(): void {
    if (!this.#isDone) return
    this.#isDone = false
    this.fieldCount = 0
    this.problem = undefined
    this.#state = FIELD_START
    this.#from = this.#at
    this.#fieldFrom = this.#at
    this.line = this.#lines + 1
    this.start = this.#before + this.#from
  }

  #endField(end: number, quotes: number): void {
    if (this.#isTooLong) return
    const index = 3 * this.fieldCount
    if (index + 3 > this.fields.length) {
      const grown = new Int32Array(2 * this.fields.length)
      grown.set(this.fields)
      this.fields = grown
    }
    this.fields[index] = this.#fieldFrom
    this.fields[index + 1] = end
    this.fields[index + 2] = quotes
    this.fieldCount += 1
  }

  #endRecord(at: number): true {
    this.#at = at
    this.#lines += 1
    this.#isDone = true
    this.end = this.#before + at
    if (this.#isTooLong || at - this.#from > IMPORT_ROW_BYTES_MAX + 2) this.problem = 'row_too_long'
    this.#isTooLong = false
    this.#dropCr()
    return true
  }

  /** A CR before the LF is no part of a plain field. */
  #dropCr(): void {
    const last = 3 * (this.fieldCount - 1)
    if (this.fieldCount === 0 || this.fields[last + 2] !== QUOTES.none) return
    const end = this.fields[last + 1]!
    if (end > this.fields[last]! && this.bytes[end - 1] === CR) this.fields[last + 1] = end - 1
  }
}
