/**
 * A validating JSON scanner over bytes. It builds nothing. It finds the place and the kind of each
 * value. It refuses every document that is not JSON by RFC 8259, nests too deep, or holds one half
 * of a surrogate pair or a number beyond f64.
 *
 * The body is copied once into a private buffer with zeros behind it. A zero is never legal outside
 * or inside a string, so no loop below needs to compare its position with the end. UTF-8 is checked
 * first, for the whole body. After that no step inspects bytes above 0x7f.
 */

import { isUtf8 } from 'node:buffer'
import { DEPTH_MAX } from '../util/limits.ts'
import { BACKSLASH, COMMA, LOWER_U, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './characters.ts'
import { DOCUMENT, EXPECTED, FOUND, refusalWord } from './event-error.ts'
import { hex4 } from './unescape.ts'

const COLON = 0x3a
const ZERO = 0x30
const HEX_DIGIT = /[0-9a-f]/i

/** Zeros behind the body: the longest look-ahead is an escaped surrogate pair. */
const PAD_BYTES = 16

/** 1 where a run of plain string bytes ends: the quote, the backslash, control characters. */
const ENDS_RUN = new Uint8Array(256)
ENDS_RUN.fill(1, 0, 0x20)
ENDS_RUN[QUOTE] = 1
ENDS_RUN[BACKSLASH] = 1

/** 1 for each byte that may follow a backslash, except `u`. */
const SIMPLE_ESCAPE = new Uint8Array(256)
for (const c of '"\\/bfnrt') SIMPLE_ESCAPE[c.charCodeAt(0)] = 1

/** A number with fewer integer digits than this and no exponent is surely finite in f64. */
const DIGITS_SURELY_FINITE = 308

/**
 * The bytes of a text without the byte order mark before the first one. It is no part of a body
 * (docs/contract.md). What reads bodies drops it before a scan sees them: a second one is refused.
 */
export function withoutMark(bytes: Uint8Array): Uint8Array {
  return startsWithMark(bytes) ? bytes.subarray(3) : bytes
}

function startsWithMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
}

/** Scans one document at a time. Methods that return a boolean say whether the scan may go on. */
export class JsonScan {
  /** The body, with zeros behind it. Replaced when a larger one comes. */
  bytes: Buffer = Buffer.alloc(64 * 1024)
  /** Bytes of the body. */
  end = 0
  pos = 0
  /** Containers open at `pos`. */
  depth = 0
  /** The reason why the scan stopped, one of DOCUMENT. */
  document: number = DOCUMENT.ok
  /** Where it stopped, or -1 where that is not known. */
  stoppedAt = -1
  /** The token that JSON requires where the scan stopped, one of EXPECTED. */
  expected: number = EXPECTED.nothing
  /** The kind of the last value, one of FOUND. */
  found: number = FOUND.nothing
  /** 1 where the last string or key has escapes, or the last number a fraction or an exponent. */
  mark = 0
  readonly #open = new Uint8Array(DEPTH_MAX + 1)

  /** Takes a body over; false where its first bytes or its encoding already refuse it. */
  load(slab: Uint8Array, offset: number, length: number): boolean {
    if (this.bytes.length < length + PAD_BYTES) this.bytes = Buffer.alloc(2 * length + PAD_BYTES)
    const bytes = this.bytes
    bytes.set(slab.subarray(offset, offset + length), 0)
    bytes.fill(0, length, length + PAD_BYTES)
    this.end = length
    this.pos = 0
    this.depth = 0
    this.document = DOCUMENT.ok
    this.stoppedAt = -1
    if (startsWithMark(bytes)) return this.#refuse(DOCUMENT.bom)
    if (!isUtf8(bytes.subarray(0, length))) return this.#refuse(DOCUMENT.invalid_utf8)
    return true
  }

  /** Refuses the document as not JSON. Always false, so that callers can return it. */
  refuseGrammar(expected: number, at = this.pos): boolean {
    return this.#refuse(DOCUMENT.not_json, at, expected)
  }

