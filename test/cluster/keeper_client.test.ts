/**
 * The client of Keeper against a real ZooKeeper: what a write answers, what a broken connection
 * leaves unknown, and when a node may still say that it is alive.
 */

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { describe, expect, onTestFinished, test } from 'vitest'
import { KEEPER_ERROR } from '../../src/cluster/keeper/jute.ts'
import { KeeperClient, type KeeperOptions } from '../../src/cluster/keeper/keeper-client.ts'
import { recordLog } from '../util/log-lines.ts'
import { stoppableProxy } from './stoppable-proxy.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const SESSION_MS = 2_000

/** A client, and what it was told. */
async function clientOf(port: number, options: Partial<KeeperOptions> = {}) {
  const connections: boolean[] = []
  const watched: string[] = []
  let told = () => {}
  const client = new KeeperClient({
    servers: [{ host: '127.0.0.1', port }],
    sessionMs: SESSION_MS,
    onConnected: isNew => {
      connections.push(isNew)
      told()
    },
    onWatched: path => {
      watched.push(path)
      told()
    },
    ...options,
  })
  onTestFinished(() => client.stop())
  const until = async (is: () => boolean) => {
    while (!is())
      await new Promise<void>(resolve => {
        told = resolve
      })
  }
  await until(() => connections.length > 0)
  return { client, connections, watched, until }
}

const bytes = (text: string) => Buffer.from(text)

