/**
 * W-7 where the key holds received-at: each accepted event has one of its own, whatever else the
 * key holds, however the body came, and whichever kernel parsed it. A replay makes the same keys.
 */
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { KEY_COLUMN } from '../../src/format/batch-layout.ts'
import { RECORD_HEADER_BYTES, readReceivedAtStepUs, readReceivedAtUs } from '../../src/format/log-record.ts'
import { type ColumnType, KEY_RECEIVED_AT, type PoolSchema } from '../../src/format/schema.ts'
import { FLAG, OUTCOME, OUTCOME_WORDS, REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import type { ParseResult, ParseTask } from '../../src/parse/parse-task.ts'
import { createTaskRunner } from '../../src/parse/run-task.ts'
import type { Received } from '../../src/parse/sender/received.ts'
import { RisingClock } from '../../src/util/clock.ts'
import { encodeKeyParts, type KeyPart } from '../util/key-parts.ts'
import { readColumn } from './reading.ts'

const COLUMNS: readonly [string, ColumnType][] = [
  ['id', 'STRING'],
  ['flag', 'BOOLEAN'],
  ['day', 'DATE'],
  ['n', 'INT64'],
  ['x', 'DOUBLE'],
]
const NOON_US = Date.UTC(2026, 4, 6, 12) * 1000

function schemaWith(key: readonly number[]): PoolSchema {
  const columns = COLUMNS.map(([name, type]) => ({ name, type, jsonProperty: name, required: true }))
  return { pool: 1, version: 1, columns, timestamp: -1, tenant: -1, key: { columns: key, version: -1 } }
}

function event(id: string) {
  return { id, flag: true, day: '2026-05-06', n: -3, x: 0.5 }
}

function keyOf(key: readonly number[], id: string, us: number): Uint8Array {
  const values = [id, true, 20_579, -3, 0.5]
  const parts = key.map((index): KeyPart => {
    if (index === KEY_RECEIVED_AT) return { type: 'TIMESTAMP', value: us }
    return { type: COLUMNS[index]![1], value: values[index]! }
  })
  return encodeKeyParts(parts)
}

interface Sent {
  readonly body: string | Uint8Array
  readonly flags?: number
  readonly receivedAtUs?: number
}

/** A task of posts with FLAG.rises. */
function taskOf(schema: PoolSchema, requests: readonly Sent[], clock?: SharedArrayBuffer): ParseTask {
  const slab = new SharedArrayBuffer(1 << 20)
  const table = new Float64Array(requests.length * REQUEST_WORDS)
  const received = new Map<number, Received>()
  let offset = RECORD_HEADER_BYTES
  for (const [index, { body, flags = 0, receivedAtUs = NOON_US }] of requests.entries()) {
    const bytes = Buffer.from(body)
    new Uint8Array(slab).set(bytes, offset)
    const at = index * REQUEST_WORDS
    table[at + REQUEST.offset] = offset
    table[at + REQUEST.bytes] = bytes.length
    table[at + REQUEST.flags] = flags | FLAG.rises
    if ((flags & FLAG.received) !== 0) received.set(index, { encoding: 'gzip', format: 'JSON' })
    table[at + REQUEST.receivedAtUs] = receivedAtUs
    table[at + REQUEST.bits] = -1
    offset += RECORD_HEADER_BYTES + Math.ceil(bytes.length / 8) * 8
  }
  const text = Buffer.from(JSON.stringify(schema))
  const shared = new SharedArrayBuffer(text.length)
  new Uint8Array(shared).set(text)
  const group = { kind: 'post' as const, pool: 1, version: 1, schema: shared, from: 0, to: requests.length }
  return { slab, table, received, groups: [clock === undefined ? group : { ...group, clock }] }
}

/** The keys of all rows of a result as hexadecimal digits, by request. */
function keysByRequest(result: ParseResult): Map<number, string[]> {
  const keys = new Map<number, string[]>()
  for (const { batch, requests } of result.batches) {
    const all = readColumn(batch, KEY_COLUMN).map(key => Buffer.from(String(key), 'latin1').toString('hex'))
    let from = 0
    for (const request of requests) {
      const rows = result.outcomes[request * OUTCOME_WORDS + OUTCOME.accepted]!
      keys.set(request, all.slice(from, from + rows))
      from += rows
    }
  }
  return keys
}

const R = KEY_RECEIVED_AT
const LONG = 'long '.repeat(100)
const KEYS: readonly (readonly [what: string, key: readonly number[]])[] = [
  ['received-at first', [R, 0]],
  ['after a text', [0, R]],
  ['after each other type', [1, 2, 3, 4, R, 0]],
  ['between two texts', [0, 1, R, 0]],
  ['alone', [R]],
]

describe.each(['native', 'js'] as const)('kernel %s', kernel => {
  test.each(KEYS)('every accepted event has a received-at of its own: %s', (_, key) => {
    const run = createTaskRunner(kernel)
    const schema = schemaWith(key)
    const clock = new RisingClock()
    clock.raise(NOON_US + 2)
    const ids = ['same', 'same', '', LONG]
    const body = JSON.stringify(ids.map(event))
    const requests: Sent[] = [
      { body },
      { body: JSON.stringify(event('one')) },
      // The second of three events is refused. It takes no value of the clock.
      { body: JSON.stringify([event('a'), { id: 7 }, event('a')]) },
      { body: JSON.stringify([event('none'), {}]), flags: FLAG.all_or_nothing },
      { body: gzipSync(body), flags: FLAG.received },
      // The native kernel leaves an integer beyond 64 bits to the reference parser.
      { body: JSON.stringify([event('big'), event('big')]).replace('-3', '-3, "m": 99999999999999999999') },
      { body: '[]' },
      { body: JSON.stringify([event('later'), event('later')]), receivedAtUs: NOON_US + 1_000_000 },
    ]
    const task = taskOf(schema, requests, clock.share())
    const result = run(task)
    const want: readonly (readonly string[])[] = [
      ids,
      ['one'],
      ['a', 'a'],
      [],
      ids,
      ['big', 'big'],
      [],
      ['later', 'later'],
    ]
    const seen: number[] = []
    const keys = keysByRequest(result)
    for (const [request, names] of want.entries()) {
      expect(keys.get(request)?.length ?? 0).toBe(names.length)
      if (names.length === 0) continue
      const part = result.batches.find(({ requests: all }) => all.includes(request))!
      const firstUs = part.receivedAtUs![part.requests.indexOf(request)]!
      const wanted = names.map((id, n) => Buffer.from(keyOf(key, id, firstUs + n)).toString('hex'))
      expect(keys.get(request), `request ${request}`).toEqual(wanted)
      expect(firstUs).toBeGreaterThanOrEqual(requests[request]!.receivedAtUs ?? NOON_US + 3)
      seen.push(...names.map((_, n) => firstUs + n))
    }
    expect(new Set(seen).size).toBe(seen.length)
    // As many values as events, but for the pause before the last request. The body of gzip is
    // parsed after all others.
    expect(Number(new BigInt64Array(clock.share())[0])).toBe(NOON_US + 1_000_001 + 4)
    expect(seen.filter(us => us < NOON_US + 1_000_000).sort()).toEqual(
      Array.from({ length: 9 }, (_, n) => NOON_US + 3 + n),
    )
  })

  test('on a node of a cluster each event has a value of its slot, a step after the one before', () => {
    const key = [0, R]
    const clock = new RisingClock({ stepUs: 100, slot: () => 42 })
    const requests = [[event('a'), { id: 7 }, event('a')], [event('b')]].map(events => ({
      body: JSON.stringify(events),
      receivedAtUs: NOON_US + 42,
    }))
    const result = createTaskRunner(kernel)(taskOf(schemaWith(key), requests, clock.share()))
    const wanted = (id: string, us: number) => Buffer.from(keyOf(key, id, NOON_US + us)).toString('hex')
    expect(Object.fromEntries(keysByRequest(result))).toEqual({
      0: [wanted('a', 42), wanted('a', 142)],
      1: [wanted('b', 242)],
    })
  })

  test('a replay makes the same keys from the log record, and leaves older records as they were', () => {
    const run = createTaskRunner(kernel)
    const schema = schemaWith([0, R])
    const body = JSON.stringify([event('same'), { id: 7 }, event('same'), event('same')])
    const task = taskOf(schema, [{ body }, { body }], new RisingClock().share())
    const result = run(task)
    const view = new DataView(task.slab)
    const again = taskOf(schema, [{ body }, { body }])
    for (const request of [0, 1]) {
      const record = task.table[request * REQUEST_WORDS + REQUEST.offset]! - RECORD_HEADER_BYTES
      expect(readReceivedAtStepUs(view, record)).toBe(1)
      again.table[request * REQUEST_WORDS + REQUEST.receivedAtUs] = readReceivedAtUs(view, record)
    }
    const replayed = run({ ...again, isReplay: true })
    expect(keysByRequest(replayed)).toEqual(keysByRequest(result))
    expect(replayed.batches[0]!.receivedAtUs).toBeUndefined()
    const old = taskOf(schema, [{ body }])
    old.table[REQUEST.flags] = 0
    const same = Buffer.from(keyOf([0, R], 'same', NOON_US)).toString('hex')
    expect(keysByRequest(run({ ...old, isReplay: true })).get(0)).toEqual([same, same, same])
  })
})
