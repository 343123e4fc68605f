/**
 * Packs rows as bodies of POST, and refuses rows that are no JSON object.
 *
 *   [ row 0 row 0 row 0      while it is filled: a zero after each row
 *   [ row , row , row ]      when each row was found to be one object
 *
 * Ingest refuses a whole document for one row that is not JSON, so each row is checked here, by the
 * rules of the reference parser. A zero is legal nowhere in JSON, so the scan of a broken row ends
 * with the row. The check takes 0.4 µs for a row of 400 bytes.
 *
 *   W-9  A batch has at most EVENTS_MAX rows and BODY_BYTES_MAX bytes.
 */

import { isUtf8 } from 'node:buffer'
import { assert } from '../../util/errors.ts'
import { BODY_BYTES_MAX, EVENTS_MAX, IMPORT_ROW_BYTES_MAX } from '../../util/limits.ts'
import { CLOSE_ARRAY, COMMA, OPEN_ARRAY, OPEN_OBJECT } from '../characters.ts'
import { DOCUMENT, describeDocument, describeGrammar, EXPECTED } from '../event-error.ts'
import { JsonScan } from '../json-scan.ts'
import type { EventFields, FieldComparison } from './compare-fields.ts'
import type { BadRow, RowBatch } from './import-types.ts'

/** Messages of rows that are refused here. */
const MESSAGES: Readonly<Record<string, string>> = {
  not_json: 'the row is not JSON',
  not_object: 'a row is one JSON object',
  invalid_utf8: 'the row is not valid UTF-8',
  too_deep: 'the row nests too many objects and arrays',
  unpaired_surrogate: 'a string holds one half of a surrogate pair',
  number_out_of_range: 'a number is beyond the range of a 64-bit float',
  no_payload: 'the row has no _service_payload, and the file is an export, whose payloads are its rows',
  bad_quotes: 'the quotes of the record do not match',
  too_few_fields: 'the record has fewer fields than the header',
  too_many_fields: 'the record has more fields than the header',
  row_too_long: `a row takes at most ${IMPORT_ROW_BYTES_MAX} bytes`,
}

export class RowBatches {
  readonly #skipRows: number
  #reportsLeft: number
  readonly #scan = new JsonScan()
  #room: Buffer = Buffer.allocUnsafeSlow(BODY_BYTES_MAX)
  /** Memory for the next body. */
  #spare: Buffer | undefined
  #used = 1
  /** Ends of the rows in the body, then their places. */
  readonly #ends = new Int32Array(EVENTS_MAX)
  readonly #places = new Float64Array(2 * EVENTS_MAX)
  #count = 0
  /** Rows of this batch, refused ones too. */
  #batchRows = 0
  #rows = 0
  #refused: BadRow[] = []
  #refusedBy = new Map<string, number>()

  /** Compares the events that are added, where the file has no header. */
  events: EventFields | undefined
  /** The comparison of a header, until it is told. */
  compared: FieldComparison | undefined

  constructor({ skipRows, errorsMax }: { readonly skipRows: number; readonly errorsMax: number }) {
    this.#skipRows = skipRows
    this.#reportsLeft = errorsMax
  }

  /** Rows so far. */
  get rows(): number {
    return this.#rows
  }

  /** True where the next row is left out. It is counted then. */
  skips(): boolean {
    const isSkipped = this.#rows < this.#skipRows
    if (isSkipped) this.#rows += 1
    return isSkipped
  }

  /** Memory of a batch that was taken. */
  giveBack(memory: ArrayBuffer): void {
    this.#spare = Buffer.from(memory)
  }

  /** True when take() would have something to tell. */
  get hasRows(): boolean {
    return this.#batchRows > 0
  }

  /**
   * Adds the row in bytes [from, to). Returns the batch so far where it has no room for the row.
   * @param before bytes of the body before the row
   */
  add(bytes: Uint8Array, from: number, to: number, line: number, before: number): RowBatch | undefined {
    const full = this.#takeFull(to - from, before)
    this.events?.take(bytes, from, to)
    assert(this.#used + to - from + 1 <= BODY_BYTES_MAX, 'a batch has room for a row')
    this.#room.set(bytes.subarray(from, to), this.#used)
    const end = this.#used + to - from
    this.#room[end] = 0
    this.#used = end + 1
    this.#rows += 1
    this.#batchRows += 1
    this.#ends[this.#count] = end
    this.#places[2 * this.#count] = this.#rows
    this.#places[2 * this.#count + 1] = line
    this.#count += 1
    return full
  }

  /** Refuses a row that is not added. Returns the batch so far where it is full. */
  refuse(code: string, line: number, before: number, column: string | null = null): RowBatch | undefined {
    const full = this.#takeFull(0, before)
    this.#rows += 1
    this.#batchRows += 1
    this.#report(code, this.#rows, line, column)
    return full
  }

  /** The batch, where it has no room for another row of `bytes` bytes. */
  #takeFull(bytes: number, before: number): RowBatch | undefined {
    const isFull = this.#batchRows === EVENTS_MAX || this.#used + bytes + 1 > BODY_BYTES_MAX
    return isFull ? this.take(before) : undefined
  }

