/**
 * The memory of batches is used again in the sizes that the load needs, and the stock of it stays
 * within its limit.
 */

import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { RECORD_HEADER_BYTES } from '../../src/format/log-record.ts'
import { BatchBuffers, bufferBytes, FREED_BYTES_MAX, takeFitting } from '../../src/parse/batch-buffers.ts'
import { FLAG, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import type { ParseResult, ParseTask } from '../../src/parse/parse-task.ts'
import { createTaskRunner } from '../../src/parse/run-task.ts'
import type { Received } from '../../src/parse/sender/received.ts'
import { schemaOf } from './reading.ts'

const schema = schemaOf([{ type: 'STRING' }])
const sharedSchema = sharedOf(Buffer.from(JSON.stringify(schema)))

test('a size holds what was asked for, and wastes at most a quarter of it', () => {
  for (let bytes = 1; bytes < 5_000_000; bytes = Math.ceil(bytes * 1.01)) {
    const size = bufferBytes(bytes)
    expect(size).toBeGreaterThanOrEqual(bytes)
    expect(size).toBeLessThanOrEqual(Math.max(512, bytes * 1.25 + 8))
    expect(bufferBytes(size)).toBe(size)
  }
})

test('the stock gives the smallest buffer that fits, and none that is more than about twice too large', () => {
  const buffers = new BatchBuffers()
  for (const bytes of [8192, 4096, 5120, 2048]) buffers.give(new SharedArrayBuffer(bytes))
  expect(buffers.take(4000)?.byteLength).toBe(4096)
  expect(buffers.take(4000)?.byteLength).toBe(5120)
  expect(buffers.take(4000)?.byteLength).toBe(8192)
  expect(buffers.take(4000)).toBeUndefined()
  expect(buffers.take(700)).toBeUndefined()
  expect(buffers.bytes).toBe(2048)
})

test('a size found by its number is the size of the buffer', () => {
  for (let bytes = 1; bytes < 5_000_000; bytes = Math.ceil(bytes * 1.01)) {
    const buffers = new BatchBuffers()
    buffers.give(new SharedArrayBuffer(bufferBytes(bytes)))
    expect(buffers.take(bufferBytes(bytes) + 1), `${bytes}`).toBeUndefined()
    expect(buffers.take(bytes)?.byteLength, `${bytes}`).toBe(bufferBytes(bytes))
  }
})

test('a worker leaves given buffers that are too small or far too large', () => {
  const [small, large, fits] = [
    new SharedArrayBuffer(512),
    new SharedArrayBuffer(65_536),
    new SharedArrayBuffer(5120),
  ]
  const given = [small, large, fits]
  expect(takeFitting(given, 4000)).toBe(fits)
  expect(takeFitting(given, 4000).byteLength).toBe(5120)
  expect(given).toEqual([small, large])
})

test('no more than the limit waits, and memory of another kind is not kept', () => {
  const buffers = new BatchBuffers()
  const one = 1024 * 1024
  for (let bytes = 0; bytes < 2 * FREED_BYTES_MAX; bytes += one) buffers.give(new SharedArrayBuffer(one))
  expect(buffers.bytes).toBe(FREED_BYTES_MAX)
  const empty = new BatchBuffers()
  empty.give(new ArrayBuffer(4096))
  expect(empty.bytes).toBe(0)
})

test('buffers that nobody takes between two trims are let go, those that are taken in turn stay', () => {
  const buffers = new BatchBuffers()
  const takeThree = () => Array.from({ length: 3 }, () => buffers.take(4096)!)
  for (let i = 0; i < 10; i++) buffers.give(new SharedArrayBuffer(4096)) // a load that has ended
  for (let i = 0; i < 10; i++) buffers.give(new SharedArrayBuffer(327_680))
  buffers.trim() // the first trim only begins to look
  expect(buffers.bytes).toBe(10 * (4096 + 327_680))
  for (let i = 0; i < 100; i++) for (const buffer of takeThree()) buffers.give(buffer)
  buffers.trim()
  expect(buffers.bytes).toBe(3 * 4096)
  for (let i = 0; i < 100; i++) for (const buffer of takeThree()) buffers.give(buffer)
  buffers.trim()
  expect(buffers.bytes).toBe(3 * 4096)
  buffers.trim()
  expect(buffers.bytes).toBe(0)
  expect(buffers.take(4096)).toBeUndefined()
})

test('two workers that make batches of changing sizes make no new buffers once they have begun', () => {
  const { buffers, run } = twoWorkers()
  const sizes = [10, 300, 4_000, 60_000, 200_000]
  let memtable: ParseResult[] = []
  const made: number[] = []
  for (let turn = 0; turn < 120; turn++) {
    const tasks = [
      taskOf([{ pool: 1, bodies: [bodyOf(sizes[turn % 5]!)] }]),
      taskOf([
        { pool: 2, bodies: [bodyOf(sizes[(turn * 3) % 5]!), bodyOf(50)] },
        { pool: 3, bodies: [bodyOf(20)] },
      ]),
      taskOf([{ pool: 4, bodies: [bodyOf(2_000)], gzip: true }]),
    ]
    // One worker gets nine tasks of ten.
    for (const [index, task] of tasks.entries())
      memtable.push(run((turn + index) % 10 === 0 ? 1 : 0, task, made))
    if (turn % 10 < 9) continue
    for (const { batches } of memtable) for (const { batch } of batches) buffers.give(batch)
    memtable = []
    if (turn < 39) made.length = 0
  }
  expect(made).toEqual([])
  expect(buffers.bytes).toBeLessThan(8_000_000)
})

test('a request without a row uses no buffer, and its buffer comes back', () => {
  const { buffers, run } = twoWorkers()
  const made: number[] = []
  const good = taskOf([{ pool: 1, bodies: [bodyOf(3_000)] }])
  const bad = taskOf([{ pool: 1, bodies: [Buffer.from(`${bodyOf(3_000)}}`)] }])
  const [part] = run(0, good, made).batches
  buffers.give(part!.batch)
  const before = buffers.bytes
  const result = run(0, bad, made)
  expect(result.batches).toEqual([])
  expect(result.unusedBuffers).toHaveLength(1)
  expect(buffers.bytes).toBe(before)
})

/**
 * Two task runners as two workers have them, with one stock. `made` gets the sizes of the buffers
 * that are new.
 */
function twoWorkers() {
  const buffers = new BatchBuffers()
  const runners = [createTaskRunner('js'), createTaskRunner('js')]
  const known = new Set<ArrayBuffer | SharedArrayBuffer>()
  const run = (worker: number, task: ParseTask, made: number[]): ParseResult => {
    const table = task.table.slice() // a worker gets a copy
    const result = runners[worker]!({ ...task, table, buffers: buffers.forTask(task) })
    for (const { batch } of result.batches) {
      if (!known.has(batch)) made.push(batch.byteLength)
      known.add(batch)
    }
    buffers.takeBack(task, result)
    return result
  }
  return { buffers, run }
}

interface Group {
  readonly pool: number
  readonly bodies: readonly Buffer[]
  readonly gzip?: boolean
}

function taskOf(groups: readonly Group[]): ParseTask {
  const bodies = groups.flatMap(group =>
    group.bodies.map(body => ({
      bytes: group.gzip === true ? gzipSync(body) : body,
      gzip: group.gzip === true,
    })),
  )
  const room = bodies.reduce(
    (bytes, { bytes: body }) => bytes + RECORD_HEADER_BYTES + body.byteLength + 8,
    64,
  )
  const slab = new SharedArrayBuffer(room)
  const table = new Float64Array(bodies.length * REQUEST_WORDS)
  const received = new Map<number, Received>()
  let at = 0
  for (const [row, { bytes, gzip }] of bodies.entries()) {
    at = Math.ceil(at / 8) * 8 + RECORD_HEADER_BYTES
    new Uint8Array(slab).set(bytes, at)
    table.set([at, bytes.byteLength, gzip ? FLAG.received : 0, 1, -1], row * REQUEST_WORDS)
    if (gzip) received.set(row, { encoding: 'gzip', format: 'JSON' })
    at += bytes.byteLength
  }
  let from = 0
  return {
    slab,
    table,
    received,
    groups: groups.map(({ pool, bodies: { length } }) => {
      from += length
      return { kind: 'post', pool, version: 1, schema: sharedSchema, from: from - length, to: from }
    }),
  }
}

function bodyOf(bytes: number): Buffer {
  return Buffer.from(JSON.stringify({ c0: 'x'.repeat(bytes) }))
}

function sharedOf(bytes: Uint8Array): SharedArrayBuffer {
  const shared = new SharedArrayBuffer(bytes.byteLength)
  new Uint8Array(shared).set(bytes)
  return shared
}
