/** Bodies in zstd: what the command zstd packs, damage, bombs, and the limit to the byte. */
import { expect, test } from 'vitest'
import { inflate } from '../../../src/parse/import/inflate.ts'
import { loadUnzstd } from '../../../src/parse/sender/unzstd.ts'
import { BodyBroken } from '../../../src/util/errors.ts'
import { BODY_BYTES_MAX, KiB, MiB } from '../../../src/util/limits.ts'
import { shared } from './reading.ts'

const unzstd = await loadUnzstd()

/** The inflated bytes as text, or the code of what is wrong. */
function inflated(body: Uint8Array): string {
  const made = unzstd(shared(body))
  return made instanceof Uint8Array ? Buffer.from(made).toString() : made.code
}

// Made by the command zstd 1.5.4: -19 of a file, --long=27 of a pipe, -1 --no-check of a pipe.
const packed = (base64: string) => Buffer.from(base64, 'base64')
const LINES = '{"n":1}\n{"n":2}\n{"n":3}\n'
const BY_FILE = packed('KLUv/SQYwQAAeyJuIjoxfQp7Im4iOjJ9CnsibiI6M30KkvFjsw==')
const BY_PIPE = packed('KLUv/QBIwQAAeyJuIjoxfQp7Im4iOjJ9CnsibiI6M30K')
/** Its window is 128 MiB. */
const LONG = packed('KLUv/QSIwQAAeyJuIjoxfQp7Im4iOjJ9CnsibiI6M30KkvFjsw==')
/** `["xxx…"]` of BODY_BYTES_MAX bytes, and of one byte more. */
const LIMIT = [
  'KLUv/aQA/w8AXAAAGFsieAEA+v85GAICABB4AgAQeAIAEHgCABB4AgAQeAIAEHhVAAAQIl0BAPv+OQAC+eczuQ==',
  'KLUv/QBIXAAAGFsieAEA+v85GAICABB4AgAQeAIAEHgCABB4AgAQeAIAEHhdAAAYeCJdAQD6/jkQAg==',
].map(packed)
const OVER = [
  'KLUv/aQB/w8AXAAAGFsieAEA+v85GAICABB4AgAQeAIAEHgCABB4AgAQeAIAEHhVAAAQIl0BAPz+OQAC/CnRqQ==',
  'KLUv/QBIXAAAGFsieAEA+v85GAICABB4AgAQeAIAEHgCABB4AgAQeAIAEHhdAAAYeCJdAQD7/jkQAg==',
].map(packed)
/** 60 objects, packed with entropy coding. */
const MIXED = packed(
  'KLUv/WSxB90HAJLOJBiATTqqY3AKA0YfMzBAW0qZkkyfBRgDKxWDOue/m2Yrop+OeyJ7Gk/m5hwf39lV2Xo7l8nvi66x75CvRq1izzMZExmWzklHQ2fH6GrH6nW+N5vIp6WzNK0dko7HzIvnp3wl3tVMlmHV6f3MrlO5pV4jDgjNZWJ4KAiHgJJoKItiAA7DI6IEFMOCwFAWE1AKCEUiCHioIVy9/e+AGecaESgIAUKQEPjClA+50AwixD6QyP0gynJ2lPwcs/LDRGZGoDYo4AyQhpgFJYmj3uMQEcQSzAbMzGyjcSAdk4wBmbF4yYAxOLw8LwmXwZaFnfHa8hak9Qo9QKsCS7qj+Q==',
)
/** A frame that is skipped. */
const SKIPPED = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3])

/** A frame of blocks: raw ones of `bytes`, or ones that repeat a byte `repeats` times. */
function frame(bytes: Uint8Array, repeats = 0): Buffer {
  // Magic, no checksum, a window of 2 MiB.
  const parts = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58])]
  const length = repeats === 0 ? bytes.length : repeats
  for (let from = 0; from < length || from === 0; from += 128 * KiB) {
    const size = Math.min(128 * KiB, length - from)
    const head = Buffer.alloc(4)
    head.writeUInt32LE((from + size >= length ? 1 : 0) | (repeats === 0 ? 0 : 2) | (size << 3))
    parts.push(head.subarray(0, 3), Buffer.from(repeats === 0 ? bytes.subarray(from, from + size) : bytes))
  }
  return Buffer.concat(parts)
}

test.each([
  ['a file', BY_FILE, LINES],
  ['a pipe', BY_PIPE, LINES],
  ['a window of 128 MiB', LONG, LINES],
  [
    'several frames, a skipped one among them',
    Buffer.concat([BY_FILE, SKIPPED, BY_PIPE, LONG]),
    LINES.repeat(3),
  ],
  ['a skipped frame first and last', Buffer.concat([SKIPPED, BY_FILE, SKIPPED]), LINES],
  ['only skipped frames', Buffer.concat(Array(200).fill(SKIPPED)), ''],
  ['an empty frame', frame(Buffer.alloc(0)), ''],
  ['raw blocks', frame(Buffer.from(LINES)), LINES],
])('%s is inflated', (_, body, text) => {
  expect(inflated(body)).toBe(text)
})

test('60 objects are inflated', () => {
  const events = JSON.parse(inflated(MIXED)) as { id: number; name: string; ok: boolean }[]
  expect(events).toEqual(
    Array.from({ length: 60 }, (_, id) => ({ id, name: `user ${(id * 7919) % 101}`, ok: id % 3 !== 0 })),
  )
})

