/**
 * Reads the few fields of a Parquet file's footer that Weir needs, and skips all others. Decision
 * 0035 says why no library does it.
 *
 *   file       … | FileMetaData in Thrift's compact protocol | u32 its length | 'PAR1'
 *   read       FileMetaData: 3 num_rows, 4 row_groups, 5 key_value_metadata (1 key, 2 value)
 *              row group: 1 columns; column: 3 meta_data; its 6 total_uncompressed_size
 *
 * It ends for any bytes: it reads none twice, and none beyond their end.
 */

import type { Disk } from '../util/disk.ts'
import { asDamage, Damaged } from '../util/errors.ts'

/** The fields of a footer that are read. */
export interface ParquetFooter {
  readonly rows: number
  /** Bytes of all values, encoded but not compressed. */
  readonly valueBytes: number
  /** The key-value metadata, by today's names. */
  readonly texts: ReadonlyMap<string, string>
}

/** Keys that earlier versions wrote, with today's names (segment.md, History). */
const RENAMED_KEYS: Readonly<Record<string, string>> = { 'weir.plan_version': 'weir.schema_version' }

/** Bytes of the first read. Footers of small segments have 1 to 2 kB. */
const TAIL_BYTES = 16 * 1024
/** A longer footer is damage: thousands of columns in hundreds of row groups take less. */
const FOOTER_BYTES_MAX = 256 * 1024 * 1024
/** Length and magic. */
const END_BYTES = 8
const MAGIC = 0x31_52_41_50

/**
 * Reads the footer of a Parquet file.
 * @throws Damaged that names the file where it is unreadable or no Parquet file, else Node's error
 */
export function readParquetFooter(disk: Disk, file: string): ParquetFooter {
  let handle: number | undefined
  try {
    const size = disk.size(file)
    handle = disk.open(file, 'r')
    const tail = readEnd(disk, handle, size, Math.min(size, TAIL_BYTES))
    const bytes = tail.length < END_BYTES ? -1 : tail.readUInt32LE(tail.length - END_BYTES)
    if (bytes < 0 || tail.readUInt32LE(tail.length - 4) !== MAGIC || bytes > size - END_BYTES)
      throw new Damaged(file, Math.max(size - END_BYTES, 0), 'it does not end as a Parquet file')
    if (bytes > FOOTER_BYTES_MAX) throw new Damaged(file, size - END_BYTES, 'its footer is too long')
    const end = bytes + END_BYTES
    const all = end <= tail.length ? tail.subarray(tail.length - end) : readEnd(disk, handle, size, end)
    return parseFooter(all.subarray(0, bytes), what => new Damaged(file, size - end, what))
  } catch (error) {
    throw isForbidden(error) ? new Damaged(file, 0, (error as Error).message) : asDamage(error, file)
  } finally {
    if (handle !== undefined) disk.close(handle)
  }
}

/** True where this process may not open the file: a reader of segments has lost it. */
function isForbidden(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'EACCES' || code === 'EPERM'
}

function readEnd(disk: Disk, handle: number, size: number, bytes: number): Buffer {
  const into = Buffer.alloc(bytes)
  for (let at = 0; at < bytes; ) {
    const read = disk.read(handle, into.subarray(at), size - bytes + at)
    if (read === 0) return into.subarray(0, at)
    at += read
  }
  return into
}

function parseFooter(bytes: Buffer, damaged: (what: string) => Damaged): ParquetFooter {
  const reader = new CompactReader(bytes, damaged)
  const texts = new Map<string, string>()
  let rows = -1
  let valueBytes = 0
  const inColumn: Take = (id, type) =>
    id === 3 &&
    type === STRUCT &&
    reader.struct((id, type) => {
      if (id !== 6 || type !== I64) return false
      valueBytes += reader.integer()
      return true
    })
  const inRowGroup: Take = (id, type) => id === 1 && type === LIST && reader.structs(inColumn)
  const inText = (): void => {
    const pair: [key: string, value: string] = ['', '']
    reader.struct((id, type) => {
      if ((id !== 1 && id !== 2) || type !== BINARY) return false
      pair[id - 1] = reader.text()
      return true
    })
    const [key, value] = pair
    texts.set(RENAMED_KEYS[key] ?? key, value)
  }
  reader.struct((id, type) => {
    if (id === 4 && type === LIST) return reader.structs(inRowGroup)
    if (id === 5 && type === LIST) return reader.list(inText)
    if (id !== 3 || type !== I64) return false
    rows = reader.integer()
    return true
  })
  if (rows < 0) throw damaged('its footer has no count of rows')
  return { rows, valueBytes, texts }
}

