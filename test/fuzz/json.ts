/**
 * Bodies and schemas for tests of the kernels: most of them nearly right, which is where kernels
 * differ. Texts are built by hand, not with JSON.stringify, so that spaces, escapes, duplicates and
 * odd numbers occur.
 */

import { KEY_COLUMNS_MAX } from '../../src/catalog/change/table-settings.ts'
import { COLUMN_TYPES, type ColumnType, KEY_RECEIVED_AT, type PoolSchema } from '../../src/format/schema.ts'
import type { Random } from './random.ts'

/** Names that events and schemas share, odd ones among them. */
export const NAMES = [
  'id',
  'time',
  'tenant',
  'a',
  'b',
  'c',
  'a.b',
  'a.b.c',
  'b.c',
  'constructor',
  '__proto__',
  'length',
  'toString',
  '',
  '.',
  'a.',
  '.a',
  'größe',
  '𝄞',
  'line\nbreak',
  'quote"d',
  'back\\slash',
  'customer',
  'address',
  'customer.address.city',
  'a name that is rather longer than the usual ones, so that hashing has something to do',
] as const

export const NUMBERS = (
  '0 -0 1 -1 7 42 127 128 -128 -129 255 32767 32768 -32768 -32769 2147483647 2147483648 -2147483648 -2147483649 ' +
  '9007199254740991 9007199254740992 9007199254740993 -9007199254740993 999999999999999 1000000000000000 ' +
  '9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551615 1.0 1e2 1E+2 1.5 -1.5 1e-2 100e-2 0.1 0.3 1e22 1e23 ' +
  '9007199254740992.0 9007199254740994.0 9007199254740993.0 9.007199254740993e15 -0.0 -0e0 0e999999 1e-400 ' +
  '5e-324 2.2250738585072011e-308 1.7976931348623157e308 3.4028234663852886e38 3.4028235677973366e38 ' +
  '3.4028235e38 -3.5e38 1e38 0.99999999999999999999 1.00000000000000000001 12.34 0.000001 123456.789012 ' +
  '1700000000 1700000000.5 1700000000.0000005 1700000000000 1700000000000.4 1700000000000000 ' +
  '1700000000000000.5 1700000000000000499 1700000000000000500 1700000000000000501 -1500 -1700000000000000500 ' +
  '-1700000000000000501 99999999999 100000000000 -99999999999 99999999999999 100000000000000 99999999999999999 ' +
  '100000000000000000 253402300799999 253402300800000 253402300799999999 -62135596800000 -62135596800001 ' +
  '-62135596800 -62135596800000000 1e11 1e14 1e17 1.7e18 1.7e9 -6.2135596800e10 2.5e20 5000000000000001.0 ' +
  '5000000000.000001 9002654333729823.0 8103809325636.199 -8205757336020.969 -0.0000005 253402300799.9999999 ' +
  '9007199254740991.5 9007199254740992.5 -9007199254740993.0 90071992547409920e-1 90071992547409930e-1 9007199254740992.500000001 99999999999.9999995 12345678901.2345675 1.7000000000000005e18 ' +
  '-1.7000000000000005e18 253402300799.9999995 -62135596800.0000006 2.534023007999999995e20 0.0017e12 5e-7 -5e-7 4503599627370497.5 0.0012e4 120000e-4 120000e-5'
).split(' ')

/** Integers beyond 64 bits: rare, since the native kernel leaves the whole request undecided. */
export const BIG_NUMBERS =
  '18446744073709551616 -9223372036854775809 123456789012345678901234567890 -1e19 1e20'.split(' ')

