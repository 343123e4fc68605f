/** The tests of the native kernel share a schema, and bodies laid out in shared memory. */

import type { ColumnType, PoolSchema, SchemaColumn } from '../../src/format/schema.ts'
import { type MakeKernel, REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { tryNativeKernel } from '../../src/parse/kernel-native.ts'
import { must } from '../../src/util/errors.ts'
import { tryNative } from '../../src/util/native.ts'

/** The module's own functions, unchecked: what no TypeScript caller could pass. */
export const nativeModule =
  tryNative<Record<'makeKernel' | 'parse' | 'writeBatch' | 'freeKernel', (...words: unknown[]) => unknown>>()

/** A native kernel. Throws where the module was not built. */
export const makeNativeKernel: MakeKernel = (...of) => must(tryNativeKernel(), 'the native module')(...of)

function column(name: string, type: ColumnType, required = false, jsonProperty = name): SchemaColumn {
  return { name, type, jsonProperty, required }
}

/** Every way a value is stored: text, time, number, bit, JSON, nested. Key: time and id. */
export const SCHEMA: PoolSchema = {
  pool: 7,
  version: 1,
  columns: [
    column('time', 'TIMESTAMP', true),
    column('id', 'STRING', true),
    column('amount', 'DOUBLE'),
    column('count', 'INT32'),
    column('paid', 'BOOLEAN'),
    column('extra', 'JSON'),
    column('city', 'STRING', false, 'customer.city'),
  ],
  timestamp: 0,
  tenant: -1,
  key: { columns: [0, 1], version: -1 },
}

/** A body of `count` events; the text differs with `salt`. */
export function bodyOf(count: number, salt: number): string {
  const events = Array.from({ length: count }, (_, i) => ({
    id: i % 7 === 0 ? `${salt}-${i}-`.repeat(40) : `${salt}-${i}`,
    time: `2026-03-04T05:06:07.${String((i * 37 + salt) % 1000).padStart(3, '0')}Z`,
    amount: i % 5 === 0 ? null : (i * salt) / 8,
    count: i % 11 === 0 ? 'many' : i,
    paid: i % 2 === 0,
    extra: { salt, list: [i, { deep: 'ä"\\\u0000' }] },
    customer: i % 3 === 0 ? { city: `city ${i}` } : i,
  }))
  return JSON.stringify(events)
}

/** Bodies one after the other in shared memory, each behind `gap` bytes, and their table. */
export function shared(bodies: readonly string[], gap = 3): { slab: Uint8Array; table: Float64Array } {
  const encoded = bodies.map(body => Buffer.from(body))
  const bytes = encoded.reduce((sum, body) => sum + body.length + gap, 0)
  const slab = new Uint8Array(new SharedArrayBuffer(bytes)).fill(0x7b)
  const table = new Float64Array(REQUEST_WORDS * bodies.length)
  let end = 0
  encoded.forEach((body, index) => {
    const at = REQUEST_WORDS * index
    end += gap
    slab.set(body, end)
    table[at + REQUEST.offset] = end
    table[at + REQUEST.bytes] = body.length
    table[at + REQUEST.receivedAtUs] = 1_700_000_000_000_123
    table[at + REQUEST.bits] = -1
    end += body.length
  })
  return { slab, table }
}
