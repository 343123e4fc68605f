/**
 * What a real Keeper of three servers, and connections that break at the worst moment, may do to a
 * node: a server that stands still, one that its leader has lost, an answer that says nothing.
 */
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { OPERATION } from '../../src/cluster/keeper/jute.ts'
import { KeeperClient } from '../../src/cluster/keeper/keeper-client.ts'
import { openKeeperStore } from '../../src/cluster/keeper/keeper-store.ts'
import { created, makeFolder } from '../catalog/folder.ts'
import { framesProxy } from './frames-proxy.ts'
import { standStill, stoppableProxy } from './stoppable-proxy.ts'
import { noZookeeper, startEnsemble, startZookeeper } from './zookeeper.ts'

const SESSION_MS = 3_000

async function clientOf(...ports: number[]) {
  const connections: boolean[] = []
  const client = new KeeperClient({
    servers: ports.map(port => ({ host: '127.0.0.1', port })),
    sessionMs: SESSION_MS,
    onConnected: isNew => connections.push(isNew),
    onWatched: () => {},
  })
  onTestFinished(() => client.stop())
  await expect.poll(() => connections.length).toBe(1)
  return { client, connections }
}

/** A node of a cluster, without its ingest and queries. */
async function nodeOf(port: number, sessionMs = SESSION_MS) {
  const fatal: Error[] = []
  const store = await openKeeperStore({
    keeper: { servers: [{ host: '127.0.0.1', port }], sessionMs },
    root: '/weir',
    secretKey: Buffer.alloc(32, 7),
    layout: {},
    onFatal: error => fatal.push(error),
  })
  const folder = makeFolder()
  onTestFinished(() => folder.remove())
  const { catalog } = await folder.open({ store: Promise.resolve(store) })
  return { store, catalog, fatal }
}

const make = async (catalog: Catalog, uniqueName: string) =>
  created(await catalog.change(createWebhookSource({ uniqueName }, 'APP1')))

const NOTHING = Buffer.alloc(0)

