/**
 * TLS in the front end: sockets that never begin a handshake, the limit of connections, streams to
 * clients of HTTP/1.0 that end early, and files that change. test/path/tls.test.ts has the server.
 */
import { generateKeyPairSync } from 'node:crypto'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { connect as connectTcp, createServer } from 'node:net'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { connect, type TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Api, ApiOptions, ControlRoute } from '../../src/api/api-types.ts'
import { loadUws } from '../../src/api/http/choose-transport.ts'
import { Drain, Sockets, Unread } from '../../src/api/http/connections.ts'
import { nodeTransport } from '../../src/api/http/node.ts'
import { readPair, type TlsPair, watchPair } from '../../src/api/http/tls.ts'
import type { Transport } from '../../src/api/http/transport.ts'
import { type UwsModule, uwsTransport } from '../../src/api/http/uws.ts'
import { temporaryFolder } from '../util/server.ts'
import { Raw } from './client.ts'
import { Fake, frontEnd, gate, start, until } from './fake.ts'

const FIXTURES = fileURLToPath(new URL('../../../test/path/tls', import.meta.url))
const fixture = (name: string) => join(FIXTURES, name)
const FILES = { cert: fixture('first.crt'), key: fixture('first.key') }
const tls = { files: FILES, pair: await readPair(FILES) }
const CA = tls.pair.cert

function open(port: number): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ca: CA }, () => resolve(socket))
    socket.on('error', reject)
  })
}

function statusOf(port: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path: '/livez', ca: CA, agent: false }, answer => {
      answer.resume()
      answer.on('end', () => resolve(answer.statusCode))
    })
    asked.on('error', reject)
    asked.end()
  })
}

const begin = (transport: Transport, options: Partial<ApiOptions> = {}): Promise<Api> =>
  start(new Fake(), { transport, tls, ...options })

/** Each with a connection that says nothing, from the beginning of this file on. */
const servers = await Promise.all(
  [...new Set([frontEnd, nodeTransport])].map(async transport => {
    const api = await begin(transport)
    return { name: transport.name, transport, api, silent: await Raw.open(api.port) }
  }),
)

describe.each(servers)('over $name', ({ transport, api, silent }) => {
  test('connections beyond the limit are closed, open ones stay, and a closed one makes room', async () => {
    const limited = await begin(transport, { connectionsMax: 4 })
    const idle = [await open(limited.port), await open(limited.port), await open(limited.port)]
    idle.push(await open(limited.port))
    for (let count = 1; count <= 20; count += 1) {
      const beyond = await Raw.open(limited.port)
      await beyond.untilClosed()
      expect(limited.stats().connectionsRefused).toBe(count)
    }
    await expect(open(limited.port)).rejects.toThrow()
    expect(idle.map(({ closed }) => closed)).toEqual([false, false, false, false])
    idle[0]!.destroy()
    await until(() => limited.stats().connections === 3)
    expect(await statusOf(limited.port)).toBe(200)
    for (const socket of idle) socket.destroy()
    await until(() => limited.stats().connections === 0)
    expect(await limited.stop(1000)).toBe(true)
  })

  test('a connection that never begins its handshake is closed, and the server goes on', async () => {
    await silent.untilClosed()
    expect(silent.received).toBe('')
    expect(await statusOf(api.port)).toBe(200)
    await until(() => api.stats().connections === 0)
    expect(await api.stop(1000)).toBe(true)
  })
})

/** The types of the records that a TLS server sent (RFC 5246, 6.2.1). */
function recordTypes(bytes: Buffer): number[] {
  const types: number[] = []
  for (let at = 0; at + 5 <= bytes.length; at += 5 + bytes.readUInt16BE(at + 3)) types.push(bytes[at]!)
  return types
}

const ALERT = 21
const APPLICATION_DATA = 23

