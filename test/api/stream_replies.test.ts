/**
 * Streaming answers: back-pressure, errors before and after the first chunk, clients that go or
 * stall, stopping.
 */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { beforeAll, expect, test } from 'vitest'
import type {
  Api,
  ApiOptions,
  ControlRequest,
  ControlRoute,
  Reply,
  StreamReply,
} from '../../src/api/api-types.ts'
import { STREAMS_MAX } from '../../src/api/http/stream-slots.ts'
import { STREAM_WRITE_BYTES } from '../../src/api/http/uws.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { STREAM_BACKED_BYTES } from '../../src/util/limits.ts'
import { below, randomFrom } from '../util/random.ts'
import { ask, head, Raw } from './client.ts'
import { Fake, gate, start, until } from './fake.ts'

const PATH = '/v1/pools/:pool/arrow'

/** A source that counts its calls. */
class Source {
  asked = 0
  closed = 0
  reply(chunks: (index: number) => Promise<Uint8Array | undefined>): StreamReply {
    const next = async (): Promise<IteratorResult<Uint8Array>> => {
      const value = await chunks(this.asked++)
      return value === undefined ? { done: true, value: undefined } : { done: false, value }
    }
    const close = async () => {
      this.closed += 1
      return { done: true as const, value: undefined }
    }
    const iterator = { next, return: close, [Symbol.asyncIterator]: () => iterator }
    return { status: 200, headers: { 'content-type': 'x/y' }, chunks: iterator as never }
  }
}

function serve(
  answer: (request: ControlRequest) => Promise<Reply | StreamReply>,
  options: Partial<ApiOptions> = {},
): Promise<Api> {
  const owner = { applicationId: 'a', isAdmin: true }
  const handle: ControlRoute['handle'] = async request => ({ owner, begin: () => answer(request) })
  return start(new Fake(), options, { routes: [{ methods: ['GET'], path: PATH, bodyBytesMax: 0, handle }] })
}

/** Chunk `index` of the stream below, 200 kB. */
function chunkOf(index: number): Uint8Array {
  return new Uint8Array(200_000).fill(index)
}

const idle = {
  source: new Source(),
  api: undefined as Api | undefined,
  socket: undefined as Socket | undefined,
}
let isLong: Promise<void> | undefined

/** The client that reads nothing begins before all others, which are served meanwhile. */
beforeAll(async () => {
  const { source } = idle
  idle.api = await serve(async () => source.reply(async at => (at < 100 ? chunkOf(at) : undefined)))
  idle.socket = connect(idle.api.port, '127.0.0.1')
  idle.socket.pause()
  idle.socket.write(head('/v1/pools/p/arrow', ['Connection: close'], 'GET'))
  // No event says that nothing happened: 16 s are one more than any timer of uWebSockets.js.
  isLong = new Promise(resolve => setTimeout(resolve, 16_000))
})

test('a stream arrives whole, its connection is used again, and HEAD gets only the head', async () => {
  const source = new Source()
  const api = await serve(async () => source.reply(async at => (at % 41 < 40 ? chunkOf(at % 41) : undefined)))
  for (let round = 0; round < 2; round += 1) {
    const answer = await fetch(`http://127.0.0.1:${api.port}/v1/pools/p/arrow`)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'x/y'])
    const bytes = new Uint8Array(await answer.arrayBuffer())
    expect(bytes.byteLength).toBe(40 * 200_000)
    for (let at = 0; at < 40; at += 1) expect(bytes[at * 200_000 + 199_999]).toBe(at)
    await until(() => source.closed === round + 1)
  }
  const raw = await Raw.open(api.port)
  for (let round = 1; round <= 2; round += 1) {
    raw.write(head('/v1/pools/p/arrow', [], 'HEAD'))
    await raw.until(({ received }) => received.split('\r\n\r\n').length === round + 1)
  }
  expect(raw.received.split('HTTP/1.1 200 OK').length).toBe(3)
  expect(raw.received.endsWith('\r\n\r\n')).toBe(true)
  raw.socket.destroy()
  expect((await ask(api.port, '/v1/pools/p/arrow', { method: 'POST' })).headers['allow']).toBe('GET, HEAD')
  await until(() => api.stats().streams === 0 && api.stats().open === 0)
  expect(await api.stop(1000)).toBe(true)
})

test('an empty stream is a whole answer without bytes', async () => {
  const api = await serve(async () => new Source().reply(async () => undefined))
  const answer = await fetch(`http://127.0.0.1:${api.port}/v1/pools/p/arrow`)
  expect([answer.status, (await answer.arrayBuffer()).byteLength]).toEqual([200, 0])
  expect(await api.stop(1000)).toBe(true)
})

