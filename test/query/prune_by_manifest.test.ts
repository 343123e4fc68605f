import { expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { prune } from '../../src/query/plan/prune-segments.ts'
import { schemaOf } from './pool.ts'

const schema = schemaOf(
  [
    ['s', 'STRING'],
    ['n', 'INT64'],
  ],
  { tenant: 0 },
)
const NOTHING = { timeFromUs: null, timeToUs: null, tenantEquals: null }

function segment(meta: Partial<QuerySegment['meta']>): QuerySegment {
  const plain = {
    segment: 1,
    rows: 10,
    bytes: 1,
    checksum: 1,
    schemaVersion: 1,
    sequenceFrom: 1,
    sequenceTo: 1,
    receivedFromUs: 0,
    receivedToUs: 0,
    timestampFromUs: 100,
    timestampToUs: 200,
    tenant: { min: 'b', max: 'd' },
    deletes: 0,
  }
  return { file: 'x', deletionVectors: [], meta: { ...plain, ...meta } }
}

function kept(planned: Partial<typeof NOTHING> | object, meta: Partial<QuerySegment['meta']> = {}): boolean {
  return prune(schema, { ...NOTHING, ...planned }, [segment(meta)]).length === 1
}

test('W-8 only segments that cannot hold a row of the range are left out', () => {
  expect(kept({})).toBe(true)
  expect(kept({}, { rows: 0 })).toBe(false)
  expect(kept({ timeFromUs: 200 })).toBe(true)
  expect(kept({ timeFromUs: 201 })).toBe(false)
  expect(kept({ timeToUs: 101 })).toBe(true)
  expect(kept({ timeToUs: 100 })).toBe(false)
  expect(kept({ timeFromUs: 201 }, { timestampFromUs: null, timestampToUs: null })).toBe(true)
  expect(kept({ timeToUs: 2 ** 54 }, { timestampFromUs: 2 ** 54, timestampToUs: 2 ** 55 })).toBe(true)
})

test('W-8 segments without the tenant are left out', () => {
  for (const tenantEquals of ['b', 'c', 'd']) expect(kept({ tenantEquals })).toBe(true)
  for (const tenantEquals of ['a', 'B', 'da', '']) expect(kept({ tenantEquals })).toBe(false)
  expect(kept({ tenantEquals: 'z' }, { tenant: null })).toBe(true)
  // By bytes of UTF-8, not by UTF-16 units: U+10000 is above U+FFFF.
  expect(kept({ tenantEquals: '\u{10000}' }, { tenant: { min: 'a', max: '\uffff' } })).toBe(false)
  expect(kept({ tenantEquals: '\uffff' }, { tenant: { min: 'a', max: '\u{10000}' } })).toBe(true)
  const numbers = schemaOf([['n', 'INT64']], { tenant: 0 })
  const number = (tenantEquals: string) =>
    prune(numbers, { ...NOTHING, tenantEquals } as never, [segment({ tenant: { min: '9', max: '100' } })])
      .length
  expect([number('8'), number('9'), number('50'), number('100'), number('101')]).toEqual([0, 1, 1, 1, 0])
})