describe('a stream over HTTP/1.0, which its connection ends', () => {
  const chunk = new Uint8Array(100_000)
  let closed = 0
  let hasArrived = gate()

  async function* chunks(path: string) {
    try {
      if (path === 'whole') yield chunk
      else if (path === 'broken') {
        yield chunk
        await hasArrived.promise
        throw new Error('expected by this test')
      } else for (;;) yield chunk
    } finally {
      closed += 1
    }
  }

  function serve(options: Partial<ApiOptions>): Promise<Api> {
    const owner = { applicationId: 'a', isAdmin: true }
    const handle: ControlRoute['handle'] = async ({ parameters: [path = ''] }) => ({
      owner,
      begin: async () => ({ status: 200, chunks: chunks(path) }),
    })
    const routes: ControlRoute[] = [{ methods: ['GET'], path: '/stream/:which', bodyBytesMax: 0, handle }]
    return start(new Fake(), { transport: nodeTransport, tls, ...options }, { routes })
  }

  /** TLS 1.2, whose records show their types. */
  function ask(port: number, which: string): TLSSocket {
    const socket = connect({ host: '127.0.0.1', port, ca: CA, maxVersion: 'TLSv1.2' })
    socket.write(`GET /stream/${which} HTTP/1.0\r\nHost: localhost\r\n\r\n`)
    return socket
  }

  test.each([
    ['whole', ALERT],
    ['broken', APPLICATION_DATA],
  ])('one that is %s ends with a record of type %i', async (which, last) => {
    closed = 0
    hasArrived = gate()
    const api = await serve({})
    const sent: Buffer[] = []
    let sentBytes = 0
    // Between client and server, because a TLSSocket does not tell how its connection ended.
    const between = createServer(client => {
      const server = connectTcp(api.port, '127.0.0.1')
      client.pipe(server)
      server.on('data', data => {
        sent.push(data)
        sentBytes += data.byteLength
        if (sentBytes > chunk.byteLength) hasArrived.open()
        client.write(data)
      })
      server.on('close', () => client.end())
      for (const one of [client, server]) one.on('error', () => {})
    }).listen(0, '127.0.0.1')
    await new Promise(resolve => between.once('listening', resolve))
    const socket = ask((between.address() as { readonly port: number }).port, which)
    socket.on('error', () => {})
    socket.resume()
    await new Promise(resolve => socket.once('close', resolve))
    expect(recordTypes(Buffer.concat(sent)).at(-1)).toBe(last)
    expect(closed).toBe(1)
    expect(await statusOf(api.port)).toBe(200)
    between.close()
    await until(() => api.stats().connections === 0)
    expect(await api.stop(1000)).toBe(true)
  })

  test('one that its client does not read is closed, and the server goes on', async () => {
    closed = 0
    const api = await serve({ streamStallMs: 200 })
    const socket = ask(api.port, 'endless')
    socket.on('error', () => {})
    socket.pause()
    await until(() => api.stats().streams === 1)
    await until(() => closed === 1)
    expect(await statusOf(api.port)).toBe(200)
    socket.destroy()
    expect(await api.stop(1000)).toBe(true)
  })
})

const { module: uws } = await loadUws('')