test('an error before the first chunk is a problem answer, one after it a connection without an end', async () => {
  let failAt = 0
  const source = new Source()
  const api = await serve(async () =>
    source.reply(async at => {
      if (at === failAt) throw new Unavailable('SEGMENT_DAMAGED', 'expected by this test')
      return chunkOf(at)
    }),
  )
  const early = await ask(api.port, '/v1/pools/p/arrow', { method: 'GET' })
  expect([early.status, early.json.code, source.closed]).toEqual([503, 'SEGMENT_DAMAGED', 1])
  source.asked = 0
  failAt = 3
  const answer = await fetch(`http://127.0.0.1:${api.port}/v1/pools/p/arrow`)
  expect(answer.status).toBe(200)
  await expect(answer.arrayBuffer()).rejects.toThrow()
  await until(() => source.closed === 2)
  expect(await api.stop(1000)).toBe(true)
})

test('a client that does not read stops the source; it is asked again when the client reads', async () => {
  const source = new Source()
  const api = await serve(async () => source.reply(async at => (at < 200 ? chunkOf(at) : undefined)))
  const socket = connect(api.port, '127.0.0.1')
  socket.pause()
  socket.write(head('/v1/pools/p/arrow', ['Connection: close'], 'GET'))
  // The kernel's buffers take some megabytes; then nothing is asked for any more.
  let before = -1
  await until(() => source.asked > 0)
  while (before !== source.asked) {
    before = source.asked
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  expect(before).toBeLessThan(150)
  let bytes = 0
  socket.on('data', data => {
    bytes += data.byteLength
  })
  socket.resume()
  await until(() => source.closed === 1)
  await until(() => bytes > 200 * 200_000)
  socket.destroy()
  expect(await api.stop(1000)).toBe(true)
})

test('a client that reads now and then gets every byte once, in large chunks while it is behind', async () => {
  const seed = Date.now() % 2 ** 31
  const random = randomFrom(seed)
  const sent = createHash('sha256')
  const source = new Source()
  let last = Buffer.alloc(0)
  const api = await serve(async () =>
    source.reply(async at => {
      last.fill(0) // whoever asks for the next chunk has given the last one back
      if (at === 150) return undefined
      const chunk = randomBytes(1 + below(random, 400_000))
      last = chunk
      sent.update(chunk)
      return chunk
    }),
  )
  const socket = connect(api.port, '127.0.0.1')
  socket.write(head('/v1/pools/p/arrow', ['Connection: close'], 'GET'))
  const got = new Dechunker()
  // Reads of the kernel's buffers, each wholly or in part, and turns in which nothing is read.
  for await (const data of socket as AsyncIterable<Buffer>) {
    got.take(data)
    if (got.hasEnded) break
    for (let turns = below(random, 4); turns > 0; turns--) await new Promise(setImmediate)
    if (random() < 0.02) await new Promise(resolve => setTimeout(resolve, 5))
  }
  expect([seed, got.hash.digest('hex')]).toEqual([seed, sent.digest('hex')])
  expect(got.largest).toBeGreaterThan(STREAM_WRITE_BYTES)
  expect(got.largest).toBeLessThanOrEqual(STREAM_BACKED_BYTES)
  socket.destroy()
  expect(await api.stop(1000)).toBe(true)
}, 60_000)

/**
 * Reads an answer in chunks as it comes, and nothing else: strict about each byte of the frames.
 */
class Dechunker {
  readonly hash = createHash('sha256')
  largest = 0
  hasEnded = false
  #rest = Buffer.alloc(0)
  #isInBody = false
  /** Bytes of the present chunk that are still to come. */
  #left = 0

  take(data: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, data])
    while (!this.hasEnded && this.#step()) {}
  }

  #step(): boolean {
    if (this.#left > 0) {
      const part = this.#rest.subarray(0, this.#left)
      this.hash.update(part)
      this.#left -= part.byteLength
      this.#rest = this.#rest.subarray(part.byteLength)
      return this.#left === 0
    }
    // Before the bytes of a chunk stand the head or the line break of the last chunk, and the size.
    const [frame, text, hex] = (this.#isInBody
      ? /^(\r\n)([0-9A-Fa-f]+)\r\n/
      : /^([\s\S]*?\r\n\r\n)([0-9A-Fa-f]+)\r\n/
    ).exec(this.#rest.subarray(0, 2000).toString('latin1')) ?? ['', '', '']
    if (frame === '') {
      if (this.#rest.byteLength > 2000)
        throw new Error(`no frame: ${this.#rest.subarray(0, 40).toString('latin1')}`)
      return false
    }
    expect(this.#isInBody || text?.startsWith('HTTP/1.1 200')).toBe(true)
    this.#isInBody = true
    this.#left = Number.parseInt(hex ?? '', 16)
    this.largest = Math.max(this.largest, this.#left)
    this.hasEnded = this.#left === 0
    this.#rest = this.#rest.subarray(frame.length)
    return true
  }
}

test('a client that disconnects or stalls ends its stream and closes the source', async () => {
  const source = new Source()
  const api = await serve(async () => source.reply(async at => chunkOf(at)), { streamStallMs: 200 })
  for (const stalls of [false, true]) {
    const before = source.closed
    const socket = connect(api.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(head('/v1/pools/p/arrow', [], 'GET'))
    socket.pause()
    await until(() => source.asked > 2)
    if (!stalls) socket.destroy()
    await until(() => source.closed === before + 1)
    expect(api.stats().streams).toBe(0)
    socket.destroy()
  }
  await until(() => api.stats().open === 0)
  expect(await api.stop(1000)).toBe(true)
})

test('a client that disconnects before the first chunk closes the source once the chunk exists', async () => {
  const source = new Source()
  const { promise, open } = gate()
  const api = await serve(async () =>
    source.reply(async at => {
      await promise
      return chunkOf(at)
    }),
  )
  const socket = connect(api.port, '127.0.0.1')
  socket.write(head('/v1/pools/p/arrow', [], 'GET'))
  await until(() => source.asked === 1)
  socket.destroy()
  await until(() => api.stats().open === 0)
  open()
  await until(() => source.closed === 1)
  expect([source.asked, api.stats().streams]).toEqual([1, 0])
  expect(await api.stop(1000)).toBe(true)
})

test('a request hears that its client has gone while its stream works on the next chunk', async () => {
  const source = new Source()
  const api = await serve(async ({ gone }) =>
    source.reply(async at => {
      if (at > 0) await once(gone, 'abort')
      return chunkOf(at)
    }),
  )
  const socket = connect(api.port, '127.0.0.1')
  socket.write(head('/v1/pools/p/arrow', [], 'GET'))
  socket.resume()
  await until(() => source.asked === 2)
  socket.destroy()
  await until(() => source.closed === 1)
  expect(await api.stop(1000)).toBe(true)
})

// These two wait for a slot as long as a request may, each on a server of its own.
test.concurrent('a stream beyond the limit is 503, and its source is never read', async () => {
  const sources: Source[] = []
  const { promise, open } = gate()
  const api = await serve(async () => {
    const source = new Source()
    sources.push(source)
    return source.reply(async () => {
      await promise
      return undefined
    })
  })
  const asked = Array.from({ length: STREAMS_MAX }, () =>
    ask(api.port, '/v1/pools/p/arrow', { method: 'GET' }),
  )
  await until(() => api.stats().streams === STREAMS_MAX)
  const refused = await ask(api.port, '/v1/pools/p/arrow', { method: 'GET' })
  expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([503, 'busy', '1'])
  expect(sources.length).toBe(STREAMS_MAX) // nothing begins without a place
  open()
  for (const answer of await Promise.all(asked)) expect(answer.status).toBe(200)
  expect(await api.stop(1000)).toBe(true)
})

test.concurrent('a stream keeps its slot until its source is closed', async () => {
  const { promise, open } = gate()
  const source = new Source()
  const api = await serve(async () => {
    const reply = source.reply(async () => undefined)
    const iterator = reply.chunks[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
    const close = async () => {
      source.closed += 1
      await promise
      return { done: true as const, value: undefined }
    }
    return { ...reply, chunks: { [Symbol.asyncIterator]: () => ({ ...iterator, return: close }) } as never }
  })
  const get = () => ask(api.port, '/v1/pools/p/arrow', { method: 'GET' })
  for (const { status } of await Promise.all(Array.from({ length: STREAMS_MAX }, get)))
    expect(status).toBe(200)
  await until(() => source.closed === STREAMS_MAX)
  expect([(await get()).status, api.stats().streams]).toEqual([503, STREAMS_MAX])
  open()
  await until(() => api.stats().streams === 0)
  expect((await get()).status).toBe(200)
  expect(await api.stop(1000)).toBe(true)
})

test('a server that stops closes its streams without the end mark', async () => {
  const source = new Source()
  const api = await serve(async () => source.reply(async at => chunkOf(at)))
  const answer = await fetch(`http://127.0.0.1:${api.port}/v1/pools/p/arrow`)
  const reading = answer.arrayBuffer()
  const failed = expect(reading).rejects.toThrow()
  await until(() => source.asked > 10)
  expect(await api.stop(5000)).toBe(true)
  await failed
  await until(() => source.closed === 1)
})

test('a client that reads nothing for longer than the timer of uWebSockets.js still gets the rest', async () => {
  const { source } = idle
  const [api, socket] = [idle.api!, idle.socket!]
  await isLong
  expect([source.closed, api.stats().streams]).toEqual([0, 1])
  let lastBytes = ''
  socket.on('data', data => {
    lastBytes = (lastBytes + data.subarray(-5).toString('latin1')).slice(-5)
  })
  socket.resume()
  await until(() => lastBytes === '0\r\n\r\n')
  expect(source.closed).toBe(1)
  socket.destroy()
  expect(await api.stop(1000)).toBe(true)
})