  /** Ends the batch. `bytes`: see RowBatch. */
  take(bytes: number): RowBatch {
    this.#check()
    const refused = this.#firstRefused()
    const body = this.#count === 0 ? new Uint8Array(0) : this.#close()
    const batch: RowBatch = {
      body,
      places: this.#places.slice(0, 2 * this.#count),
      refused,
      refusedBy: this.#refusedBy,
      rows: this.#rows,
      bytes,
      ...this.takeCompared(),
    }
    this.#used = 1
    this.#count = 0
    this.#batchRows = 0
    this.#refused = []
    this.#refusedBy = new Map()
    return batch
  }

  /** What is newly known of the fields, as a part of a message; nothing where that is nothing. */
  takeCompared(): { readonly compared?: FieldComparison } {
    if (this.events?.hasNews === true) this.compared = this.events.result()
    const { compared } = this
    this.compared = undefined
    return compared === undefined ? {} : { compared }
  }

  #close(): Uint8Array {
    const room = this.#room
    for (let index = 0; index < this.#count - 1; index += 1) room[this.#ends[index]!] = COMMA
    room[this.#used - 1] = CLOSE_ARRAY
    this.#room = this.#spare ?? Buffer.allocUnsafeSlow(BODY_BYTES_MAX)
    this.#spare = undefined
    return new Uint8Array(room.buffer, room.byteOffset, this.#used)
  }

  /** The check at the end of a batch refuses rows that came before those refused at once. */
  #firstRefused(): readonly BadRow[] {
    const first = this.#refused.sort((a, b) => a.row - b.row).slice(0, this.#reportsLeft)
    this.#reportsLeft -= first.length
    return first
  }

  #report(code: string, row: number, line: number, column: string | null = null, why = ''): void {
    this.#refusedBy.set(code, (this.#refusedBy.get(code) ?? 0) + 1)
    if (this.#reportsLeft === 0) return
    const message = column === null ? MESSAGES[code] : 'the field is not JSON'
    this.#refused.push({ row, line, code, column, message: `${message ?? code}${why}` })
  }

  /** Refuses every row that is no JSON object, and closes the gaps that they leave. */
  #check(): void {
    if (this.#count === 0) return
    this.#room[0] = OPEN_ARRAY // so no byte order mark begins here
    const isText = this.#scan.load(this.#room, 0, this.#used)
    let [kept, used, start] = [0, 1, 1]
    for (let index = 0; index < this.#count; index += 1) {
      const end = this.#ends[index]!
      const [row, line] = [this.#places[2 * index]!, this.#places[2 * index + 1]!]
      const isBroken = !isText && !isUtf8(this.#room.subarray(start, end))
      const problem = isBroken ? { code: 'invalid_utf8' } : this.#problemAt(start, end)
      if (problem !== undefined) this.#report(problem.code, row, line, null, problem.why)
      else {
        if (used < start) this.#room.copyWithin(used, start, end + 1)
        used += end + 1 - start
        this.#ends[kept] = used - 1
        this.#places[2 * kept] = row
        this.#places[2 * kept + 1] = line
        kept += 1
      }
      start = end + 1
    }
    this.#count = kept
    this.#used = used
  }

  /** Why the row in bytes [start, end) is no JSON object, with more words for its message. */
  #problemAt(start: number, end: number): { code: string; why?: string } | undefined {
    const scan = this.#scan
    scan.pos = start
    scan.depth = 0
    scan.document = DOCUMENT.ok
    const isObject = scan.skipSpace() === OPEN_OBJECT
    if (scan.skipValue()) {
      scan.skipSpace()
      if (scan.pos === end) return isObject ? undefined : { code: 'not_object' }
      scan.refuseGrammar(EXPECTED.end)
    }
    const { code } = describeDocument(scan.document)
    if (code !== 'not_json') return { code }
    return { code, why: `: ${describeGrammar(scan.refusalWord(end), scan.stoppedAt - start)}` }
  }
}
