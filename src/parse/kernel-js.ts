/**
 * The kernel in TypeScript, the specification (kernel.ts).
 *
 * One pass over each body. A row is written as its event ends. Where the document breaks later, or
 * one event of an all-or-nothing request is invalid, the request's rows are taken back.
 *
 *   W-12  All accepted events of a request stand in the batch, or none.
 */

import { KIND, kindOf } from '../format/batch-layout.ts'
import { deleteSchema, type PoolSchema, type RequestKind, withoutEnvelope } from '../format/schema.ts'
import { assert, must } from '../util/errors.ts'
import { EVENTS_MAX } from '../util/limits.ts'
import { CLOSE_ARRAY, COMMA, OPEN_ARRAY, OPEN_OBJECT } from './characters.ts'
import { coerce } from './coerce.ts'
import { Column, KeyWriter, writeBatch } from './column-builders.ts'
import { DOCUMENT, EVENT_ERROR, EXPECTED, errorWord, FOUND } from './event-error.ts'
import { JsonScan } from './json-scan.ts'
import {
  type Allocate,
  exactly,
  FLAG,
  type Kernel,
  type KernelOptions,
  type MakeKernel,
  OUTCOME,
  OUTCOME_WORDS,
  type Parsed,
  REQUEST,
  REQUEST_WORDS,
} from './kernel.ts'
import { EventScan } from './parse-event.ts'
import { makePaths, type Paths } from './path.ts'
import { setValue, type Value } from './set-value.ts'

/** The first byte of a context that is null. */
const NULL = 0x6e
/** In the place of a column: the event itself is not an object. */
const NO_COLUMN = -1

/**
 * All kernels of a thread share these buffers, because they grow to the largest body and there may
 * be a kernel for each of thousands of pools. No call reads what an earlier call left in them.
 */
const scan = new JsonScan()
const contextScan = new JsonScan()
const payload = new Column(KIND.binary)
const key = new Column(KIND.binary)

/** Makes TypeScript kernels. A kernel for deletes reads only the key's columns (deleteSchema). */
export const makeJsKernel: MakeKernel = (schema, kind, options = {}) => new JsKernel(schema, kind, options)

class JsKernel implements Kernel {
  readonly #schema: PoolSchema
  readonly #allocate: Allocate
  readonly #paths: Paths
  readonly #event: EventScan
  /** The slot of the event in an envelope that its payload keeps; -1 where it keeps none. */
  #eventSlot = -1
  /** Where in the paths those of events without their envelope begin. */
  #alone = 0
  /** The values of the request's context; undefined where no column reads it. */
  readonly #context: EventScan | undefined
  readonly #value: Value
  readonly #columns: readonly Column[]
  readonly #cutsEpochs: boolean
  /** The columns of the batch. A batch of deletes has only payload and key. */
  readonly #batchColumns: readonly Column[]
  readonly #keyWriter: KeyWriter
  readonly #keepsPayload: boolean
  readonly #kind: RequestKind
  #rows = 0
  #errors: number[] = []
  // State of the request that is being parsed.
  #slab: Uint8Array = new Uint8Array(0)
  #request = 0
  #receivedAtUs = 0
  #bits = -1
  /** Rows of imports and deletes bring what columns read from the request as properties. */
  #hasProperties = false
  #events = 0
  /** The element of the array in which the scan stands; -1 outside of all. */
  #element = -1