export const TIMES = (
  '2024-02-29T12:34:56Z|2023-02-29T00:00:00Z|2024-01-01|2024-1-1|0001-01-01T00:00:00Z|0000-12-31|9999-12-31T23:59:59.9999999Z|' +
  '9999-12-31T23:59:60Z|2024-06-30t23:59:60z|2024-06-30 23:59:60.5|2024-06-30T23:59:61Z|2024-06-30T24:00:00Z|' +
  '2024-06-30T23:60:00Z|2024-01-01T00:00|2024-01-01T00:00Z|2024-01-01T00:00:00,123456789|2024-01-01T00:00:00.|' +
  '2024-01-01T00:00:00.1+02|2024-01-01T00:00:00+0230|2024-01-01T00:00:00-02:30|2024-01-01T00:00:00+2:30|' +
  '2024-01-01T00:00:00+23:59|2024-01-01T00:00:00+24:00|2024-01-01T00:00:00+00:60|2024-01-01T00:00+05:45|' +
  '2024-01-01T00:00:00Zx|2024-01-01T00:00:00 Z|2024-01-01Z|2024-01-01T|2024-01-01T12|2024-01-01T12:3|2024-01-01T12:30:|' +
  '2024-01-01T12:30:5|0001-01-01T00:00:00+00:01|9999-12-31T23:59:00-00:01|1970-01-01T00:00:00Z|1969-12-31T23:59:59.999999Z|' +
  '1900-02-29|2000-02-29|2100-02-29|1700000000|1700000000000|+2024-01-01|-001-01-01|20240101|2024-01-01T00:00:00.000000|' +
  ' 2024-01-01|2024-01-01 |2024-13-01|2024-00-01|2024-01-00|2024-04-31|２０２４-01-01|2500-07-08T09:10:11.121314Z|' +
  '2024-01-01T00:00:00+02:|2024-03-10 12:00:00 UTC|2024-03-10T12:00 UTC|2024-03-10 12:00:00.5 +0200|2024-03-10 12:00:00 -02:30|' +
  '2024-03-10 12:00:00 +02|2024-03-10 12:00:00 utc|2024-03-10 12:00:00UTC|2024-03-10 12:00:00  UTC|2024-03-10 12:00:00 |2024-03-10 UTC|' +
  '2024-03-10 12:00:00 UT|2024-03-10 12:00:00 UTCx|2024-03-10 12:00:00 UTD|2024-03-10 12:00:00 + 02|2024-03-10 12:00:00  +02|' +
  '2024-01-01T00:00:00+02:|2024-01-01T00:00:00+02:3|2024-01-01T00:00:00+023|2024-01-01T00:00:00−02:00|'
).split('|')

export const STRINGS = [
  '""',
  '"x"',
  '"plain text"',
  '"größer 𝄞 日本"',
  '"\\u0000"',
  '"\\ud834\\udd1e"',
  '"\\uD834\\uDD1E!"',
  '"\\u00e9\\u4e2d\\uffff"',
  '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
  '"\\u0032024-01-01T00:00:00Z"',
  '"2024-01-0\\u0031"',
  '"\u007f"',
]
export const STRINGS_REFUSED = [
  '"\\ud800"',
  '"\\udc00"',
  '"\\ud800\\ud800"',
  '"\\ud800\\n"',
  '"\\ud834\\u12"',
  '"\\uDd1e\\uD834"',
  '"\\x"',
  '"\\u12g4"',
  '"\t"',
  '"\u0000"',
  '"\n"',
  "'x'",
  '"',
]
export const NUMBERS_REFUSED =
  '1e400 -1e400 1e309 01 -01 +1 .5 1. 1.e3 1e 1e+ - -- 0x10 NaN Infinity -Infinity 1_000'.split(' ')
export const WORDS_REFUSED = [
  'tru',
  'True',
  'nul',
  'NULL',
  'falsy',
  'fals',
  'undefined',
  'truee',
  'nulll',
  '',
  '/**/1',
  '\ufeff1',
]

/** Makes JSON for one case. Hostile parts are rare, so that most of it is accepted. */
export class JsonMaker {
  readonly #random: Random
  /** One in this many values is not JSON or is refused. With 0 none is. */
  readonly #brokenOnceIn: number
  readonly #bigNumbers: boolean

  constructor(random: Random, brokenOnceIn: number, bigNumbers = true) {
    this.#random = random
    this.#brokenOnceIn = brokenOnceIn
    this.#bigNumbers = bigNumbers
  }

