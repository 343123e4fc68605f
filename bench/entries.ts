/** Rows of bench events as a memtable holds them. */
import type { PoolSchema } from '../src/format/schema.ts'
import type { MemtableEntry } from '../src/store/flush/memtable.ts'
import { makeBatch } from '../test/util/make-batch.ts'
import { BATCH_EVENTS, BENCH_COLUMNS, benchEvent, createRandom } from './events.ts'

/** The six bench columns with a key, and tenants. */
export const BENCH_SCHEMA: PoolSchema = {
  pool: 1,
  version: 1,
  columns: BENCH_COLUMNS.map(({ name, type, jsonProperty, nullable }) => ({
    name,
    type,
    jsonProperty,
    required: !nullable,
  })),
  timestamp: 1,
  tenant: 2,
  key: { columns: [1, 0], version: -1 },
}

/** The key of event number `index`: its bytes as they stand in a batch. */
type KeyOf = (index: number, id: string) => string | Uint8Array

/**
 * Events `first` to `first + count`, with `requestEvents` per request. A request's sequence is the
 * number of its first event.
 */
export function entriesOf(
  first: number,
  count: number,
  requestEvents = BATCH_EVENTS,
  keyOf: KeyOf = (_, id) => id,
): MemtableEntry[] {
  const random = createRandom(first + 1)
  const entries: MemtableEntry[] = []
  for (let row = 0; row < count; row += requestEvents) {
    const events = Math.min(requestEvents, count - row)
    const rows = Array.from({ length: events }, (_, i) => {
      const payload = benchEvent(first + row + i, random)
      const event = JSON.parse(payload) as Record<string, string | number>
      const values = BENCH_COLUMNS.map(({ name, type }) => {
        if (type === 'TIMESTAMP') return BigInt(Date.parse(String(event[name]))) * 1000n
        return event[name]!
      })
      return { payload, key: keyOf(first + row + i, String(event['id'])), values }
    })
    const requests = Float64Array.from([first + row, 1_760_000_000_000 + (first + row) / 100, events, 0])
    entries.push({ kind: 'post', batch: makeBatch(BENCH_SCHEMA, rows), requests })
  }
  return entries
}
