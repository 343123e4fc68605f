/** A commit with enough keys reports the time that each key took. */
import { describe, expect, test } from 'vitest'
import { Index, KEY_COST_KEYS_MIN } from '../../src/index/key-index.ts'
import { temporaryFolder } from '../util/server.ts'
import { MAP_BYTES, metaOf, runOf, STORES } from './flushes.ts'

const keysOf = (count: number) =>
  runOf(Object.fromEntries(Array.from({ length: count }, (_, i) => [`key${String(i).padStart(6, '0')}`, i])))

describe.each(STORES)('%s', (_, open) => {
  test('flushes and compaction commits of many keys report it, the others do not', () => {
    const index = new Index(open({ folder: temporaryFolder(), mapBytes: MAP_BYTES }), 'folder')
    const flush = (segment: number, rows: number) => {
      const add = metaOf(segment, { rows })
      const [committed] = index.commit([
        { pool: segment, add, remove: [], keys: keysOf(rows), flushedSequence: add.sequenceTo },
      ])
      return committed?.usPerKey
    }
    const compact = (segment: number, rows: number) =>
      index.commitCompaction({
        pool: segment,
        add: metaOf(segment + 10, { rows }),
        remove: [segment],
        keys: keysOf(rows),
      }).usPerKey
    const [few, many] = [KEY_COST_KEYS_MIN - 1, KEY_COST_KEYS_MIN]
    expect([flush(1, few), compact(1, few)]).toEqual([undefined, undefined])
    expect(flush(2, many)).toBeGreaterThan(0)
    expect(compact(2, many)).toBeGreaterThan(0)
    index.close()
  })
})
