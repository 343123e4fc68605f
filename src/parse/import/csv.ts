/**
 * CSV as rows: a header, then one event a record. Values are converted by the type of the pool's
 * column that the header names; ingest checks them as it checks those of a POST.
 */

import { isUtf8 } from 'node:buffer'
import type { ColumnType, SchemaColumn } from '../../format/schema.ts'
import { BodyBroken } from '../../util/errors.ts'
import { IMPORT_ROW_BYTES_MAX } from '../../util/limits.ts'
import { BACKSLASH, CLOSE_OBJECT, COMMA, OPEN_OBJECT, QUOTE } from '../characters.ts'
import { JsonScan } from '../json-scan.ts'
import { EventFields } from './compare-fields.ts'
import { CsvRecords, QUOTES } from './csv-records.ts'
import type { ImportOptions, RowBatch } from './import-types.ts'
import type { RowReader } from './lines.ts'
import type { Naming } from './naming.ts'
import type { RowBatches } from './row-batches.ts'
import { type RowShape, type ShapeNode, shapeOf } from './row-shape.ts'

/** Control characters as JSON has them. */
const ESCAPES = Array.from({ length: 0x20 }, (_, byte) =>
  JSON.stringify(String.fromCharCode(byte)).slice(1, -1),
)
const LINE_ENDS = 'lines must end with LF or CRLF'
/** Bytes that a field takes in JSON for each of its own, at most: `\\u0001`. */
const JSON_BYTES_PER_BYTE = 6

export class CsvReader implements RowReader {
  readonly #batches: RowBatches
  readonly #columns: readonly SchemaColumn[]
  readonly #naming: Naming
  readonly #records = new CsvRecords()
  #shape: RowShape | undefined
  /** Bytes of all keys with their brackets. */
  #keyBytes = 0
  /** The event of the record, as JSON. */
  #row = Buffer.allocUnsafeSlow(64 * 1024)
  #used = 0
  /** A field without the escapes of its quotes. */
  #plain = Buffer.allocUnsafeSlow(4 * 1024)
  /** The field that cannot be converted. */
  #badField = -1
  readonly #scan = new JsonScan()

  constructor(batches: RowBatches, { columns, naming }: Pick<ImportOptions, 'columns' | 'naming'>) {
    this.#batches = batches
    this.#columns = columns
    this.#naming = naming
  }

  get bytes(): number {
    return this.#records.given
  }

  get rowsEnd(): number {
    return this.#records.end
  }

  *read(piece: Uint8Array): Generator<RowBatch, void, void> {
    this.#records.give(piece)
    while (this.#records.next()) {
      const full = this.#record()
      if (full !== undefined) yield full
    }
  }

  *end(): Generator<RowBatch, void, void> {
    const full = this.#records.last() ? this.#record() : undefined
    if (full !== undefined) yield full
  }

