/** A transaction tells what a key of it took, where it has enough keys to tell. */
import { describe, expect, test } from 'vitest'
import { createIndex } from '../../src/index/key-index.ts'
import { KEY_COST_KEYS_MIN } from '../../src/util/limits.ts'
import { MAP_BYTES, metaOf, runOf, STORES, temporaryFolder } from './help.ts'

const keysOf = (count: number) =>
  runOf(Object.fromEntries(Array.from({ length: count }, (_, i) => [`key${String(i).padStart(6, '0')}`, i])))

describe.each(STORES)('%s', (_, open) => {
  test('flushes and swaps of many keys tell it, the others do not', () => {
    const index = createIndex(open({ folder: temporaryFolder(), mapBytes: MAP_BYTES }), 'folder')
    const flush = (segment: number, rows: number) => {
      const add = metaOf(segment, { rows })
      const [committed] = index.commit([
        { pool: segment, add, remove: [], keys: keysOf(rows), flushedSequence: add.sequenceTo },
      ])
      return committed?.usPerKey
    }
    const swap = (segment: number, rows: number) =>
      index.commitCompaction({
        pool: segment,
        add: metaOf(segment + 10, { rows }),
        remove: [segment],
        keys: keysOf(rows),
      }).usPerKey
    const [few, many] = [KEY_COST_KEYS_MIN - 1, KEY_COST_KEYS_MIN]
    expect([flush(1, few), swap(1, few)]).toEqual([undefined, undefined])
    expect(flush(2, many)).toBeGreaterThan(0)
    expect(swap(2, many)).toBeGreaterThan(0)
    index.close()
  })
})
