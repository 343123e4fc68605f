import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DIRECT_WRITE_BYTES_MIN, disk, writeDurably } from '../../src/util/disk.ts'
import { randomFrom } from './random.ts'
import { mountSmall, NO_SMALL_DISK } from './small-disk.ts'

const BLOCK = 4096
const SEED = Date.now() >>> 0

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'weir-past-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Bytes of which no block equals another. */
function bytesOf(length: number): Uint8Array {
  const random = randomFrom(SEED)
  const words = Uint32Array.from({ length: Math.ceil(length / 4) + 1 }, () => random() * 2 ** 32)
  // The address is odd, because the caller's memory need not be aligned.
  return new Uint8Array(words.buffer, 1, length)
}

test('a file written past the cache has each byte in its place, whatever its length', () => {
  const min = DIRECT_WRITE_BYTES_MIN
  for (const length of [0, 1, min - 1, min, min + 1, 2 * min - 1, 3 * min + BLOCK, 3 * min + BLOCK - 1]) {
    const bytes = bytesOf(length)
    const path = join(folder, String(length))
    writeDurably(disk, path, [bytes], 'the cache')
    expect(Buffer.compare(readFileSync(path), bytes), `${length} bytes, seed ${SEED}`).toBe(0)
  }
})

test('what follows a large buffer stands behind it, and a file of several buffers is whole', () => {
  const buffers = [bytesOf(DIRECT_WRITE_BYTES_MIN + 5), bytesOf(7), bytesOf(DIRECT_WRITE_BYTES_MIN)]
  const path = join(folder, 'several')
  writeDurably(disk, path, buffers, 'the cache')
  expect(Buffer.compare(readFileSync(path), Buffer.concat(buffers))).toBe(0)
})

test('a full disk is told as ENOSPC', context => {
  const small = mountSmall(join(folder, 'small'), '2m')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    const write = () => writeDurably(disk, join(folder, 'small', 'large'), [bytesOf(4 << 20)], 'the cache')
    expect(write).toThrow(expect.objectContaining({ code: 'ENOSPC' }))
  } finally {
    small.end()
  }
})