test.runIf(uws !== undefined)(
  'a renewal that cannot listen leaves the server as it is, and may be tried again',
  async () => {
    const made: { isClosed: boolean }[] = []
    let isRefusing = false
    const withFaults: UwsModule = {
      ...uws!,
      SSLApp: options => {
        const app = uws!.SSLApp(options)
        const { listen, close } = app
        const one = { isClosed: false }
        made.push(one)
        const listenOrRefuse = (...given: unknown[]) => {
          if (isRefusing) (given.at(-1) as (socket: false) => void)(false)
          else Reflect.apply(listen, app, given)
          return app
        }
        const closeAndTell = () => {
          one.isClosed = true
          return Reflect.apply(close, app, []) as typeof app
        }
        return Object.assign(app, { listen: listenOrRefuse, close: closeAndTell })
      },
    }
    const connections = {
      ...{ open: 0, state: 'serving' as const, stopping: false, refusing: false, ticks: 0 },
      ...{ onIdle: () => {}, onReply: () => {} },
      ...{ drain: new Drain(1000), unread: new Unread(1000), sockets: new Sockets(100) },
    }
    const listening = await uwsTransport(withFaults).listen({
      ...{ host: '127.0.0.1', port: 0, connections, tls, idleMsMax: 1000 },
      onRequest: (_, responder) => responder.send({ status: 200, body: 'x' }),
    })
    isRefusing = true
    expect(() => listening.renew(tls.pair)).toThrow(/cannot listen again at 127\.0\.0\.1:\d+$/)
    expect(made.map(({ isClosed }) => isClosed)).toEqual([false, true])
    expect(await statusOf(listening.port)).toBe(200)
    isRefusing = false
    listening.renew(tls.pair)
    expect(await statusOf(listening.port)).toBe(200)
    listening.close()
    expect(made.map(({ isClosed }) => isClosed)).toEqual([true, true, true])
  },
)

describe('the files', () => {
  afterEach(() => vi.useRealTimers())

  test.each([
    ['a key of another type', 'rsa', /cannot be used: the key is not the one of the certificate/],
    ['a key of another certificate', 'second', /cannot be used: the key is not the one of the certificate/],
    ['a file without an end', '/dev/zero', /--tls-key \/dev\/zero has more than 262144 bytes/],
    ['a folder', FIXTURES, /--tls-key .* cannot be read: EISDIR/],
    ['no PEM', fixture('first.crt'), /cannot be used: /],
  ])('%s is refused', async (_, name, sentence) => {
    let key = name === 'second' ? fixture('second.key') : name
    if (name === 'rsa') {
      key = join(temporaryFolder(), 'rsa.pem')
      const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
      writeFileSync(key, privateKey.export({ type: 'pkcs8', format: 'pem' }))
    }
    await expect(readPair({ cert: FILES.cert, key })).rejects.toThrow(sentence)
  })

  function changing() {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const folder = temporaryFolder()
    const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
    const put = (name: string) => {
      copyFileSync(fixture(`${name}.key`), files.key)
      copyFileSync(fixture(`${name}.crt`), files.cert)
    }
    put('first')
    /** Resolves when a watch that began with another pair took the files as they are now. */
    const read = (): Promise<TlsPair> =>
      new Promise(resolve => {
        const none = { cert: Buffer.alloc(0), key: Buffer.alloc(0) }
        const end = watchPair({ files, pair: none }, pair => {
          end()
          resolve(pair)
        })
        vi.advanceTimersByTime(5_000)
      })
    return { watched: { files, pair: tls.pair }, put, read }
  }

  test('a watch that has ended renews nothing, also where it is reading just then', async () => {
    const { watched, put, read } = changing()
    let renewals = 0
    const end = watchPair(watched, () => {
      renewals += 1
    })
    put('second')
    const other = read() // both begin to read
    end()
    expect((await other).cert).toEqual(readFileSync(fixture('second.crt')))
    await nextTurn()
    vi.advanceTimersByTime(50_000)
    await read()
    expect(renewals).toBe(0)
  })

  test('a pair is given once; one whose renewal fails is given again', async () => {
    const { watched, put, read } = changing()
    const given: string[] = []
    const fails = [false, true, true, false]
    const end = watchPair(watched, ({ cert }) => {
      given.push(cert.equals(CA) ? 'first' : 'second')
      if (fails.shift()) throw new Error('expected by this test')
    })
    const expectAll = async (wanted: readonly string[]) => {
      while (given.length < wanted.length) await read()
      for (let count = 0; count < 3; count += 1) await read() // and none is given again
      expect(given).toEqual(wanted)
    }
    await expectAll([])
    put('second')
    await expectAll(['second'])
    put('first')
    await expectAll(['second', 'first', 'first', 'first'])
    end()
  })
})