  #space(): string {
    return this.#random.once(12) ? this.#random.pick([' ', '\n', '\t', '\r\n', '   ', ' \t ']) : ''
  }

  /** A name between quotes, some letters escaped. */
  key(name: string): string {
    const random = this.#random
    if (!random.once(6)) return JSON.stringify(name)
    let text = ''
    for (const unit of name.split(''))
      text +=
        random.once(2) || /[\ud800-\udfff]/.test(unit)
          ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
          : JSON.stringify(unit).slice(1, -1)
    return `"${text}"`
  }

  number(): string {
    const random = this.#random
    if (!random.once(4)) return random.pick(NUMBERS)
    if (this.#bigNumbers && random.once(8)) return random.pick(BIG_NUMBERS)
    const real = random.once(3)
    let digits = String(1 + random.below(9))
    for (let more = random.below(this.#digitsMax(real)); more > 0; more--) digits += random.below(10)
    if (real) digits += `.${random.below(1e9)}`
    if (random.once(6)) digits += `${random.pick(['e', 'E', 'e+', 'e-'])}${random.below(30)}`
    return (random.once(3) ? '-' : '') + digits
  }

  /**
   * Digits after the first: about 64 bits as a rule; about f64's range where such numbers may be
   * refused.
   */
  #digitsMax(real: boolean): number {
    if (!real && !this.#bigNumbers) return 18
    if (!this.#random.once(20)) return 22
    return this.#brokenOnceIn > 0 ? 330 : 270
  }

  string(): string {
    const random = this.#random
    const kind = random.below(8)
    if (kind < 4) return JSON.stringify(random.pick(TIMES))
    if (kind < 7) return random.pick(STRINGS)
    return JSON.stringify('é'.repeat(random.below(3)) + 'x'.repeat(190 + random.below(20)))
  }

  value(depth: number): string {
    const random = this.#random
    if (this.#brokenOnceIn > 0 && random.once(this.#brokenOnceIn))
      return random.pick([STRINGS_REFUSED, NUMBERS_REFUSED, WORDS_REFUSED][random.below(3)]!)
    switch (random.below(depth > 3 ? 6 : 9)) {
      case 0:
      case 1:
        return this.number()
      case 2:
      case 3:
        return this.string()
      case 4:
        return random.pick(['true', 'false'])
      case 5:
        return 'null'
      case 6:
        return this.array(depth + 1)
      default:
        return this.object(depth + 1)
    }
  }

  array(depth: number): string {
    const elements = Array.from({ length: this.#random.below(4) }, () => this.value(depth))
    return `[${elements.map(text => this.#space() + text + this.#space()).join(',') || this.#space()}]`
  }

  object(depth: number): string {
    const members = Array.from({ length: this.#random.below(depth === 0 ? 12 : 5) }, () => {
      const name = this.key(this.#random.pick(NAMES))
      return `${this.#space()}${name}${this.#space()}:${this.#space()}${this.value(depth)}${this.#space()}`
    })
    return `{${members.join(',') || this.#space()}}`
  }

  /**
   * An event that a schema of `makePoolSchema` often accepts: key names come with values that fit.
   */
  event(): string {
    if (this.#random.once(20)) return this.value(1)
    if (this.#random.once(3)) return this.object(0)
    const fitting = `"time":"2024-0${1 + this.#random.below(9)}-11T10:00:00Z","id":${this.string()}`
    const more = this.object(0).slice(1)
    return more.trim() === '}' ? `{${fitting}}` : `{${fitting},${more}`
  }

  /** A whole body in bytes. */
  body(): Uint8Array {
    const random = this.#random
    const shape = random.below(20)
    if (shape === 0) return Buffer.from(this.#deep())
    if (shape === 1) return Buffer.from(this.value(0))
    if (shape < 5) return this.#damage(Buffer.from(this.#space() + this.event() + this.#space()))
    const count = random.once(25) ? 498 + random.below(5) : random.below(8)
    const events = Array.from({ length: count }, () => (count > 400 ? '{}' : this.event()))
    const text = `${this.#space()}[${this.#space()}${events.join(`${this.#space()},${this.#space()}`)}${this.#space()}]${this.#space()}`
    return this.#damage(Buffer.from(text))
  }

  /** Nesting about the limit, of both kinds of containers, balanced or not. */
  #deep(): string {
    const random = this.#random
    const depth = 1021 + random.below(6)
    const array = random.once(2)
    const under = random.pick(['a', 'id', 'nobody'])
    const middle = array
      ? `${'['.repeat(depth)}${']'.repeat(depth)}`
      : `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
    return random.pick([
      `{"${under}":${middle}}`,
      `[{"${under}":${middle}}]`,
      middle,
      middle.slice(0, -1),
      `${middle}]`,
    ])
  }

  /** Sometimes cuts the body short, flips bits, or puts bytes in that do not belong. */
  #damage(body: Buffer): Uint8Array {
    const random = this.#random
    if (this.#brokenOnceIn === 0 || body.length === 0) return body
    const at = random.below(body.length)
    switch (random.below(24)) {
      case 0:
        return body.subarray(0, at)
      case 1:
        body[at]! ^= 1 << random.below(8)
        return body
      case 2:
        body[at] = random.below(256)
        return body
      case 3: {
        const extra = random.pick(['\ufeff', '\0', ',', ']', '}', '"', '\\', '{', '[', 'x', ':', ' '])
        return Buffer.concat([body.subarray(0, at), Buffer.from(extra), body.subarray(at)])
      }
      case 4: {
        const extra = random.pick([
          [0xef, 0xbb, 0xbf],
          [0xff],
          [0xc0, 0x80],
          [0xed, 0xa0, 0x80],
          [0xf4, 0x90, 0x80, 0x80],
          [0xe2, 0x82],
        ])
        const place = random.once(2) ? 0 : at
        return Buffer.concat([body.subarray(0, place), Buffer.from(extra), body.subarray(place)])
      }
      default:
        return body
    }
  }
}

/**
 * A random schema; its key columns, where it has them, are `time` and `id`, in one of four keys
 * others.
 */
export function makePoolSchema(random: Random): PoolSchema {
  const columns: { name: string; type: ColumnType; jsonProperty: string; required: boolean }[] = []
  const add = (type: ColumnType, jsonProperty: string, required: boolean): number =>
    columns.push({ name: `c${columns.length}`, type, jsonProperty, required }) - 1
  const keyed = random.below(4)
  const time = keyed < 2 ? add(random.once(8) ? 'DATE' : 'TIMESTAMP', 'time', keyed === 0) : -1
  const idType = random.once(3) ? random.pick(COLUMN_TYPES.filter(type => type !== 'JSON')) : 'STRING'
  const id = keyed % 2 === 0 ? add(idType, 'id', true) : -1
  for (let more = random.below(10); more > 0; more--) {
    const path = Array.from({ length: 1 + random.below(3) }, () => random.pick(NAMES)).join('.')
    add(random.pick(COLUMN_TYPES), path, random.once(10))
  }
  const key = id < 0 ? null : { columns: [time < 0 ? KEY_RECEIVED_AT : time, id], version: -1 }
  if (key !== null && random.once(4)) key.columns = keyOfMany(columns, random)
  const rule = random.once(2) ? { cutsEpochs: true as const } : {}
  return { pool: 1, version: 1, columns, timestamp: time, tenant: -1, key, ...rule }
}

/** A key of 1 to KEY_COLUMNS_MAX columns, as table settings name them; they become required. */
function keyOfMany(columns: { readonly type: ColumnType; required: boolean }[], random: Random): number[] {
  const able = columns.map((_, index) => index).filter(index => columns[index]!.type !== 'JSON')
  const key = new Set(Array.from({ length: 1 + random.below(KEY_COLUMNS_MAX) }, () => random.pick(able)))
  for (const index of key) columns[index]!.required = true
  const names = [...key]
  if (random.once(3)) names.splice(random.below(names.length + 1), 0, KEY_RECEIVED_AT)
  return names.slice(0, KEY_COLUMNS_MAX)
}