describe.skipIf(noZookeeper !== undefined)(`faults of ZooKeeper ${noZookeeper ?? ''}`, () => {
  test('a server that stands still is left for another one before the session ends', async () => {
    const servers = await startEnsemble({})
    let used = 0
    const path = (index: number) =>
      framesProxy(servers[index]!.port, {
        onRequest({ frame }) {
          used = index
          return frame
        },
      })
    const { client, connections } = await clientOf((await path(0)).port, (await path(2)).port)
    const session = client.sessionId
    await client.write({ kind: 'create', path: '/e', data: NOTHING, isEphemeral: true })
    const stopped = servers[used]!
    await standStill(stopped.child)
    const write = client.write({ kind: 'setData', path: '/e', data: NOTHING })
    await expect(write).rejects.toThrow(expect.objectContaining({ code: 'keeper_lost' }))
    expect(client.isAlive()).toBe(false)
    await expect.poll(() => connections.length).toBe(2)
    expect([connections, client.sessionId]).toEqual([[true, false], session])
    stopped.child.kill('SIGCONT')
  })

  test('a server that its leader has lost keeps nobody alive', async () => {
    let path: Awaited<ReturnType<typeof stoppableProxy>> | undefined
    const servers = await startEnsemble({
      syncTicks: 100,
      leaderPort: async port => {
        path = await stoppableProxy(port)
        return path.port
      },
    })
    const [other, cut] = [await clientOf(servers[0]!.port), await clientOf(servers[2]!.port)]
    await cut.client.write({ kind: 'create', path: '/e', data: NOTHING, isEphemeral: true })
    expect(cut.client.isAlive()).toBe(true)
    path!.stop()
    await expect.poll(() => other.client.getChildren('/')).not.toContain('e')
    expect(cut.client.isAlive()).toBe(false)
  })

  test('the leader stands still: a change is made once, and all nodes go on', async () => {
    const servers = await startEnsemble({})
    const [one, two] = [await nodeOf(servers[0]!.port, 10_000), await nodeOf(servers[2]!.port, 10_000)]
    await standStill(servers[1]!.child)
    const outcome = await make(one.catalog, 'a').catch((error: Error) => error)
    await expect
      .poll(() => make(two.catalog, 'b').catch(() => two.catalog.read.sources.find('b')))
      .toBeDefined()
    servers[1]!.child.kill('SIGCONT')
    await expect.poll(() => [one.store.isCurrent(), two.store.isCurrent()]).toEqual([true, true])
    const sources = [one, two].map(({ catalog }) => catalog.read.sources.find('a'))
    if (!(outcome instanceof Error)) expect(sources[0]).toBeDefined()
    expect(sources[1]).toEqual(sources[0])
    expect([one.fatal, two.fatal]).toEqual([[], []])
  })

  test('a node that lost the answer to its registration holds nobody back', async () => {
    const { port } = await startZookeeper()
    let mode: 'pass' | 'stop' | 'lose' = 'pass'
    const path = await framesProxy(port, {
      async onRequest({ operation, frame, ask, cut }) {
        if (mode === 'stop') return undefined
        if (mode !== 'lose' || operation !== OPERATION.create) return frame
        mode = 'pass'
        cut()
        await ask(frame)
        return undefined
      },
    })
    const [one, away] = [await nodeOf(port), await nodeOf(path.port)]
    mode = 'stop'
    await expect.poll(() => one.store.nodes.states()).toHaveLength(1)
    mode = 'lose'
    await expect.poll(() => away.store.isCurrent()).toBe(true)
    expect(mode).toBe('pass')
    await make(one.catalog, 'a')
    expect(away.catalog.read.sources.find('a')).toBeDefined()
    expect(await one.store.nodes.states()).toHaveLength(2)
  })

  test('a change that was on its way when its connection broke is not made later', async () => {
    const { port } = await startZookeeper({ tickMs: 500 })
    let armed = false
    let late: (() => Promise<Buffer>) | undefined
    let lateError = 0
    const path = await framesProxy(port, {
      async onRequest({ operation, frame, ask, cut }) {
        // As ClickHouse Keeper: each connection has a session of its own.
        if (operation === undefined) frame.fill(0, 20, 28)
        if (!armed || operation !== OPERATION.multi || !frame.includes('/changes/')) return frame
        if (late === undefined) {
          late = () => ask(frame)
          cut()
          return undefined
        }
        armed = false
        const answer = await late()
        // The answer's header, then that of its first write, then the error of it.
        lateError = answer.readInt32BE(29)
        return frame
      },
    })
    const { catalog, store } = await nodeOf(path.port, 5_000)
    armed = true
    const { source } = await make(catalog, 'a')
    expect(catalog.read.sources.find('a')).toEqual(source)
    expect(lateError).not.toBe(0)
    await store.stop()
  })

  test('a change is answered although the connection breaks after it was made', async () => {
    const { port } = await startZookeeper()
    let armed = false
    const path = await framesProxy(port, {
      onRequest({ operation, frame, cut }) {
        if (!armed || operation !== OPERATION.getChildren) return frame
        armed = false
        cut()
        return undefined
      },
    })
    const { catalog } = await nodeOf(path.port)
    armed = true
    await make(catalog, 'a')
    expect(armed).toBe(false)
    expect(catalog.read.sources.find('a')).toBeDefined()
  })

  test('an error of the server itself leaves it unknown whether a change was made', async () => {
    const { port } = await startZookeeper()
    let failing = 0
    const path = await framesProxy(port, {
      onRequest({ operation, xid, frame }) {
        if (failing === -1 && operation === OPERATION.multi && frame.includes('/changes/')) failing = xid
        return frame
      },
      onAnswer(frame) {
        if (failing <= 0 || frame.readInt32BE(4) !== failing) return frame
        failing = 0
        const answer = Buffer.from(frame.subarray(0, 20))
        answer.writeInt32BE(16)
        answer.writeInt32BE(-7, 16) // a time-out within ClickHouse Keeper
        return answer
      },
    })
    const { catalog } = await nodeOf(path.port)
    failing = -1
    await make(catalog, 'a')
    expect(failing).toBe(0)
    expect(catalog.read.sources.all().filter(({ uniqueName }) => uniqueName === 'a')).toHaveLength(1)
  })

  test('answers find their questions in whichever order they come', async () => {
    const { port } = await startZookeeper()
    let held: Buffer | undefined
    let isHeld = false
    const path = await framesProxy(port, {
      onAnswer(frame) {
        if (!isHeld) return frame
        if (held === undefined) {
          held = frame
          return NOTHING
        }
        isHeld = false
        return Buffer.concat([frame, held])
      },
    })
    const { client } = await clientOf(path.port)
    for (const name of ['/a', '/b'])
      await client.write({ kind: 'create', path: name, data: Buffer.from(name) })
    await client.sync('/')
    isHeld = true
    const read = await Promise.all(['/a', '/b'].map(name => client.getData(name)))
    expect(read.map(({ data }) => data.toString())).toEqual(['/a', '/b'])
  })

  test('what is removed twice, or was never there, is removed', async () => {
    const { port } = await startZookeeper()
    const { store, catalog } = await nodeOf(port)
    const { source } = await make(catalog, 'a')
    const key = `source/${source.id}`
    expect(store.entries).toEqual([])
    expect(await store.apply({ puts: [], removes: [key, key, 'source/none'] })).toBe(true)
    expect(catalog.read.sources.find('a')).toBeUndefined()
  })
})