/** Reads a field's value and returns true. Returns false where the field is to be skipped. */
type Take = (id: number, type: number) => boolean

// Types of Thrift's compact protocol. A field's boolean is its type. Parquet has no maps.
const [BOOLEAN_TRUE, BOOLEAN_FALSE, BYTE, I16, I64, DOUBLE, BINARY, LIST, SET, STRUCT] = [
  1, 2, 3, 4, 6, 7, 8, 9, 10, 12,
]
/** Nesting of structs and lists. Parquet's footers nest at most ten deep. */
const DEPTH_MAX = 16

class CompactReader {
  readonly #bytes: Buffer
  readonly #damaged: (what: string) => Damaged
  #at = 0
  #depth = 0

  constructor(bytes: Buffer, damaged: (what: string) => Damaged) {
    this.#bytes = bytes
    this.#damaged = damaged
  }

  /** Reads one struct's fields. */
  struct(take: Take): true {
    this.#depth += 1
    if (this.#depth > DEPTH_MAX) throw this.#damaged('its footer is nested too deep')
    for (let id = 0, head = this.#byte(); head !== 0; head = this.#byte()) {
      const type = head & 15
      id = head >> 4 === 0 ? this.integer() : id + (head >> 4)
      if (!take(id, type)) this.#skip(type)
    }
    this.#depth -= 1
    return true
  }

  structs(take: Take): true {
    return this.list(() => this.struct(take))
  }

  /** A list of structs, each of which `read` reads. */
  list(read: () => void): true {
    const head = this.#byte()
    if ((head & 15) !== STRUCT) throw this.#damaged('its footer has a list of another kind')
    for (let left = this.#count(head); left > 0; left--) read()
    return true
  }

  /** A signed integer of up to 53 bits. */
  integer(): number {
    const zigzag = this.#varint()
    return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2
  }

  text(): string {
    const bytes = this.#varint()
    const from = this.#at
    this.#advance(bytes)
    return this.#bytes.toString('utf8', from, this.#at)
  }

  #byte(): number {
    this.#advance(1)
    return this.#bytes[this.#at - 1] as number
  }

  #advance(bytes: number): void {
    if (bytes > this.#bytes.length - this.#at) throw this.#damaged('its footer ends too soon')
    this.#at += bytes
  }

  #varint(): number {
    for (let value = 0, unit = 1; ; unit *= 128) {
      const byte = this.#byte()
      value += (byte & 127) * unit
      if (byte < 128 && value <= Number.MAX_SAFE_INTEGER) return value
      if (byte < 128 || unit > Number.MAX_SAFE_INTEGER)
        throw this.#damaged('its footer has a number too large')
    }
  }

  /** The count of elements in the head of a list or a set. */
  #count(head: number): number {
    return head >> 4 === 15 ? this.#varint() : head >> 4
  }

  #skip(type: number): void {
    if (type === BOOLEAN_TRUE || type === BOOLEAN_FALSE) return
    if (type === BYTE) this.#advance(1)
    else if (type >= I16 && type <= I64) while (this.#byte() >= 128);
    else if (type === DOUBLE) this.#advance(8)
    else if (type === BINARY) this.#advance(this.#varint())
    else if (type === LIST || type === SET) this.#skipList()
    else if (type === STRUCT) this.struct(() => false)
    else throw this.#damaged('its footer has an unknown kind of field')
  }

  #skipList(): void {
    this.#depth += 1
    if (this.#depth > DEPTH_MAX) throw this.#damaged('its footer is nested too deep')
    const head = this.#byte()
    const type = head & 15
    // In a list a boolean is a byte.
    const skipped = type === BOOLEAN_TRUE || type === BOOLEAN_FALSE ? BYTE : type
    for (let left = this.#count(head); left > 0; left--) this.#skip(skipped)
    this.#depth -= 1
  }
}
