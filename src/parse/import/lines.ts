/**
 * NDJSON as rows: one JSON object a line. A line ends with LF or CRLF, the last one also with the
 * body. Blank lines are no rows. A byte order mark at the beginning of the body is dropped.
 *
 * A body whose first row has the property `_service_payload` is an export of a pool: the payloads
 * are its rows.
 *
 *   W-9  Of a line that is too long only its length is known.
 */

import { PAYLOAD, type SchemaColumn } from '../../format/schema.ts'
import { IMPORT_ROW_BYTES_MAX } from '../../util/limits.ts'
import { CLOSE_OBJECT, COMMA, CR, LF, OPEN_OBJECT, QUOTE } from '../characters.ts'
import { FOUND } from '../event-error.ts'
import { JsonScan } from '../json-scan.ts'
import { EventScan } from '../parse-event.ts'
import { makePaths } from '../path.ts'
import { EventFields } from './compare-fields.ts'
import { BYTE_ORDER_MARK, type ImportOptions, type RowBatch } from './import-types.ts'
import { type Naming, renames } from './naming.ts'
import type { RowBatches } from './row-batches.ts'
import { checkPayloads, type RowShape, type ShapeNode, shapeOf } from './row-shape.ts'

/** Turns the decoded pieces of a body into batches of rows. */
export interface RowReader {
  /** Decoded bytes so far. */
  readonly bytes: number
  /** Bytes of the body up to the end of the last row. */
  readonly rowsEnd: number
  /** Reads a piece; yields each batch that is full. */
  read(piece: Uint8Array): Generator<RowBatch, void, void>
  /** The body is complete: reads the last row, which no line break ended. */
  end(): Generator<RowBatch, void, void>
}

export class LineReader implements RowReader {
  readonly #batches: RowBatches
  readonly #columns: readonly SchemaColumn[]
  /** The beginning of a line whose end has not come. */
  #buffer: Buffer = Buffer.allocUnsafeSlow(64 * 1024)
  #bufferedBytes = 0
  /** The line is too long; its bytes are dropped. */
  #isTooLong = false
  /** Bytes of the body before the piece that is read, and before the line. */
  #bytesBefore = 0
  #lineStart = 0
  #lines = 0
  /** True for an export: its first row has a payload. It is undefined until a row has come. */
  #isExport: boolean | undefined
  readonly #payload = new PayloadFinder()
  /** Undefined where the rows are events. */
  readonly #renamed: RenamedRows | undefined

  constructor(batches: RowBatches, { columns, naming }: Pick<ImportOptions, 'columns' | 'naming'>) {
    this.#batches = batches
    this.#columns = columns
    this.#renamed = renames(naming) ? new RenamedRows(columns, naming) : undefined
    batches.events = new EventFields(columns)
  }

  get bytes(): number {
    return this.#bytesBefore
  }

  get rowsEnd(): number {
    return this.#lineStart
  }

  *read(piece: Uint8Array): Generator<RowBatch, void, void> {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    let from = 0
    for (;;) {
      const end = bytes.indexOf(LF, from)
      if (end < 0) break
      const isBuffered = this.#bufferedBytes > 0 || this.#isTooLong
      if (isBuffered) this.#append(bytes, from, end)
      const full = isBuffered ? this.#endBuffered() : this.#line(bytes, from, end)
      if (full !== undefined) yield full
      from = end + 1
      this.#lineStart = this.#bytesBefore + from
    }
    this.#append(bytes, from, bytes.length)
    this.#bytesBefore += bytes.length
  }

  *end(): Generator<RowBatch, void, void> {
    const full = this.#bufferedBytes > 0 || this.#isTooLong ? this.#endBuffered() : undefined
    if (full !== undefined) yield full
    this.#lineStart = this.#bytesBefore
  }

