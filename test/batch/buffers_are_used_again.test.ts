/** Memory of batches is used again, in the sizes that are asked for, and never kept beyond its limits. */
import { expect, test } from 'vitest'
import { BufferShelf, bufferBytes, FreedBuffers } from '../../src/batch/buffers.ts'
import { BATCH_SHELF_BYTES_MAX, FREED_BYTES_MAX, FREED_PER_JOB_MAX } from '../../src/limits.ts'

test('a size holds what was asked for, and wastes at most a quarter of it', () => {
  for (let bytes = 1; bytes < 5_000_000; bytes = Math.ceil(bytes * 1.01)) {
    const size = bufferBytes(bytes)
    expect(size).toBeGreaterThanOrEqual(bytes)
    expect(size).toBeLessThanOrEqual(Math.max(512, bytes * 1.25 + 8))
    expect(bufferBytes(size)).toBe(size)
  }
})

test('a buffer that was put is taken again for its size', () => {
  const shelf = new BufferShelf()
  const first = shelf.take(300_000)
  shelf.put(first)
  expect(shelf.take(300_000)).toBe(first)
  expect(shelf.take(300_000)).not.toBe(first)
})

test('a shelf full of one size makes room for the size that is asked for now', () => {
  const shelf = new BufferShelf()
  for (let bytes = 0; bytes < 2 * BATCH_SHELF_BYTES_MAX; bytes += 4096) shelf.put(new SharedArrayBuffer(4096))
  const large = shelf.take(300_000)
  shelf.put(large)
  expect(shelf.take(300_000)).toBe(large)
})

test('freed buffers travel a few at a time, and no more than the limit wait', () => {
  const freed = new FreedBuffers()
  const one = 1024 * 1024
  for (let bytes = 0; bytes < 2 * FREED_BYTES_MAX; bytes += one) freed.give(new SharedArrayBuffer(one))
  freed.give(new ArrayBuffer(8)) // memory of its own is not used again
  expect(freed.take(0)).toEqual([])
  expect(freed.take(1)).toHaveLength(1)
  let taken = 1
  for (;;) {
    const few = freed.take(100)
    expect(few.length).toBeLessThanOrEqual(FREED_PER_JOB_MAX)
    if (few.length === 0) break
    taken += few.length
  }
  expect(taken * one).toBe(FREED_BYTES_MAX)
})