describe.skipIf(noZookeeper !== undefined)(`a session with ZooKeeper ${noZookeeper ?? ''}`, () => {
  test('nodes are made, read, changed by version and deleted', async () => {
    const { port } = await startZookeeper()
    const { client } = await clientOf(port)
    await client.write({ kind: 'create', path: '/a', data: bytes('1') })
    await client.write({ kind: 'create', path: '/a/ü', data: bytes('') })
    expect(await client.getChildren('/a')).toEqual(['ü'])
    const { data, stat } = await client.getData('/a')
    expect([data.toString(), stat.version, stat.ephemeralOwner]).toEqual(['1', 0, 0n])
    const { zxid } = await client.write({ kind: 'setData', path: '/a', data: bytes('2'), version: 0 })
    expect((await client.getData('/a')).stat.changedZxid).toBe(zxid)
    const refused = (error: number) => expect.objectContaining({ code: 'keeper_refused', error })
    await expect(client.write({ kind: 'setData', path: '/a', data: bytes('3'), version: 0 })).rejects.toThrow(
      refused(KEEPER_ERROR.badVersion),
    )
    await expect(client.write({ kind: 'create', path: '/a', data: bytes('') })).rejects.toThrow(
      refused(KEEPER_ERROR.nodeExists),
    )
    await expect(client.write({ kind: 'delete', path: '/a' })).rejects.toThrow(refused(KEEPER_ERROR.notEmpty))
    await client.write({ kind: 'delete', path: '/a/ü', version: 0 })
    await expect(client.getData('/a/ü')).rejects.toThrow(refused(KEEPER_ERROR.noNode))
  })

  test('a multi makes all of its writes or none', async () => {
    const { port } = await startZookeeper()
    const { client } = await clientOf(port)
    await client.write({ kind: 'create', path: '/root', data: bytes('') })
    await client.multi([
      { kind: 'setData', path: '/root', data: bytes('1'), version: 0 },
      { kind: 'create', path: '/root/x', data: bytes('x') },
    ])
    await expect(
      client.multi([
        { kind: 'create', path: '/root/y', data: bytes('y') },
        { kind: 'setData', path: '/root', data: bytes('2'), version: 0 },
        { kind: 'delete', path: '/root/x' },
      ]),
    ).rejects.toThrow(expect.objectContaining({ error: KEEPER_ERROR.badVersion }))
    expect(await client.getChildren('/root')).toEqual(['x'])
    await client.multi([
      { kind: 'check', path: '/root', version: 1 },
      { kind: 'delete', path: '/root/x' },
    ])
    expect(await client.getChildren('/root')).toEqual([])
  })

  test('zxids of writes of two clients rise in the order of their answers', async () => {
    const { port } = await startZookeeper()
    const [one, two] = [await clientOf(port), await clientOf(port)]
    await one.client.write({ kind: 'create', path: '/v', data: bytes('') })
    let last = 0n
    for (let i = 0; i < 200; i += 1) {
      const { client } = i % 2 === 0 ? one : two
      const { zxid } = await client.write({ kind: 'setData', path: '/v', data: bytes('') })
      expect(zxid).toBeGreaterThan(last)
      last = zxid
    }
    // Answers to requests that were sent together keep their order.
    const many = await Promise.all(
      Array.from({ length: 500 }, () => one.client.write({ kind: 'setData', path: '/v', data: bytes('') })),
    )
    const zxids = many.map(({ zxid }) => zxid)
    expect(zxids).toEqual(zxids.toSorted((a, b) => (a < b ? -1 : 1)))
    expect(new Set(zxids).size).toBe(500)
  })

  test('a watch tells one change, of data or of children', async () => {
    const { port } = await startZookeeper()
    const [one, two] = [await clientOf(port), await clientOf(port)]
    await one.client.write({ kind: 'create', path: '/w', data: bytes('') })
    await one.client.getData('/w', true)
    await two.client.write({ kind: 'setData', path: '/w', data: bytes('1') })
    await one.until(() => one.watched.length === 1)
    await one.client.getChildren('/w', true)
    await two.client.write({ kind: 'create', path: '/w/c', data: bytes('') })
    await one.until(() => one.watched.length === 2)
    expect(one.watched).toEqual(['/w', '/w'])
  })

  test('ephemeral nodes go with their session: at once where it is stopped, in time where it is not', async () => {
    const { port } = await startZookeeper()
    const [one, two] = [await clientOf(port), await clientOf(port)]
    await one.client.write({ kind: 'create', path: '/nodes', data: bytes('') })
    await two.client.write({ kind: 'create', path: '/nodes/two', data: bytes(''), isEphemeral: true })
    expect((await one.client.getData('/nodes/two')).stat.ephemeralOwner).toBe(two.client.sessionId)
    await one.client.getChildren('/nodes', true)
    await two.client.stop()
    await one.until(() => one.watched.length > 0)
    expect(await one.client.getChildren('/nodes')).toEqual([])
  })

  test('a digest closes the nodes of a client to others', async () => {
    const { port } = await startZookeeper()
    const mine = await clientOf(port, { digest: 'weir:secret' })
    await mine.client.write({ kind: 'create', path: '/mine', data: bytes('1') })
    const { client } = await clientOf(port)
    await expect(client.getData('/mine')).rejects.toThrow(expect.objectContaining({ code: 'keeper_refused' }))
    const again = await clientOf(port, { digest: 'weir:secret' })
    expect((await again.client.getData('/mine')).data.toString()).toBe('1')
  })

  test('over TLS, with a certificate that the client checks', async () => {
    const { port } = await startZookeeper()
    const certificate = (name: string) =>
      readFileSync(new URL(`../../../test/path/tls/${name}`, import.meta.url))
    const front = createTlsServer({ cert: certificate('first.crt'), key: certificate('first.key') }, near => {
      const far = connect(port, '127.0.0.1')
      near.on('error', () => far.destroy()).pipe(far)
      far.on('error', () => near.destroy()).pipe(near)
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void front.close())
    await once(front, 'listening')
    const address = front.address() as { port: number }
    const { client } = await clientOf(address.port, { tls: { ca: certificate('first.crt') } })
    await client.write({ kind: 'create', path: '/tls', data: bytes('1') })
    expect((await client.getData('/tls')).data.toString()).toBe('1')
    const refused = once(front, 'tlsClientError')
    const other = new KeeperClient({
      servers: [{ host: '127.0.0.1', port: address.port }],
      tls: { ca: certificate('second.crt') },
      sessionMs: SESSION_MS,
      onConnected: () => expect.fail('the certificate is of another authority'),
      onWatched: () => {},
    })
    await refused
    await other.stop()
  })

  test('a restart of the server keeps session and ephemeral nodes; what was asked meanwhile is refused', async () => {
    const lines = recordLog()
    const zookeeper = await startZookeeper({ tickMs: 2_000 })
    const { client, connections, until } = await clientOf(zookeeper.port, { sessionMs: 30_000 })
    await client.write({ kind: 'create', path: '/e', data: bytes(''), isEphemeral: true })
    const before = client.sessionId
    await zookeeper.kill()
    await expect(client.write({ kind: 'setData', path: '/e', data: bytes('') })).rejects.toThrow(/^Keeper: /)
    expect(client.isAlive()).toBe(false)
    await zookeeper.restart()
    await until(() => connections.length === 2)
    expect(connections).toEqual([true, false])
    expect(client.sessionId).toBe(before)
    expect((await client.getData('/e')).stat.ephemeralOwner).toBe(before)
    expect(client.isAlive()).toBe(true)
    expect(lines.map(({ message }) => message)).toEqual([
      `the connection to Keeper at 127.0.0.1:${zookeeper.port} broke: nothing is taken or answered without it`,
      'Keeper hears this process again',
    ])
  })

  test('behind a connection that stands still a client calls itself dead before its node is gone', async () => {
    const { port } = await startZookeeper()
    const path = await stoppableProxy(port)
    const stopped = await clientOf(path.port)
    const other = await clientOf(port)
    await other.client.write({ kind: 'create', path: '/nodes', data: bytes('') })
    await stopped.client.write({ kind: 'create', path: '/nodes/s', data: bytes(''), isEphemeral: true })
    await other.client.getChildren('/nodes', true)
    expect(stopped.client.isAlive()).toBe(true)
    path.stop()
    const write = stopped.client.write({ kind: 'setData', path: '/nodes/s', data: bytes('') })
    const lost = expect(write).rejects.toThrow(expect.objectContaining({ code: 'keeper_lost' }))
    await other.until(() => other.watched.length > 0)
    expect(stopped.client.isAlive()).toBe(false)
    await lost
    path.go()
    await stopped.until(() => stopped.connections.length === 2)
    // The session has ended meanwhile: this is a new one.
    expect(stopped.connections).toEqual([true, true])
    expect(await other.client.getChildren('/nodes')).toEqual([])
  })
})

test('a server that speaks another protocol is left, and no answer is made up', async () => {
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const client = new KeeperClient({
    servers: [{ host: '127.0.0.1', port }],
    sessionMs: SESSION_MS,
    onConnected: () => expect.fail('there was no session'),
    onWatched: () => expect.fail('nothing was watched'),
  })
  await once(server, 'connection')
  await once(server, 'connection') // it tries again
  await expect(client.getData('/')).rejects.toThrow(expect.objectContaining({ code: 'keeper_unreachable' }))
  expect(client.isAlive()).toBe(false)
  await client.stop()
})
