/** gzip and zstd: borders of pieces anywhere, several members, damage, and bombs. */
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import type { Pieces } from '../../../src/parse/gunzip.ts'
import { INFLATED_PIECE_BYTES } from '../../../src/parse/gunzip.ts'
import type { Encoding } from '../../../src/parse/import/import-types.ts'
import { inflate } from '../../../src/parse/import/inflate.ts'
import { BodyBroken } from '../../../src/util/errors.ts'
import { casesOf, integersFrom, newSeed } from '../../util/random.ts'
import { cut, readImport } from './reading.ts'

const TEXT = Buffer.from(Array.from({ length: 40 }, (_, n) => `{"n":${n},"t":"${'é'.repeat(n)}"}\n`).join(''))

/** A frame of zstd whose blocks are not compressed, or repeat one byte `length` times. */
function frame(bytes: Uint8Array, length = bytes.length): Buffer {
  const repeats = length !== bytes.length
  // Magic, no checksum, a window of 2 MiB.
  const parts = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58])]
  for (let from = 0; from < length || from === 0; from += BLOCK_BYTES_MAX) {
    const size = Math.min(BLOCK_BYTES_MAX, length - from)
    const head = Buffer.alloc(4)
    head.writeUInt32LE((from + size >= length ? 1 : 0) | (repeats ? 2 : 0) | (size << 3))
    parts.push(head.subarray(0, 3), Buffer.from(repeats ? bytes : bytes.subarray(from, from + size)))
  }
  return Buffer.concat(parts)
}

const BLOCK_BYTES_MAX = 128 * 1024
/** Three lines, as the command zstd packs them: compressed, with a checksum. */
const PACKED = Buffer.from('KLUv/QRowQAAeyJuIjoxfQp7Im4iOjJ9CnsibiI6M30KkvFjsw==', 'base64')
const UNPACKED = '{"n":1}\n{"n":2}\n{"n":3}\n'
/** A frame that is skipped. */
const SKIPPED = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3])

async function* given(pieces: readonly Uint8Array[]): Pieces & AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield Uint8Array.from(piece)
}

/** The inflated bytes, or the code of what is wrong. */
async function inflated(pieces: readonly Uint8Array[], encoding: Encoding): Promise<string> {
  const parts: Buffer[] = []
  try {
    for await (const part of inflate(given(pieces), encoding)) {
      expect(part.byteLength).toBeLessThanOrEqual(2 * INFLATED_PIECE_BYTES)
      parts.push(Buffer.from(part))
    }
  } catch (error) {
    if (!(error instanceof BodyBroken)) throw error
    return error.code
  }
  return Buffer.concat(parts).toString()
}

test.each([
  ['gzip', gzipSync(TEXT), TEXT.toString()],
  ['gzip', Buffer.concat([gzipSync(TEXT), gzipSync(''), gzipSync(TEXT)]), TEXT.toString().repeat(2)],
  ['gzip', Buffer.concat([gzipSync(TEXT), Buffer.alloc(100)]), TEXT.toString()],
  ['gzip', gzipSync(''), ''],
  ['zstd', PACKED, UNPACKED],
  ['zstd', Buffer.concat([PACKED, SKIPPED, frame(Buffer.from('{}')), PACKED]), `${UNPACKED}{}${UNPACKED}`],
  ['zstd', Buffer.concat(Array.from({ length: 200 }, () => SKIPPED)), ''],
  ['zstd', frame(Buffer.alloc(0)), ''],
] as const)('%s is inflated, with a border at every byte', async (encoding, body, text) => {
  expect(await inflated([body], encoding)).toBe(text)
  for (let at = 1; at < body.length; at += 1)
    expect([at, await inflated([body.subarray(0, at), body.subarray(at)], encoding)]).toEqual([at, text])
  expect(await inflated(cut(body, 1), encoding)).toBe(text)
})

test.each([
  ['gzip', gzipSync(TEXT)],
  ['zstd', PACKED],
] as const)(
  '%s that ends early or has other bytes behind it is broken, wherever it is cut',
  async (encoding, body) => {
    const broken = `broken_${encoding}`
    for (let length = 0; length < body.length; length += 1)
      for (const pieces of [[body.subarray(0, length)], cut(body.subarray(0, length), 7)])
        expect([length, await inflated(pieces, encoding)]).toEqual([length, broken])
    const tail = Buffer.from('tail')
    expect(await inflated([Buffer.concat([body, tail])], encoding)).toBe(broken)
    expect(await inflated([body, tail], encoding)).toBe(broken)
    expect(await inflated([Buffer.from('{"a":1}\n')], encoding)).toBe(broken)
  },
)

/** A frame of zstd with this header behind its magic number, and one empty block. */
const headed = (...header: number[]): Buffer => Buffer.from([0x28, 0xb5, 0x2f, 0xfd, ...header, 1, 0, 0])
const u32 = (value: number) => [value & 255, (value >> 8) & 255, (value >> 16) & 255, value >>> 24]
const MIB = 1024 * 1024