  #append(bytes: Buffer, from: number, to: number): void {
    if (this.#isTooLong || from === to) return
    const end = this.#bufferedBytes + to - from
    if (end > LINE_BUFFER_BYTES_MAX) {
      this.#isTooLong = true
      this.#bufferedBytes = 0
      return
    }
    if (end > this.#buffer.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.#buffer.length))
      grown.set(this.#buffer.subarray(0, this.#bufferedBytes))
      this.#buffer = grown
    }
    this.#buffer.set(bytes.subarray(from, to), this.#bufferedBytes)
    this.#bufferedBytes = end
  }

  #endBuffered(): RowBatch | undefined {
    const bytes = this.#bufferedBytes
    this.#bufferedBytes = 0
    if (!this.#isTooLong) return this.#line(this.#buffer, 0, bytes)
    this.#isTooLong = false
    this.#lines += 1
    return this.#batches.skips() ? undefined : this.#refuse('row_too_long')
  }

  /** Takes the line in bytes [from, to). Returns the batch so far where it is full. */
  #line(bytes: Buffer, from: number, to: number): RowBatch | undefined {
    this.#lines += 1
    const begin = this.#lines === 1 && startsWithMark(bytes, from, to) ? from + BYTE_ORDER_MARK.length : from
    const end = to > begin && bytes[to - 1] === CR ? to - 1 : to
    if (isBlank(bytes, begin, end)) return undefined
    const payload = this.#payload
    if (this.#isExport === undefined) {
      this.#isExport = payload.find(bytes, begin, end) === 'found'
      if (this.#isExport) checkPayloads(this.#columns)
    }
    if (this.#batches.skips()) return undefined
    if (this.#isExport) {
      const found = payload.find(bytes, begin, end)
      return found === 'found' ? this.#add(payload.bytes, payload.from, payload.to) : this.#refuse(found)
    }
    if (end - begin > IMPORT_ROW_BYTES_MAX) return this.#refuse('row_too_long')
    const event = this.#renamed?.event(bytes, begin, end)
    if (event === undefined) return this.#add(bytes, begin, end)
    const isTooLong = event.length > IMPORT_ROW_BYTES_MAX
    return isTooLong ? this.#refuse('row_too_long') : this.#add(event, 0, event.length)
  }

  #add(bytes: Uint8Array, from: number, to: number): RowBatch | undefined {
    return this.#batches.add(bytes, from, to, this.#lines, this.#lineStart)
  }

  #refuse(code: string): RowBatch | undefined {
    return this.#batches.refuse(code, this.#lines, this.#lineStart)
  }
}

/** A line of the maximum may have a byte order mark before it and a CR behind it. */
const LINE_BUFFER_BYTES_MAX = BYTE_ORDER_MARK.length + IMPORT_ROW_BYTES_MAX + 1

function startsWithMark(bytes: Buffer, from: number, to: number): boolean {
  return bytes.subarray(from, Math.min(to, from + BYTE_ORDER_MARK.length)).equals(BYTE_ORDER_MARK)
}

function isBlank(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at]
    if (byte !== 0x20 && byte !== 0x09 && byte !== CR) return false
  }
  return true
}

/** The path of the payload, as that of a pool's one column. */
const PAYLOAD_PATHS = makePaths([{ jsonProperty: PAYLOAD }])
const PAYLOAD_SLOT = PAYLOAD_PATHS.whole[0]!

/** Finds the payload in a line of an export. */
class PayloadFinder {
  readonly #scan = new JsonScan()
  readonly #event = new EventScan(this.#scan, PAYLOAD_PATHS)
  /** The payload is bytes [from, to) of `bytes`. */
  from = 0
  to = 0

  get bytes(): Uint8Array {
    return this.#scan.bytes
  }