  /** Takes the record. Returns the batch so far where it is full. */
  #record(): RowBatch | undefined {
    const { line, start, problem } = this.#records
    if (problem === undefined && isBlank(this.#records) && !isRowWhereBlank(this.#shape)) return undefined
    if (this.#shape === undefined) {
      this.#readHeader()
      return undefined
    }
    if (this.#batches.skips()) return undefined
    this.#badField = -1
    const code = problem ?? this.#write(this.#shape)
    if (code === undefined) return this.#batches.add(this.#row, 0, this.#used, line, start)
    const column = this.#badField < 0 ? null : this.#shape.fields[this.#badField]!.name
    return this.#batches.refuse(code, line, start, column)
  }

  #readHeader(): void {
    const { bytes, fields, fieldCount, problem } = this.#records
    if (problem !== undefined)
      throw new BodyBroken('bad_header', `the header of the file is no record of CSV; ${LINE_ENDS}`)
    if (!isUtf8(bytes.subarray(fields[0]!, fields[3 * fieldCount - 2]!)))
      throw new BodyBroken('bad_header', 'the header of the file is not UTF-8: convert the file to UTF-8')
    const names = Array.from({ length: fieldCount }, (_, field) => {
      const text = bytes.toString('utf8', fields[3 * field]!, fields[3 * field + 1]!)
      const quotes = fields[3 * field + 2]
      // A file whose lines end with CR alone is all header: nothing else would say that no row was
      // read.
      if (quotes === QUOTES.none && text.includes('\r'))
        throw new BodyBroken('bad_header', `the header of the file has a CR without LF; ${LINE_ENDS}`)
      return quotes === QUOTES.escaped ? text.replaceAll('""', '"') : text
    })
    this.#shape = shapeOf(names, this.#columns, this.#naming)
    if (this.#shape.compared === undefined) this.#batches.events = new EventFields(this.#columns)
    else this.#batches.compared = this.#shape.compared
    this.#keyBytes = keyBytesOf(this.#shape.nodes)
  }

  /** Writes the event of the record. Returns the code of what is wrong. */
  #write(shape: RowShape): string | undefined {
    const { fields, fieldCount } = this.#records
    if (fieldCount !== shape.fields.length)
      return fieldCount < shape.fields.length ? 'too_few_fields' : 'too_many_fields'
    const recordBytes = fields[3 * fieldCount - 2]! - fields[0]!
    const bytesMax = this.#keyBytes + JSON_BYTES_PER_BYTE * recordBytes + 2 * fieldCount + 2
    if (this.#row.length < bytesMax) this.#row = Buffer.allocUnsafeSlow(2 * bytesMax)
    this.#used = 0
    if (shape.payload >= 0) this.#copy(this.#textOf(shape.payload))
    else this.#writeNodes(shape, shape.nodes)
    if (this.#used === 0) return 'no_payload'
    if (this.#badField >= 0) return 'not_json'
    return this.#used > IMPORT_ROW_BYTES_MAX ? 'row_too_long' : undefined
  }

  /** Writes an object of the properties that have values. Returns false where none has. */
  #writeNodes(shape: RowShape, nodes: readonly ShapeNode[]): boolean {
    this.#row[this.#used++] = OPEN_OBJECT
    const from = this.#used
    for (const { key, field, children } of nodes) {
      const before = this.#used
      if (before > from) this.#row[this.#used++] = COMMA
      this.#used += key.copy(this.#row, this.#used)
      const isWritten =
        field >= 0 ? this.#writeField(field, shape.fields[field]!.type) : this.#writeNodes(shape, children)
      if (!isWritten) this.#used = before
    }
    const isEmpty = this.#used === from
    this.#row[this.#used++] = CLOSE_OBJECT
    return !isEmpty
  }

  /** Writes a field's value. Returns false where it has none. */
  #writeField(field: number, type: ColumnType | undefined): boolean {
    const isEmpty = this.#records.fields[3 * field] === this.#records.fields[3 * field + 1]
    const isQuoted = this.#records.fields[3 * field + 2] !== QUOTES.none
    if (isEmpty && !(isQuoted && (type === 'STRING' || type === undefined))) return false
    const text = this.#textOf(field)
    if (type === 'STRING' || type === 'DATE' || type === undefined) this.#writeString(text)
    else if (type === 'JSON') {
      if (!this.#isJson(text)) this.#badField = field
      this.#copy(text)
    } else {
      const raw = rawValue(type, text.toString('latin1').trim())
      if (raw === undefined) this.#writeString(text)
      else this.#used += this.#row.write(raw, this.#used, 'latin1')
    }
    return true
  }

  /** The bytes of a field without the escapes of its quotes. */
  #textOf(field: number): Buffer {
    const { bytes, fields } = this.#records
    const text = bytes.subarray(fields[3 * field]!, fields[3 * field + 1]!)
    if (fields[3 * field + 2] !== QUOTES.escaped) return text
    if (this.#plain.length < text.length) this.#plain = Buffer.allocUnsafeSlow(2 * text.length)
    let used = 0
    for (let at = 0; at < text.length; at += 1) {
      const byte = text[at]!
      this.#plain[used++] = byte
      if (byte === QUOTE) at += 1
    }
    return this.#plain.subarray(0, used)
  }

  #copy(text: Buffer): void {
    this.#used += text.copy(this.#row, this.#used)
  }

  #writeString(text: Buffer): void {
    const row = this.#row
    let used = this.#used
    row[used++] = QUOTE
    for (let at = 0; at < text.length; at += 1) {
      const byte = text[at]!
      if (byte < 0x20) used += row.write(ESCAPES[byte]!, used, 'latin1')
      else {
        if (byte === QUOTE || byte === BACKSLASH) row[used++] = BACKSLASH
        row[used++] = byte
      }
    }
    row[used++] = QUOTE
    this.#used = used
  }

  #isJson(text: Buffer): boolean {
    const scan = this.#scan
    if (!scan.load(text, 0, text.length)) return false
    scan.skipSpace()
    if (!scan.skipValue()) return false
    scan.skipSpace()
    return scan.pos === scan.end
  }
}

/** A record of one empty field: a blank line. */
function isBlank({ fields, fieldCount }: CsvRecords): boolean {
  return fieldCount === 1 && fields[0] === fields[1] && fields[2] === QUOTES.none
}

/** True where the header has one field: then an export writes a null as a blank line. */
function isRowWhereBlank(shape: RowShape | undefined): boolean {
  return shape !== undefined && shape.fields.length === 1 && shape.payload < 0
}

function keyBytesOf(nodes: readonly ShapeNode[]): number {
  // An object takes its brackets and a comma besides its key.
  return nodes.reduce((sum, { key, children }) => sum + key.length + 3 + keyBytesOf(children), 0)
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/
/** A number as other programs write it: +1, 007, .5, 5. */
const NUMBER = /^([+-]?)(\d*)(?:\.(\d*))?([eE][+-]?\d+)?$/
/** Digits that are an epoch and not a year or a date without dashes. */
const EPOCH = /^-?\d{9,}(\.\d+)?$/
const BOOLEANS: Readonly<Record<string, string>> = {
  true: 'true',
  t: 'true',
  1: 'true',
  false: 'false',
  f: 'false',
  0: 'false',
}

/** The JSON value that a text stands for; undefined if it stays a text, which ingest judges. */
function rawValue(type: ColumnType, text: string): string | undefined {
  if (type === 'BOOLEAN') {
    const name = text.toLowerCase()
    return Object.hasOwn(BOOLEANS, name) ? BOOLEANS[name] : undefined
  }
  if (type === 'TIMESTAMP') return EPOCH.test(text) && JSON_NUMBER.test(text) ? text : undefined
  if (JSON_NUMBER.test(text)) return text
  const match = NUMBER.exec(text)
  if (match === null) return undefined
  const [, sign, whole = '', fraction = '', exponent = ''] = match
  if (whole === '' && fraction === '') return undefined
  return `${sign === '-' ? '-' : ''}${withoutZeros(whole)}${fraction === '' ? '' : `.${fraction}`}${exponent}`
}

/** Digits without zeros before them; one zero where nothing is left. */
function withoutZeros(digits: string): string {
  let from = 0
  while (digits[from] === '0') from += 1
  return digits.slice(from) || '0'
}