test.each([
  ['8 MiB', headed(0x00, 13 << 3), ''],
  ['9 MiB', headed(0x00, (13 << 3) | 1), 'zstd_window'],
  ['128 MiB, the largest that the decoder takes', headed(0x00, 17 << 3), 'zstd_window'],
  ['128 MiB, with a checksum', headed(0x04, 17 << 3), 'zstd_window'],
  ['2 TiB', headed(0x00, 31 << 3), 'zstd_window'],
  ['128 MiB and a dictionary id', headed(0x03, 17 << 3, 0, 0, 0, 0), 'zstd_window'],
  ['128 MiB and a content size', headed(0xc0, 17 << 3, 0, 0, 0, 0, 0, 0, 0, 0), 'zstd_window'],
  ['one segment of 8 MiB + 1', headed(0xa0, ...u32(8 * MIB + 1)), 'zstd_window'],
  ['one segment of 100 MiB in 8 bytes', headed(0xe0, ...u32(100 * MIB), 0, 0, 0, 0), 'zstd_window'],
  ['one segment of 2^63 bytes', headed(0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80), 'zstd_window'],
  ['one segment of 0 bytes', headed(0x20, 0), ''],
] as const)('a window of zstd: %s', async (_, body, want) => {
  for (const before of [Buffer.alloc(0), SKIPPED, PACKED, Buffer.concat([SKIPPED, frame(TEXT), PACKED])])
    for (const pieces of [
      [Buffer.concat([before, body, PACKED])],
      cut(Buffer.concat([before, body, PACKED]), 1),
    ])
      expect((await inflated(pieces, 'zstd')).endsWith(want === '' ? UNPACKED : want)).toBe(true)
})

test('rows before a frame with a large window are given, and the message says what to do', async () => {
  const body = Buffer.concat([PACKED, frame(TEXT), headed(0x00, 17 << 3)])
  for (const pieces of [[body], cut(body, 1)]) {
    const got = await readImport(pieces, { encoding: 'zstd' })
    expect([got.broken, got.events.length]).toEqual(['zstd_window', 43])
    expect(got.brokenMessage).toBe(
      'a zstd frame of the body takes a window of 134217728 bytes, and this server at most 8388608: compress it without --long and with a level up to 19 (levels 20 to 22 take windows of 32 to 128 MiB), or with gzip',
    )
  }
})

test('gzip with bytes behind its padding is broken', async () => {
  for (const tail of [gzipSync(TEXT), Buffer.from('x')]) {
    const body = [gzipSync(TEXT), Buffer.alloc(10), tail]
    expect(await inflated(body, 'gzip')).toBe('broken_gzip')
    expect(await inflated([Buffer.concat(body)], 'gzip')).toBe('broken_gzip')
  }
})

const seed = newSeed()

// `npm test` flips one bit of each byte, by lot, and the long run each bit.
test(`one wrong bit anywhere gives the same bytes or is noticed, seed ${seed}`, async () => {
  const integer = integersFrom(seed)
  for (const [encoding, body, text] of [
    ['gzip', gzipSync(UNPACKED), UNPACKED],
    ['zstd', PACKED, UNPACKED],
  ] as const)
    for (let step = 0; step < casesOf(1, 8) * body.length; step += 1) {
      const bit = casesOf(8 * step + integer(8), step)
      const damaged = Buffer.from(body)
      damaged[bit >> 3]! ^= 1 << (bit & 7)
      expect([`broken_${encoding}`, text, 'zstd_window']).toContain(await inflated([damaged], encoding))
    }
})

test('rows before the damage are given', async () => {
  const lines = Array.from({ length: 20_000 }, (_, n) => `{"n":${n},"r":"${Math.sin(n)}"}\n`).join('')
  const body = gzipSync(lines)
  const got = await readImport(cut(body.subarray(0, body.length / 2), 10_000), { encoding: 'gzip' })
  expect([got.broken, got.done]).toEqual(['broken_gzip', undefined])
  expect(got.events.length).toBeGreaterThan(5_000)
  expect(got.events).toEqual(
    got.events.map((_, n) => `${n + 1}:${n + 1}:${JSON.stringify({ n, r: String(Math.sin(n)) })}`),
  )
  expect(got.ends.at(-1)?.[0]).toBe(got.events.length)
})

test.each([
  ['gzip', gzipSync(Buffer.alloc(64 * 1024 * 1024, ' '))],
  ['zstd', frame(Buffer.from(' '), 256 * 1024 * 1024)],
] as const)('a bomb of %s is one line that is too long, and takes no memory', async (encoding, bomb) => {
  const tail = Buffer.from('\n{"a":1}\n')
  const body = [bomb, encoding === 'gzip' ? gzipSync(tail) : frame(tail)]
  const before = process.memoryUsage()
  let most = 0
  const timer = setInterval(() => {
    const { rss } = process.memoryUsage()
    most = Math.max(most, rss - before.rss)
  }, 5)
  const got = await readImport(body, { encoding })
  clearInterval(timer)
  expect([got.refused, got.events]).toEqual([['1:1:row_too_long'], ['2:2:{"a":1}']])
  expect(most).toBeLessThan(150 * 1024 * 1024)
})