  /** Looks for it in the object in bytes [from, to). A code says why it is not there. */
  find(bytes: Buffer, from: number, to: number): 'found' | 'not_json' | 'no_payload' {
    const [scan, event] = [this.#scan, this.#event]
    if (!scan.load(bytes, from, to - from) || scan.skipSpace() !== OPEN_OBJECT || !event.walk())
      return 'not_json'
    scan.skipSpace()
    if (scan.pos !== scan.end) return 'not_json'
    this.from = event.starts[PAYLOAD_SLOT]!
    this.to = event.ends[PAYLOAD_SLOT]!
    return event.found[PAYLOAD_SLOT] === FOUND.nothing ? 'no_payload' : 'found'
  }
}

/** Shapes that are kept, one for each list of fields. */
const SHAPES_MAX = 256
const [OPEN, CLOSE, BETWEEN] = ['{', '}', ','].map(text => Buffer.from(text)) as [Buffer, Buffer, Buffer]

/**
 * Rows whose fields name columns, as events: `by` and `map` of an import. The fields of a row are
 * the header of one record, and each value keeps its bytes.
 *
 *   {"amount": 5, "id": "a"}  ►  {"order":{"amount":5},"id":"a"}
 */
class RenamedRows {
  readonly #columns: readonly SchemaColumn[]
  readonly #naming: Naming
  readonly #scan = new JsonScan()
  readonly #shapes = new Map<string, RowShape>()

  constructor(columns: readonly SchemaColumn[], naming: Naming) {
    this.#columns = columns
    // Fields are properties unless they are said to be columns. Rows are told, and not refused.
    this.#naming = { by: 'property', ...naming, ignoreUnknown: true }
  }

  /**
   * The event of the row in bytes [from, to); undefined where it stays as it is: another check
   * refuses a row that is no JSON object.
   * @throws BodyBroken two fields fill one property
   */
  event(bytes: Buffer, from: number, to: number): Buffer | undefined {
    const fields = this.#fields(bytes, from, to)
    if (fields === undefined) return undefined
    const values = [...fields.values()]
    const { nodes, payload } = this.#shape([...fields.keys()])
    if (payload >= 0) return values[payload]
    const parts: Buffer[] = []
    const write = (members: readonly ShapeNode[]): void => {
      parts.push(OPEN)
      for (const [index, { key, field, children }] of members.entries()) {
        if (index > 0) parts.push(BETWEEN)
        parts.push(key)
        if (field < 0) write(children)
        else parts.push(values[field]!)
      }
      parts.push(CLOSE)
    }
    write(nodes)
    return Buffer.concat(parts)
  }

  #shape(names: readonly string[]): RowShape {
    const list = JSON.stringify(names)
    const known = this.#shapes.get(list)
    if (known !== undefined) return known
    const shape = shapeOf(names, this.#columns, this.#naming)
    if (this.#shapes.size >= SHAPES_MAX) this.#shapes.clear()
    this.#shapes.set(list, shape)
    return shape
  }

  /** The fields with their values; the last one of equal names, as in JSON.parse. */
  #fields(bytes: Buffer, from: number, to: number): Map<string, Buffer> | undefined {
    const scan = this.#scan
    if (!scan.load(bytes, from, to - from) || scan.skipSpace() !== OPEN_OBJECT || !scan.enter())
      return undefined
    const fields = new Map<string, Buffer>()
    if (scan.skipSpace() === CLOSE_OBJECT) return undefined // nothing has a name
    for (;;) {
      scan.skipSpace()
      const start = scan.pos
      if (scan.bytes[start] !== QUOTE || !scan.skipString()) return undefined
      const text = scan.bytes.toString('utf8', start, scan.pos)
      const name = scan.mark === 0 ? text.slice(1, -1) : (JSON.parse(text) as string)
      if (!scan.skipColon()) return undefined
      const value = scan.pos
      if (!scan.skipValue()) return undefined
      fields.set(name, scan.bytes.subarray(value, scan.pos))
      const byte = scan.skipSpace()
      if (byte === CLOSE_OBJECT) break
      if (byte !== COMMA) return undefined
      scan.pos += 1
    }
    scan.leave()
    scan.skipSpace()
    return scan.pos === scan.end ? fields : undefined
  }
}
