/**
 * batchBytesMax() is an upper bound for the batch of a body. Tasks are sized by it (W-9).
 */
import { expect, test } from 'vitest'
import { type BatchBuffer, batchBytesMax, batchCostOf } from '../../src/format/batch-layout.ts'
import type { PoolSchema, SchemaColumn } from '../../src/format/schema.ts'
import { REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'
import { makeCase } from '../fuzz/differential.ts'
import { parseAll, schemaOf } from './reading.ts'

const bytesOf = (batch: BatchBuffer) => new Int32Array(batch)[4]!
const boundOf = (schema: PoolSchema, body: string) =>
  batchBytesMax(batchCostOf(schema), Buffer.byteLength(body))
const columns = (count: number, column: (index: number) => Partial<SchemaColumn>) =>
  schemaOf(Array.from({ length: count }, (_, index) => column(index)))

test('generated schemas and bodies', () => {
  const first = Math.floor(Math.random() * 1e9)
  let count = 0
  for (let seed = first; seed < first + 500; seed += 1) {
    const { schema, kind, slab, table } = makeCase(seed)
    const requests = table.length / REQUEST_WORDS
    const { batch } = makeJsKernel(schema, kind).parse(slab, table, 0, requests)
    let bound = 0
    for (let at = 0; at < table.length; at += REQUEST_WORDS)
      bound += batchBytesMax(batchCostOf(schema), table[at + REQUEST.bytes]!)
    expect(bytesOf(batch), `seed ${seed}`).toBeLessThanOrEqual(bound)
    count += 1
  }
  expect(count).toBe(500)
})

test('the bodies that grow most: rows of nulls, one value in every column, values within values', () => {
  const empty = `[${new Array(500).fill('{}').join()}]`
  const doubles = columns(500, () => ({ type: 'DOUBLE' }))
  const text = JSON.stringify({ a: { b: { c: 'x'.repeat(1_000) } } })
  const same = columns(500, () => ({ type: 'STRING', jsonProperty: 'a.b.c' }))
  const within = columns(300, index => ({ jsonProperty: ['a', 'a.b', 'a.b.c'][index % 3]! }))
  for (const [schema, body] of [
    [doubles, empty],
    [same, text],
    [within, text],
  ] as const) {
    const bytes = bytesOf(parseAll(schema, [{ body }]).batch)
    expect(bytes).toBeGreaterThan(200 * body.length)
    expect(bytes).toBeLessThanOrEqual(boundOf(schema, body))
  }
})

test('columns that read different values do not add up', () => {
  const body = JSON.stringify({ a: 'x'.repeat(10_000) })
  const schema = columns(20, index => ({ type: 'STRING', jsonProperty: `p${index}` }))
  expect(boundOf(schema, body)).toBeLessThan(30 * body.length)
})
