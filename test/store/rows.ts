/** Schemas and random rows for the tests of this stage. */

import { COLUMN_TYPES, type ColumnType, type PoolSchema, type SchemaColumn } from '../../src/format/schema.ts'
import type { MemtableEntry } from '../../src/store/flush/memtable.ts'
import { makeBatch, makeDeletes, type Row, type Value } from '../util/make-batch.ts'
import { randomFrom } from '../util/random.ts'

/** Integers in [0, below) from a seed, so that a failure can be run again. */
export function randomOf(seed: number): (below: number) => number {
  const random = randomFrom(seed)
  return below => Math.floor(random() * below)
}

/** A pool with a column of every type, keyed or not. */
export function schemaOfAll(isKeyed: boolean): PoolSchema {
  const columns: SchemaColumn[] = COLUMN_TYPES.map(type => ({
    name: type.toLowerCase(),
    type,
    jsonProperty: type,
    required: false,
  }))
  columns.push({ name: 'id', type: 'STRING', jsonProperty: 'id', required: true })
  columns.push({ name: 'at', type: 'TIMESTAMP', jsonProperty: 'at', required: true })
  const key = isKeyed ? { columns: [12, 11], version: -1 } : null
  return { pool: 7, version: 3, columns, timestamp: 12, tenant: 11, key }
}

/** A pool without columns but a key. */
export const keySchema: PoolSchema = {
  pool: 1,
  version: 1,
  columns: [{ name: 'id', type: 'STRING', jsonProperty: 'id', required: true }],
  timestamp: -1,
  tenant: -1,
  key: { columns: [-1, 0], version: -1 },
}

const TEXTS = ['', 'a', '\u0000', 'x\u0000y', 'ä€𝄞', 'long '.repeat(200)]

function randomValue(type: ColumnType, random: (below: number) => number): Value {
  switch (type) {
    case 'BOOLEAN':
      return random(2) === 1
    case 'STRING':
      return TEXTS[random(TEXTS.length)]!
    case 'JSON':
      return ['{"a":[1,2]}', '"\\u0000"', '123456789012345678901234567890', '[]'][random(4)]!
    case 'FLOAT':
      return Math.fround((random(2_000_001) - 1_000_000) / 7)
    case 'DOUBLE':
      return [Number.MAX_VALUE, Number.MIN_VALUE, 0, -1.5, 1e300][random(5)]!
    case 'INT8':
      return random(256) - 128
    case 'INT16':
      return random(65_536) - 32_768
    case 'INT32':
      return [2_147_483_647, -2_147_483_648, 0, 1][random(4)]!
    case 'INT64':
      return [9_223_372_036_854_775_807n, -9_223_372_036_854_775_808n, 0n, -1n][random(4)]!
    case 'DATE':
      return random(2_932_896 + 719_162) - 719_162
    case 'TIMESTAMP':
      return [-62_135_596_800_000_000n, 253_402_300_799_999_999n, 0n, 1_700_000_000_123_456n][random(4)]!
  }
}

/** A random row; a fifth of the nullable values are null. */
export function randomRow(schema: PoolSchema, random: (below: number) => number, key: string): Row {
  const values = schema.columns.map(column => {
    if (column.name === 'id') return key
    if (column.name === 'at') return 1_700_000_000_000_000n + BigInt(random(1000))
    return random(5) === 0 ? null : randomValue(column.type, random)
  })
  const row = { payload: `{"id":"${key}","t":"${TEXTS[random(3)]!.replaceAll('\u0000', '')}"}`, values }
  return schema.key === null ? row : { ...row, key }
}

/** Requests as [sequence, received-at in µs, rows] or [sequence, received-at, rows, step in µs]. */
export function requestWords(requests: readonly (readonly number[])[]): Float64Array {
  return Float64Array.from(
    requests.flatMap(([sequence, us, rows, stepUs = 0]) => [sequence!, us!, rows!, stepUs]),
  )
}

/** An entry of posts, one request of each of `requests` (see requestWords). */
export function post(
  schema: PoolSchema,
  rows: readonly Row[],
  requests: readonly (readonly number[])[],
): MemtableEntry {
  return { kind: 'post', batch: makeBatch(schema, rows), requests: requestWords(requests) }
}

/** An entry of deletes. */
export function remove(
  keys: readonly (string | Uint8Array)[],
  requests: readonly (readonly number[])[],
): MemtableEntry {
  return { kind: 'delete', batch: makeDeletes(keys), requests: requestWords(requests) }
}

/** Random entries: batches of odd sizes, duplicate keys, some deletes, interleaved sequences. */
export function randomEntries(schema: PoolSchema, seed: number, batches: number): MemtableEntry[] {
  const random = randomOf(seed)
  const entries: MemtableEntry[] = []
  for (let b = 0; b < batches; b++) {
    const sequence = 10 + 3 * b
    const isDelete = schema.key !== null && random(4) === 0
    const [first, second] = [random(40), 1 + random(30)]
    const keys = Array.from({ length: first + second }, () => `k${random(batches * 25)}`)
    const requests = [
      [sequence, 1_700_000_000_000_000 + b, first, random(2)],
      [sequence + 4, 1_700_000_000_500_000 + b, second, random(2)],
    ]
    const rows = () => keys.map(key => randomRow(schema, random, key))
    entries.push(isDelete ? remove(keys, requests) : post(schema, rows(), requests))
  }
  return entries
}
