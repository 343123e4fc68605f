/**
 * Answers of ClickHouse: RowBinaryWithNamesAndTypes, whose numbers and times are exact, as the
 * strings that the API prints.
 */
import { printDate, printInstant, shortestSingle } from '../expression/print-values.ts'

type Read = (reader: Reader) => string | null

/** The rows of an answer, one by one. Throws RangeError where it ends within a row. */
export function answerReader(bytes: Buffer): {
  readonly columns: readonly string[]
  readonly next: () => (string | null)[] | undefined
  readonly position: () => number
} {
  const reader = new Reader(bytes)
  const count = reader.size()
  const columns = Array.from({ length: count }, () => reader.text())
  const reads = Array.from({ length: count }, () => readOf(reader.text()))
  return {
    columns,
    next: () => (reader.position < bytes.length ? reads.map(read => read(reader)) : undefined),
    position: () => reader.position,
  }
}

const NULLABLE = /^Nullable\((.*)\)$/

function readOf(type: string): Read {
  const [, inner] = NULLABLE.exec(type) ?? []
  if (inner === undefined) return plainReadOf(type)
  const read = plainReadOf(inner)
  return reader => (reader.byte() === 1 ? null : read(reader))
}

function plainReadOf(type: string): Read {
  const read = READS[type]
  if (read === undefined) throw new Error(`an answer has a column of the type ${type}`)
  return read
}

/** The range of a JavaScript Date. */
const DATE_US_MAX = 8_640_000_000_000_000_000n
const DAY_SECONDS = 86_400n

const READS: Readonly<Record<string, Read>> = {
  String: reader => reader.text(),
  Bool: reader => String(reader.byte() === 1),
  UInt8: reader => String(reader.byte() === 1),
  Int8: reader => String(reader.integer(1)),
  Int16: reader => String(reader.integer(2)),
  Int32: reader => String(reader.integer(4)),
  Int64: reader => String(reader.integer(8)),
  Int128: reader => String(reader.integer(16)),
  Float32: reader => printReal(reader.single(), true),
  Float64: reader => printReal(reader.double(), false),
  Date32: reader => printDate(Number(reader.integer(4))),
  "DateTime64(6, 'UTC')": reader => {
    const us = reader.integer(8)
    return us > -DATE_US_MAX && us < DATE_US_MAX ? printInstant(us) : null
  },
  // A computed date (write-statement.ts).
  "DateTime64(0, 'UTC')": reader => printDate(Number(reader.integer(8) / DAY_SECONDS)),
  Nothing: () => null,
}

function printReal(value: number, isSingle: boolean): string | null {
  if (!Number.isFinite(value)) return null
  return isSingle ? shortestSingle(value) : String(value)
}

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get position(): number {
    return this.#at
  }

  byte(): number {
    return this.#bytes.readUInt8(this.#at++)
  }

  /** LEB128. */
  size(): number {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = this.byte()
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
  }

  text(): string {
    const length = this.size()
    this.#at += length
    if (this.#at > this.#bytes.length) throw new RangeError('an answer ends within a text')
    return this.#bytes.toString('utf8', this.#at - length, this.#at)
  }

  integer(bytes: 1 | 2 | 4 | 8 | 16): bigint {
    const at = this.#at
    this.#at += bytes
    if (bytes === 16) return (this.#bytes.readBigInt64LE(at + 8) << 64n) + this.#bytes.readBigUInt64LE(at)
    return bytes === 8 ? this.#bytes.readBigInt64LE(at) : BigInt(this.#bytes.readIntLE(at, bytes))
  }

  single(): number {
    this.#at += 4
    return this.#bytes.readFloatLE(this.#at - 4)
  }

  double(): number {
    this.#at += 8
    return this.#bytes.readDoubleLE(this.#at - 8)
  }
}