  constructor(
    schema: PoolSchema,
    kind: RequestKind,
    { allocate = exactly, deletesHaveColumns = false }: KernelOptions,
  ) {
    this.#allocate = allocate
    this.#schema = kind === 'delete' ? deleteSchema(schema) : schema
    this.#cutsEpochs = schema.cutsEpochs === true
    const { columns, eventsPath = '', keepEnvelope } = this.#schema
    if (keepEnvelope === true) {
      const alone = columns.map(column => withoutEnvelope(this.#schema, column))
      this.#paths = makePaths([...columns, ...alone, { jsonProperty: eventsPath }])
      this.#alone = columns.length
      this.#eventSlot = this.#paths.path[2 * columns.length]!
    } else this.#paths = makePaths(columns)
    this.#event = new EventScan(scan, this.#paths)
    if (columns.some(({ from }) => from !== undefined))
      this.#context = new EventScan(contextScan, this.#paths)
    this.#value = { bytes: scan.bytes, found: FOUND.nothing, mark: 0, start: 0, end: 0 }
    this.#columns = this.#schema.columns.map(column => new Column(kindOf(column.type)))
    const hasColumns = kind === 'post' || deletesHaveColumns
    this.#keepsPayload = hasColumns
    this.#kind = kind
    this.#batchColumns = [payload, key, ...(hasColumns ? this.#columns : [])]
    this.#keyWriter = new KeyWriter(this.#schema, this.#columns)
  }

  parse(slab: Uint8Array, table: Float64Array, from: number, to: number): Parsed {
    const outcomes = new Int32Array((to - from) * OUTCOME_WORDS)
    this.#slab = slab
    this.#rows = 0
    this.#errors = []
    for (let request = 0; request < to - from; request++)
      this.#parseRequest(table, REQUEST_WORDS * (from + request), request, outcomes)
    const batch = writeBatch(this.#batchColumns, this.#rows, this.#allocate)
    return { batch, outcomes, errors: Int32Array.from(this.#errors) }
  }

  #parseRequest(table: Float64Array, at: number, request: number, outcomes: Int32Array): void {
    const rowsBefore = this.#rows
    const errorsBefore = this.#errors.length
    this.#request = request
    this.#receivedAtUs = table[at + REQUEST.receivedAtUs]!
    this.#bits = table[at + REQUEST.bits]!
    this.#events = 0
    this.#element = -1
    const offset = table[at + REQUEST.offset]!
    this.#readContext(offset, table[at + REQUEST.contextBytes]!)
    const document = this.#parseDocument(offset, table[at + REQUEST.bytes]!)
    if (document !== DOCUMENT.ok) {
      this.#rows = rowsBefore
      this.#errors.length = errorsBefore
      this.#events = 0
      const { stoppedAt } = scan
      if (stoppedAt >= 0) this.#report(this.#element, scan.refusalWord(), stoppedAt)
    } else if (this.#errors.length > errorsBefore && (table[at + REQUEST.flags]! & FLAG.all_or_nothing) !== 0)
      this.#rows = rowsBefore
    const out = OUTCOME_WORDS * request
    outcomes[out + OUTCOME.events] = this.#events
    outcomes[out + OUTCOME.accepted] = this.#rows - rowsBefore
    outcomes[out + OUTCOME.document] = document
    outcomes[out + OUTCOME.event] = this.#element
  }

  /** Reads the context that ends at `offset`. */
  #readContext(offset: number, bytes: number): void {
    this.#hasProperties = this.#kind === 'delete' || (bytes > 0 && this.#slab[offset - bytes] === NULL)
    if (this.#context === undefined || this.#hasProperties) return
    if (bytes === 0) {
      this.#context.clear()
      return
    }
    const isRead = contextScan.load(this.#slab, offset - bytes, bytes) && this.#context.walk()
    assert(isRead, 'the context of a request is a JSON object')
  }

  /** Parses the body at `offset` into rows. Returns a value of DOCUMENT. */
  #parseDocument(offset: number, length: number): number {
    if (!scan.load(this.#slab, offset, length)) return scan.document
    const first = scan.skipSpace()
    if (first === OPEN_ARRAY) {
      if (!this.#parseArray()) return scan.document
    } else if (first === OPEN_OBJECT) {
      if (!this.#parseElement(0)) return scan.document
      this.#events = 1
    } else if (!scan.skipValue()) return scan.document
    this.#element = -1
    scan.skipSpace()
    if (scan.pos !== scan.end) {
      scan.refuseGrammar(EXPECTED.end)
      return DOCUMENT.not_json
    }
    if (first !== OPEN_ARRAY && first !== OPEN_OBJECT) return DOCUMENT.not_object_or_array
    return this.#events > EVENTS_MAX ? DOCUMENT.too_many_events : DOCUMENT.ok
  }

  #parseArray(): boolean {
    if (!scan.enter()) return false
    if (scan.skipSpace() === CLOSE_ARRAY) {
      scan.leave()
      return true
    }
    for (;;) {
      if (!this.#parseElement(this.#events)) return false
      this.#events++
      this.#element = -1
      const byte = scan.skipSpace()
      if (byte === CLOSE_ARRAY) {
        scan.leave()
        return true
      }
      if (byte !== COMMA) return scan.refuseGrammar(EXPECTED.bracket)
      scan.pos++
      scan.skipSpace()
    }
  }

  /** Parses one event into a row or an error. Returns false where it refuses the document. */
  #parseElement(index: number): boolean {
    this.#element = index
    // An event beyond the limit gives no row. The scan goes on, because a broken document is
    // reported as broken.
    if (index >= EVENTS_MAX || !this.#isWanted(index)) return scan.skipValue()
    const start = scan.pos
    if (scan.bytes[start] !== OPEN_OBJECT) {
      if (!scan.skipValue()) return false
      this.#report(index, errorWord(EVENT_ERROR.not_object, scan.found), NO_COLUMN)
      return true
    }
    if (!this.#event.walk()) return false
    this.#writeRow(index, start, scan.pos)
    return true
  }

  #isWanted(index: number): boolean {
    return this.#bits < 0 || ((this.#slab[this.#bits + (index >> 3)]! >> (index & 7)) & 1) === 1
  }

  #report(index: number, word: number, column: number): void {
    this.#errors.push(this.#request, index, word, column)
  }

  #writeRow(index: number, start: number, end: number): void {
    const row = this.#rows
    const columns = this.#columns
    for (let i = 0; i < columns.length; i++) {
      const word = this.#writeColumn(i, row)
      if (word === 0) continue
      this.#report(index, word, i)
      return
    }
    payload.reserve(row)
    payload.setBytes(row, scan.bytes, start, this.#keepsPayload ? end : start)
    key.reserve(row)
    this.#keyWriter.write(key, row, this.#receivedAtUs)
    this.#rows = row + 1
  }

  /** True where the event has its envelope. Rows of imports may be named by columns instead. */
  #isInEnvelope(): boolean {
    return this.#eventSlot >= 0 && this.#event.found[this.#eventSlot] !== FOUND.nothing
  }

  /** Writes column `i` of the event that was just walked. Returns 0 or an error word. */
  #writeColumn(i: number, row: number): number {
    const { type, required, from, coerce: isCoerced } = this.#schema.columns[i]!
    const isFromRequest = from !== undefined && !this.#hasProperties
    const event = isFromRequest ? must(this.#context, 'the context of a request') : this.#event
    const whole = this.#paths.whole[i]!
    let slot = event.found[whole] !== FOUND.nothing ? whole : this.#paths.path[this.#alone + i]!
    if (from === undefined && this.#isInEnvelope()) slot = this.#paths.path[i]!
    const value = this.#value
    value.bytes = isFromRequest ? contextScan.bytes : scan.bytes
    value.found = event.found[slot]!
    value.mark = event.mark[slot]!
    value.start = event.starts[slot]!
    value.end = event.ends[slot]!
    if (isCoerced) coerce(type, value, this.#cutsEpochs)
    const column = this.#columns[i]!
    column.reserve(row)
    if (value.found === FOUND.nothing || value.found === FOUND.null) {
      if (required) return errorWord(EVENT_ERROR.missing, value.found)
      column.setNull(row)
      return 0
    }
    return setValue(column, type, row, value, this.#cutsEpochs)
  }
}
