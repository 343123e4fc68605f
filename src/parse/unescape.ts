/**
 * Decodes the escapes of JSON strings to UTF-8. The scanner has validated them, so nothing here can
 * fail: a surrogate is half of a pair, and every letter after a backslash is one of JSON's.
 */
import { BACKSLASH, LOWER_U } from './characters.ts'

const HEX = new Int8Array(256).fill(-1)
for (let i = 0; i < 16; i++) {
  HEX[i.toString(16).charCodeAt(0)] = i
  HEX[i.toString(16).toUpperCase().charCodeAt(0)] = i
}

/** The four hex digits at `at` as a number, negative where one is none. */
export function hex4(bytes: Uint8Array, at: number): number {
  const a = HEX[bytes[at]!]!
  const b = HEX[bytes[at + 1]!]!
  const c = HEX[bytes[at + 2]!]!
  const d = HEX[bytes[at + 3]!]!
  return (a | b | c | d) < 0 ? -1 : (a << 12) | (b << 8) | (c << 4) | d
}

/** By the letter after the backslash: the byte it stands for. */
const ESCAPED = new Uint8Array(256)
for (const c of '"\\/bfnrt') ESCAPED[c.charCodeAt(0)] = JSON.parse(`"\\${c}"`).charCodeAt(0)

/**
 * Writes a string's unescaped bytes at `at`. The bytes [from, to) stand between its quotes and are
 * validated. Returns how many bytes were written, which is never more than `to - from`.
 */
export function unescapeInto(
  into: Uint8Array,
  at: number,
  bytes: Uint8Array,
  from: number,
  to: number,
): number {
  let out = at
  let pos = from
  while (pos < to) {
    const byte = bytes[pos]!
    if (byte !== BACKSLASH) {
      into[out++] = byte
      pos++
    } else if (bytes[pos + 1] !== LOWER_U) {
      into[out++] = ESCAPED[bytes[pos + 1]!]!
      pos += 2
    } else {
      let point = hex4(bytes, pos + 2)
      pos += 6
      if (point >= 0xd800 && point <= 0xdbff) {
        point = 0x10000 + ((point - 0xd800) << 10) + (hex4(bytes, pos + 2) - 0xdc00)
        pos += 6
      }
      out = writePoint(into, out, point)
    }
  }
  return out - at
}

function writePoint(into: Uint8Array, at: number, point: number): number {
  if (point < 0x80) {
    into[at] = point
    return at + 1
  }
  if (point < 0x800) {
    into[at] = 0xc0 | (point >> 6)
    into[at + 1] = 0x80 | (point & 0x3f)
    return at + 2
  }
  if (point < 0x10000) {
    into[at] = 0xe0 | (point >> 12)
    into[at + 1] = 0x80 | ((point >> 6) & 0x3f)
    into[at + 2] = 0x80 | (point & 0x3f)
    return at + 3
  }
  into[at] = 0xf0 | (point >> 18)
  into[at + 1] = 0x80 | ((point >> 12) & 0x3f)
  into[at + 2] = 0x80 | ((point >> 6) & 0x3f)
  into[at + 3] = 0x80 | (point & 0x3f)
  return at + 4
}