  #refuse(document: number, at = -1, expected: number = EXPECTED.nothing): boolean {
    this.document = document
    this.stoppedAt = at
    this.expected = expected
    return false
  }

  /** The word of the refusal: what was expected, and what was found. */
  refusalWord(end = this.end): number {
    return refusalWord(this.expected, this.stoppedAt < end ? this.bytes[this.stoppedAt] : undefined)
  }

  /** Skips white space; returns the byte after it, 0 at the end. */
  skipSpace(): number {
    const bytes = this.bytes
    let pos = this.pos
    let byte = bytes[pos]!
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++pos]!
    this.pos = pos
    return byte
  }

  /** Enters the container whose bracket is at `pos`. */
  enter(): boolean {
    if (this.depth === DEPTH_MAX) return this.#refuse(DOCUMENT.too_deep, this.pos)
    this.#open[this.depth++] = this.bytes[this.pos++]!
    return true
  }

  /** Leaves the innermost container; its closing bracket is at `pos`. */
  leave(): void {
    this.depth--
    this.pos++
  }

  /** A key, its colon, and the space around them; `pos` then is where the value should begin. */
  skipKey(): boolean {
    if (this.skipSpace() !== QUOTE) return this.refuseGrammar(EXPECTED.key)
    return this.skipString() && this.skipColon()
  }

  /** The colon after a key, and the space around it. */
  skipColon(): boolean {
    if (this.skipSpace() !== COLON) return this.refuseGrammar(EXPECTED.colon)
    this.pos++
    this.skipSpace()
    return true
  }

  /** The string whose opening quote is at `pos`. */
  skipString(): boolean {
    const bytes = this.bytes
    let pos = this.pos + 1
    this.mark = 0
    for (;;) {
      while (ENDS_RUN[bytes[pos]!] === 0) pos++
      const byte = bytes[pos]
      if (byte === QUOTE) {
        this.pos = pos + 1
        return true
      }
      if (byte !== BACKSLASH) return this.refuseGrammar(pos < this.end ? EXPECTED.plain : EXPECTED.quote, pos)
      this.mark = 1
      if (SIMPLE_ESCAPE[bytes[pos + 1]!] === 1) pos += 2
      else pos = this.#unicodeEscape(pos)
      if (pos < 0) return false
    }
  }

  /** The position after the \u escape or pair at `pos`; negative where it is refused. */
  #unicodeEscape(pos: number): number {
    const bytes = this.bytes
    const unit = bytes[pos + 1] === LOWER_U ? hex4(bytes, pos + 2) : -1
    if (unit < 0) return this.#refuseEscape(pos)
    if (unit < 0xd800 || unit > 0xdfff) return pos + 6
    if (unit <= 0xdbff && bytes[pos + 6] === BACKSLASH && bytes[pos + 7] === LOWER_U) {
      const second = hex4(bytes, pos + 8)
      if (second >= 0xdc00 && second <= 0xdfff) return pos + 12
      if (second < 0) return this.#refuseEscape(pos + 6)
    }
    this.#refuse(DOCUMENT.unpaired_surrogate, pos)
    return -1
  }

  /** Refuses the escape at `pos`. Returns -1. */
  #refuseEscape(pos: number): number {
    const isUnicode = this.bytes[pos + 1] === LOWER_U
    let at = pos + 1
    if (isUnicode)
      do at += 1
      while (HEX_DIGIT.test(String.fromCharCode(this.bytes[at]!)))
    this.refuseGrammar(isUnicode ? EXPECTED.hex : EXPECTED.escape, at)
    return -1
  }

  /** The number that begins at `pos`. */
  skipNumber(): boolean {
    const bytes = this.bytes
    const start = this.pos
    let pos = start
    if (bytes[pos] === 0x2d) pos++
    const first = bytes[pos]! - ZERO
    if (!(first >= 0 && first <= 9))
      return this.refuseGrammar(pos === start ? EXPECTED.value : EXPECTED.digit, pos)
    pos++
    if (first > 0) pos = skipDigits(bytes, pos)
    const wholeEnd = pos
    let mark = 0
    if (bytes[pos] === 0x2e) {
      const from = pos + 1
      pos = skipDigits(bytes, from)
      if (pos === from) return this.refuseGrammar(EXPECTED.digit, pos)
      mark = 1
    }
    let exponent = false
    if ((bytes[pos]! | 0x20) === 0x65) {
      pos++
      if (bytes[pos] === 0x2b || bytes[pos] === 0x2d) pos++
      const from = pos
      pos = skipDigits(bytes, from)
      if (pos === from) return this.refuseGrammar(EXPECTED.digit, pos)
      mark = 1
      exponent = true
    }
    if (exponent || wholeEnd - start > DIGITS_SURELY_FINITE) {
      if (!Number.isFinite(Number(bytes.toString('latin1', start, pos))))
        return this.#refuse(DOCUMENT.number_out_of_range, start)
    }
    this.pos = pos
    this.mark = mark
    this.found = FOUND.number
    return true
  }

  /** Any value, to its end: sets `found` and `mark`. Containers are walked without recursion. */
  skipValue(): boolean {
    const byte = this.bytes[this.pos]!
    if (byte !== OPEN_OBJECT && byte !== OPEN_ARRAY) return this.#skipScalar(byte)
    if (!this.#skipContainer()) return false
    this.found = byte === OPEN_OBJECT ? FOUND.object : FOUND.array
    return true
  }

  #skipScalar(byte: number): boolean {
    if (byte === QUOTE) {
      this.found = FOUND.string
      return this.skipString()
    }
    if (byte === 0x74) return this.#word(0x7472_7565, 4, FOUND.boolean)
    if (byte === 0x6e) return this.#word(0x6e75_6c6c, 4, FOUND.null)
    if (byte === 0x66) {
      if (this.bytes[this.pos + 4] !== 0x65) return this.refuseGrammar(EXPECTED.word)
      return this.#word(0x6661_6c73, 5, FOUND.boolean)
    }
    return this.skipNumber()
  }

  /** true, false or null by its first four letters. */
  #word(letters: number, length: number, found: number): boolean {
    const bytes = this.bytes
    const at = this.pos
    const have = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!
    if (have !== letters) return this.refuseGrammar(EXPECTED.word)
    this.pos = at + length
    this.found = found
    return true
  }

  /** The container that begins at `pos`, with everything in it. */
  #skipContainer(): boolean {
    const outside = this.depth
    const bytes = this.bytes
    do {
      const byte = bytes[this.pos]!
      if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        if (!this.enter()) return false
        if (this.skipSpace() !== byte + 2) {
          if (byte === OPEN_OBJECT && !this.skipKey()) return false
          continue
        }
        this.leave()
      } else if (!this.#skipScalar(byte)) return false
      if (!this.#afterValue(outside)) return false
    } while (this.depth > outside)
    return true
  }

  /** Closes what ends here; then stands at the next value, or behind the outer container. */
  #afterValue(outside: number): boolean {
    while (this.depth > outside) {
      const byte = this.skipSpace()
      const inside = this.#open[this.depth - 1]!
      if (byte === COMMA) {
        this.pos++
        if (inside === OPEN_OBJECT) return this.skipKey()
        this.skipSpace()
        return true
      }
      if (byte !== inside + 2)
        return this.refuseGrammar(inside === OPEN_OBJECT ? EXPECTED.brace : EXPECTED.bracket)
      this.leave()
    }
    return true
  }
}

function skipDigits(bytes: Uint8Array, pos: number): number {
  let digit = bytes[pos]! - ZERO
  while (digit >= 0 && digit <= 9) digit = bytes[++pos]! - ZERO
  return pos
}