test('a body that ends early or has other bytes behind it is broken, wherever it is cut', () => {
  for (const body of [BY_FILE, BY_PIPE, LONG, MIXED, SKIPPED, LIMIT[0]!, frame(Buffer.from(LINES))]) {
    for (let length = 0; length < body.length; length += 1)
      expect([length, inflated(body.subarray(0, length))]).toEqual([length, 'broken_zstd'])
    for (const tail of ['x', '\0', '\0\0\0\0\0\0\0\0', 'other bytes', '\x28\xb5\x2f\xfd', '\x1f\x8b\x08\x00'])
      expect([tail, inflated(Buffer.concat([body, Buffer.from(tail, 'latin1')]))]).toEqual([
        tail,
        'broken_zstd',
      ])
  }
  expect(inflated(Buffer.from(LINES))).toBe('broken_zstd')
  expect(inflated(Buffer.alloc(0))).toBe('broken_zstd')
})

test('the limit holds to the byte, whether a frame says its size or not', () => {
  for (const body of LIMIT) {
    const text = inflated(body)
    expect([text.length, text.slice(0, 4), text.slice(-4)]).toEqual([BODY_BYTES_MAX, '["xx', 'xx"]'])
  }
  for (const body of OVER) expect(inflated(body)).toBe('body_too_large')
  expect(inflated(frame(Buffer.from(' '), BODY_BYTES_MAX)).length).toBe(BODY_BYTES_MAX)
  expect(inflated(frame(Buffer.from(' '), BODY_BYTES_MAX + 1))).toBe('body_too_large')
  const half = frame(Buffer.from(' '), BODY_BYTES_MAX / 2)
  expect(inflated(Buffer.concat([half, SKIPPED, half])).length).toBe(BODY_BYTES_MAX)
  expect(inflated(Buffer.concat([half, half, frame(Buffer.from('x'))]))).toBe('body_too_large')
  expect(inflated(Buffer.concat([half, half, frame(Buffer.alloc(0))])).length).toBe(BODY_BYTES_MAX)
})

/** A frame with this header behind its magic number, and one empty block. */
const headed = (...header: number[]): Buffer => Buffer.from([0x28, 0xb5, 0x2f, 0xfd, ...header, 1, 0, 0])

test.each([
  ['a window of 3.75 TiB', headed(0x00, (31 << 3) | 7), 'broken_zstd'],
  ['one segment of 2^63 bytes', headed(0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80), 'broken_zstd'],
  ['one segment of 4 GiB', headed(0xe0, 0, 0, 0, 0, 1, 0, 0, 0), 'broken_zstd'],
  ['a dictionary', headed(0x01, 0x58, 7), 'broken_zstd'],
  ['a reserved bit', headed(0x08, 0x58), 'broken_zstd'],
  ['a reserved type of block', Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 7, 0, 0]), 'broken_zstd'],
  ['a skippable frame of 4 GiB', Buffer.from([0x50, 0x2a, 0x4d, 0x18, 255, 255, 255, 255]), 'broken_zstd'],
  ['a bomb of 512 MiB', frame(Buffer.from(' '), 512 * MiB), 'body_too_large'],
])('%s', (_, body, code) => {
  expect(inflated(body)).toBe(code)
})

test('one wrong bit gives what the decoder of imports makes of it', async () => {
  // Every 29th bit: each refused body leaves 160 kB in the decoder of imports, which other tests
  // of this worker share.
  for (const body of [BY_FILE, BY_PIPE, Buffer.concat([frame(Buffer.from('{}')), SKIPPED])])
    for (let bit = 0; bit < 8 * body.length; bit += 29) {
      const damaged = Buffer.from(body)
      damaged[bit >> 3]! ^= 1 << (bit & 7)
      const got = inflated(damaged)
      const want = await imported(damaged)
      // An import takes no window above 8 MiB, and no frame below its least size.
      if (want !== 'zstd_window') expect([bit, got]).toEqual([bit, want])
    }
})

async function imported(body: Uint8Array): Promise<string> {
  const parts: Buffer[] = []
  const pieces = (async function* () {
    yield body
  })()
  try {
    for await (const part of inflate(pieces, 'zstd')) parts.push(Buffer.from(part))
  } catch (error) {
    if (!(error instanceof BodyBroken)) throw error
    return error.code
  }
  return Buffer.concat(parts).toString()
}

test('refused bodies leave no memory behind', () => {
  // A decoder's state takes 160 kB, and the memory of WebAssembly ends at 2 GiB.
  const refused = [MIXED.subarray(0, 200), BY_FILE.subarray(0, 20), OVER[0]!]
  for (let round = 0; round < 6_000; round += 1)
    for (const body of round % 100 === 0 ? refused : refused.slice(0, 2))
      expect(unzstd(body)).toHaveProperty('code')
  expect(inflated(BY_FILE)).toBe(LINES)
})

test('a result stays as it is while the next body is inflated', () => {
  const first = unzstd(BY_FILE) as Uint8Array
  unzstd(frame(Buffer.from('other bytes of another body')))
  expect(Buffer.from(first).toString()).toBe(LINES)
})

test('a thread has one decoder', async () => {
  expect(await loadUnzstd()).toBe(unzstd)
})
