/** For tests of kernels: one call with plain arguments, and a batch read back as plain values. */

import {
  type BatchBuffer,
  batchColumns,
  batchRows,
  type ColumnView,
  columnView,
  KIND,
} from '../../src/format/batch-layout.ts'
import type { ColumnType, PoolSchema, RequestKind, SchemaColumn } from '../../src/format/schema.ts'
import { DOCUMENT, EVENT_ERROR, FOUND } from '../../src/parse/event-error.ts'
import {
  ERROR_WORDS,
  type MakeKernel,
  OUTCOME_WORDS,
  type Parsed,
  REQUEST,
  REQUEST_WORDS,
} from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'

export const RECEIVED_AT_US = 1_700_000_000_123_456

export interface Request {
  readonly body: string | Uint8Array
  readonly flags?: number
  readonly bits?: Uint8Array
  /** The request's context, which stands before the body. */
  readonly context?: string
}

/** Parses requests, with rubbish between the bodies in the slab. */
export function parseAll(
  schema: PoolSchema,
  requests: readonly Request[],
  kind: RequestKind = 'post',
  make: MakeKernel = makeJsKernel,
): Parsed {
  const contexts = requests.map(({ context = '' }) => Buffer.from(context))
  const bodies = requests.map(({ body }, index) => Buffer.concat([contexts[index]!, Buffer.from(body)]))
  const bytes = bodies.reduce((sum, body) => sum + body.length + 80, 0)
  const slab = new Uint8Array(new SharedArrayBuffer(bytes)).fill(0x22)
  const table = new Float64Array(requests.length * REQUEST_WORDS)
  let end = 3
  requests.forEach((request, index) => {
    const at = index * REQUEST_WORDS
    slab.set(bodies[index]!, end)
    table[at + REQUEST.offset] = end + contexts[index]!.length
    table[at + REQUEST.bytes] = bodies[index]!.length - contexts[index]!.length
    table[at + REQUEST.contextBytes] = contexts[index]!.length
    table[at + REQUEST.flags] = request.flags ?? 0
    table[at + REQUEST.receivedAtUs] = RECEIVED_AT_US
    table[at + REQUEST.bits] = -1
    end += bodies[index]!.length
    if (request.bits !== undefined) {
      slab.set(request.bits, end)
      table[at + REQUEST.bits] = end
    }
    end += 73
  })
  return make(schema, kind).parse(slab, table, 0, requests.length)
}

/** A schema of these columns, without a key unless one is given. */
export function schemaOf(
  columns: readonly Partial<SchemaColumn>[],
  key: PoolSchema['key'] = null,
): PoolSchema {
  const full = columns.map((column, index) => ({
    name: `c${index}`,
    type: 'JSON' as ColumnType,
    jsonProperty: `c${index}`,
    required: false,
    ...column,
  }))
  return { pool: 1, version: 1, columns: full, timestamp: -1, tenant: -1, key }
}

/**
 * A stored value: text for STRING and JSON alike, microseconds and i64 as bigint, null for null.
 */
export type Stored = string | number | bigint | boolean | null

/** All values of column `index` of a batch (0 payload, 1 key in latin1, 2… the schema's). */
export function readColumn(batch: BatchBuffer, index: number): Stored[] {
  const view = columnView(batch, index)
  const bytes = new Uint8Array(batch)
  return Array.from({ length: batchRows(batch) }, (_, row) => {
    if (view.nulls > 0 && ((bytes[view.validityOffset + (row >> 3)]! >> (row & 7)) & 1) === 0) return null
    return readValue(batch, view, row, index === 1 ? 'latin1' : 'utf8')
  })
}

function readValue(batch: BatchBuffer, view: ColumnView, row: number, encoding: BufferEncoding): Stored {
  const at = view.dataOffset
  const data = new DataView(batch, at)
  switch (view.kind) {
    case KIND.binary: {
      const offsets = new Int32Array(batch, view.offsetsOffset, row + 2)
      return Buffer.from(batch, at + offsets[row]!, offsets[row + 1]! - offsets[row]!).toString(encoding)
    }
    case KIND.bool:
      return ((data.getUint8(row >> 3) >> (row & 7)) & 1) === 1
    case KIND.i8:
      return data.getInt8(row)
    case KIND.i16:
      return data.getInt16(2 * row, true)
    case KIND.i32:
      return data.getInt32(4 * row, true)
    case KIND.i64:
      return data.getBigInt64(8 * row, true)
    case KIND.f32:
      return data.getFloat32(4 * row, true)
    case KIND.f64:
      return data.getFloat64(8 * row, true)
  }
}

/** All schema columns of a batch, row by row. */
export function readRows(batch: BatchBuffer): Stored[][] {
  const columns = Array.from({ length: batchColumns(batch) - 2 }, (_, index) => readColumn(batch, index + 2))
  return Array.from({ length: batchRows(batch) }, (_, row) => columns.map(column => column[row]!))
}

export interface Outcome {
  readonly events: number
  readonly accepted: number
  readonly document: string
  readonly event: number
}

/** Outcomes with words for numbers. */
export function readOutcomes(parsed: Parsed): Outcome[] {
  return Array.from({ length: parsed.outcomes.length / OUTCOME_WORDS }, (_, index) => {
    const [events, accepted, document, event] = parsed.outcomes.subarray(OUTCOME_WORDS * index)
    return { events: events!, accepted: accepted!, document: nameOf(DOCUMENT, document!), event: event! }
  })
}

/** Event errors as `request/event error:found@column`. */
export function readErrors(parsed: Parsed): string[] {
  return Array.from({ length: parsed.errors.length / ERROR_WORDS }, (_, index) => {
    const [request, event, word, column] = parsed.errors.subarray(ERROR_WORDS * index)
    return `${request}/${event} ${nameOf(EVENT_ERROR, word! & 0xff)}:${nameOf(FOUND, word! >> 8)}@${column}`
  })
}

function nameOf(words: Readonly<Record<string, number>>, value: number): string {
  return Object.keys(words).find(word => words[word] === value) ?? `? ${value}`
}
