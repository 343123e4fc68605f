import { crc32 as nodeCrc32 } from 'node:zlib'
import { expect, test } from 'vitest'
import { crc32 } from '../../src/util/crc32.ts'
import { below, randomFrom } from './random.ts'

const SEED = Date.now() >>> 0

test('the checksum is zlib’s, of any length, at any offset, in shared memory, and carried on over pieces', () => {
  const random = randomFrom(SEED)
  const shared = new Uint8Array(new SharedArrayBuffer(20_000))
  for (let at = 0; at < shared.length; at += 1) shared[at] = below(random, 256)
  const lengths = Array.from({ length: 600 }, (_, index) => index)
  for (let more = 0; more < 400; more += 1) lengths.push(below(random, 19_000))
  for (const length of lengths) {
    const from = below(random, 900)
    const bytes = shared.subarray(from, from + length)
    const want = nodeCrc32(bytes)
    expect(crc32(bytes), `${length} bytes at ${from}, seed ${SEED}`).toBe(want)
    const cut = below(random, length + 1)
    const first = crc32(bytes.subarray(0, cut))
    expect(crc32(bytes.subarray(cut), first), `${length} bytes cut at ${cut}, seed ${SEED}`).toBe(want)
  }
})

test('the checksum of the field’s test string, long enough for the native code', () => {
  const text = Buffer.from('123456789'.repeat(100))
  expect(crc32(Buffer.from('123456789'))).toBe(0xcbf43926)
  expect(crc32(text)).toBe(nodeCrc32(text))
  expect(crc32(text.subarray(1))).not.toBe(crc32(text.subarray(0, -1)))
})
