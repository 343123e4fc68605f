/** Pools with one schema share its kernels, and pools whose schemas differ in anything do not. */
import { describe, expect, test } from 'vitest'
import { shareSchema } from '../../src/catalog/documents/model.ts'
import type { PoolSchema, RequestKind } from '../../src/format/schema.ts'
import { KernelCache } from '../../src/parse/kernel-cache.ts'
import type { ParseTaskGroup } from '../../src/parse/parse-task.ts'
import { SCHEMA } from './native_calls.ts'

function group(schema: PoolSchema, kind: RequestKind = 'post'): ParseTaskGroup {
  return { kind, pool: schema.pool, version: schema.version, schema: shareSchema(schema), from: 0, to: 1 }
}

const schema = (pool: number, more: Partial<PoolSchema> = {}): PoolSchema => ({ ...SCHEMA, pool, ...more })

describe.each(['native', 'js'] as const)('kernels %s', kernel => {
  test('of one schema are made once for all pools and versions that have it', () => {
    const cache = new KernelCache(kernel)
    const first = cache.of(group(schema(1)))
    expect(cache.of(group(schema(2, { version: 5 })))).toBe(first)
    expect(cache.of(group(schema(1)))).toBe(first)
  })

  test.each<[string, Partial<PoolSchema>]>([
    ['another column', { columns: SCHEMA.columns.slice(0, -1) }],
    ['another property', { columns: SCHEMA.columns.map(one => ({ ...one, jsonProperty: `x.${one.name}` })) }],
    ['a required column', { columns: SCHEMA.columns.map(one => ({ ...one, required: true })) }],
    ['another type', { columns: SCHEMA.columns.map(one => ({ ...one, type: 'STRING' })) }],
    ['columns that take texts', { columns: SCHEMA.columns.map(one => ({ ...one, coerce: true })) }],
    ['another key', { key: { columns: [1], version: -1 } }],
    ['no key', { key: null }],
    ['a version column', { key: { columns: [0, 1], version: 2 } }],
    ['events elsewhere', { eventsPath: 'data.list' }],
  ])('are not shared with a schema of %s', (_, other) => {
    const cache = new KernelCache(kernel)
    const first = cache.of(group(schema(1)))
    expect(cache.of(group(schema(2, other)))).not.toBe(first)
    // Neither does a later version of the same pool get the kernel of the earlier one.
    expect(cache.of(group(schema(1, { version: 2, ...other })))).not.toBe(first)
    expect(cache.of(group(schema(1)))).toBe(first)
  })

  test('are of one kind of request', () => {
    const cache = new KernelCache(kernel)
    expect(cache.of(group(schema(1), 'delete'))).not.toBe(cache.of(group(schema(1))))
  })
})
