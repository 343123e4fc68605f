/**
 * The catalog of a cluster in a real ZooKeeper: every node knows of a change when it is answered,
 * changes of several nodes follow one another as those of one, and nothing is lost or made twice
 * when connections break or the server dies.
 */
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { FORMAT } from '../../src/cluster/keeper/keeper-root.ts'
import { type KeeperStoreOptions, openKeeperStore } from '../../src/cluster/keeper/keeper-store.ts'
import { applyToModel, checkModel, emptyModel, idsAtStart, modelOf } from '../catalog/catalog-model.ts'
import { PAIRS, randomOperation, randomPair, runOperation } from '../catalog/catalog-operations.ts'
import { created, makeFolder } from '../catalog/folder.ts'
import { inOrder, populate } from '../catalog/two-clients.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { stoppableProxy } from './stoppable-proxy.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const SEED = newSeed()
const SECRET_KEY = Buffer.alloc(32, 7)
const LAYOUT = { shards: 2 }

/** A node of a cluster, without its ingest and queries. */
async function nodeOf(port: number, options: Partial<KeeperStoreOptions> = {}, sessionMs = 4_000) {
  const fatal: Error[] = []
  const store = await openKeeperStore({
    keeper: { servers: [{ host: '127.0.0.1', port }], sessionMs },
    root: '/teams/weir',
    secretKey: SECRET_KEY,
    layout: LAYOUT,
    onFatal: error => fatal.push(error),
    ...options,
  })
  const folder = makeFolder()
  onTestFinished(() => folder.remove())
  const { catalog, admin } = await folder.open({ store: Promise.resolve(store) })
  return { store, catalog, admin, fatal, stop: () => folder.stop() }
}

const documentsOf = (catalog: Catalog) => new Map(catalog.read.documents())

describe.skipIf(noZookeeper !== undefined)(`the catalog in ZooKeeper ${noZookeeper ?? ''}`, () => {
  test(`three nodes change it in turn, and each knows every answered change, seed ${SEED}`, async () => {
    const { port } = await startZookeeper()
    const nodes = [await nodeOf(port), await nodeOf(port), await nodeOf(port)]
    const random = randomFrom(SEED)
    const model = emptyModel()
    const ours = idsAtStart(nodes[0]!.catalog)
    for (let change = 0; change < 300; change += 1) {
      const node = nodes[Math.floor(random() * nodes.length)]!
      const operation = randomOperation(model, random)
      applyToModel(model, operation, await runOperation(node.catalog, operation))
      for (const each of nodes) checkModel(each.catalog, model, ours)
    }
    const [first] = nodes
    const fourth = await nodeOf(port)
    for (const each of [...nodes, fourth])
      expect(documentsOf(each.catalog)).toEqual(documentsOf(first!.catalog))
  })

  test(`two nodes change the same objects at once in ${PAIRS.length} ways, seed ${SEED}`, async () => {
    const { port } = await startZookeeper()
    const [one, two] = [await nodeOf(port), await nodeOf(port)]
    const ours = idsAtStart(one.catalog)
    const model = emptyModel()
    const random = randomFrom(SEED + 1)
    const orders = [0, 0]
    for (let round = 0; round < 4; round += 1)
      for (const kinds of PAIRS) {
        await populate(one.catalog, model, random)
        const pair = randomPair(kinds, model, random)
        const nodes = random() < 0.5 ? [one, two] : [two, one]
        const outcomes = await Promise.all(
          pair.map((operation, index) => runOperation(nodes[index]!.catalog, operation)),
        )
        const after = [0, 1].map(first => inOrder(model, pair, outcomes, first))
        const seen = modelOf(one.catalog, ours)
        const order = after.findIndex(each => each !== undefined && isDeepStrictEqual(each, seen))
        expect(order, `${JSON.stringify(pair)} ended as ${JSON.stringify(outcomes)}`).toBeGreaterThanOrEqual(
          0,
        )
        if (after[1 - order] === undefined) orders[order]! += 1
        Object.assign(model, after[order])
        checkModel(two.catalog, model, ours)
      }
    expect(Math.min(...orders)).toBeGreaterThan(0)
  })

  test('nodes that find nothing at the same time make one catalog', async () => {
    const { port } = await startZookeeper()
    const nodes = await Promise.all(Array.from({ length: 4 }, () => nodeOf(port)))
    expect(new Set(nodes.map(({ admin }) => admin?.clientSecret)).size).toBe(1)
    expect(new Set(nodes.map(({ store }) => store.nodes.slot)).size).toBe(4)
    for (const { catalog } of nodes) {
      expect(catalog.pools().map(({ uniqueName }) => uniqueName)).toHaveLength(2)
      expect(documentsOf(catalog)).toEqual(documentsOf(nodes[0]!.catalog))
    }
  })

  test('a slot that was given back is not the next one that a node gets', async () => {
    const { port } = await startZookeeper()
    const one = await nodeOf(port)
    const slots = [one.store.nodes.slot]
    for (let i = 0; i < 3; i += 1) {
      const { store, stop } = await nodeOf(port)
      slots.push(store.nodes.slot)
      expect(store.nodes.clock.slot()).toBe(store.nodes.slot)
      await stop()
      await expect.poll(() => one.store.nodes.states()).toHaveLength(1)
    }
    expect(new Set(slots).size).toBe(4)
  })

  test(`a node that comes while others change it has all of it, seed ${SEED}`, async () => {
    const { port } = await startZookeeper()
    const busy = await nodeOf(port)
    let isOver = false
    let made = 0
    const change = (async () => {
      for (; !isOver; made += 1)
        created(await busy.catalog.change(createWebhookSource({ uniqueName: `s${made}` }, 'APP1')))
    })()
    for (let i = 0; i < 8; i += 1) {
      const { catalog, stop } = await nodeOf(port)
      const known = made
      for (let name = 0; name < known; name += 1)
        expect(catalog.read.sources.find(`s${name}`), `s${name} of ${known}`).toBeDefined()
      await stop()
    }
    isOver = true
    await change
    expect(made).toBeGreaterThan(8)
  })

  test(`the server dies at random moments: each change is made or not, as it was answered, seed ${SEED}`, async () => {
    const zookeeper = await startZookeeper({ tickMs: 2_000 })
    const [one, two] = [await nodeOf(zookeeper.port, {}, 30_000), await nodeOf(zookeeper.port, {}, 30_000)]
    const random = randomFrom(SEED + 2)
    const names = new Set<string>()
    let unanswered = 0
    for (let kill = 0; kill < 5; kill += 1) {
      const working = (async () => {
        for (let i = 0; i < 40; i += 1) {
          const uniqueName = `s${kill}-${i}`
          try {
            created(await one.catalog.change(createWebhookSource({ uniqueName }, 'APP1')))
            names.add(uniqueName)
          } catch {
            unanswered += 1
            return uniqueName
          }
        }
        return undefined
      })()
      const wait = random() * 60
      await new Promise(resolve => setTimeout(resolve, wait))
      await zookeeper.restart()
      const unknown = await working
      // A change that both nodes then make proves that they follow again.
      await expect
        .poll(async () => {
          const uniqueName = `t${kill}`
          const done = await two.catalog
            .change(createWebhookSource({ uniqueName }, 'APP1'))
            .catch(() => undefined)
          if (done !== undefined && two.catalog.read.sources.find(uniqueName) !== undefined)
            names.add(uniqueName)
          return names.has(uniqueName)
        })
        .toBe(true)
      if (unknown !== undefined && one.catalog.read.sources.find(unknown) !== undefined) names.add(unknown)
      for (const { catalog } of [one, two]) {
        const seen = catalog.read.sources.all().map(({ uniqueName }) => uniqueName)
        expect(new Set(seen.filter(name => /^[st]\d/.test(name)))).toEqual(names)
      }
    }
    expect([one.fatal, two.fatal, unanswered]).toEqual([[], [], expect.any(Number)])
    expect(documentsOf(two.catalog)).toEqual(documentsOf(one.catalog))
  })

  test('a node behind a connection that stands still holds a change back until it calls itself dead', async () => {
    const { port } = await startZookeeper()
    const path = await stoppableProxy(port)
    const [one, still] = [await nodeOf(port), await nodeOf(path.port, {}, 2_000)]
    expect(still.store.isCurrent()).toBe(true)
    path.stop()
    const pool = created(await one.catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1')))
    expect(still.catalog.pool(pool.pool.id)).toBeUndefined()
    expect(still.store.isCurrent()).toBe(false)
    path.go()
    await expect.poll(() => still.store.isCurrent()).toBe(true)
    expect(still.catalog.pool(pool.pool.id)).toBeDefined()
    expect(await one.store.nodes.states()).toHaveLength(2)
  })

  test('another secret key, another layout and a newer format are refused with what to do', async () => {
    const { port } = await startZookeeper()
    const { store, fatal } = await nodeOf(port)
    await expect(nodeOf(port, { secretKey: Buffer.alloc(32, 8) })).rejects.toThrow(/WEIR_SECRET_KEY is not/)
    await expect(nodeOf(port, { layout: { shards: 3 } })).rejects.toThrow(
      'the cluster was made with shards 2, and this node finds 3',
    )
    const root = JSON.stringify({ format: FORMAT + 1, version: store.version(), layout: LAYOUT })
    await store.keeper.write({ kind: 'setData', path: '/teams/weir/catalog', data: Buffer.from(root) })
    await expect(nodeOf(port)).rejects.toThrow(
      `has format ${FORMAT + 1}; this version of Weir reads formats up to ${FORMAT}`,
    )
    // A newer Weir did it while this node ran. It ends before it writes the older format again.
    await expect
      .poll(() => fatal.map(({ message }) => message))
      .toEqual([expect.stringContaining(`has format ${FORMAT + 1}`)])
    expect(store.isCurrent()).toBe(false)
  })

  test('secrets are sealed in Keeper', async () => {
    const { port } = await startZookeeper()
    const { store, admin } = await nodeOf(port)
    const everything: string[] = []
    const walk = async (path: string): Promise<void> => {
      everything.push((await store.keeper.getData(path)).data.toString())
      for (const name of await store.keeper.getChildren(path)) await walk(`${path}/${name}`)
    }
    await walk('/teams')
    expect(everything.length).toBeGreaterThan(10)
    expect(everything.join()).not.toContain(admin!.clientSecret)
    expect(everything.join()).toContain('v1.')
  })

  test('a node that was away for longer than changes are kept ends instead of guessing', async () => {
    const { port } = await startZookeeper()
    const path = await stoppableProxy(port)
    const [one, away] = [await nodeOf(port), await nodeOf(path.port, {}, 2_000)]
    path.stop()
    const put = (i: number) =>
      one.catalog.put([['meta', { ...one.catalog.read.meta(), nextPoolNumber: 100 + i }]])
    for (let i = 0; i < 1_001; i += 1) await put(i)
    path.go()
    await expect.poll(() => away.fatal.map(String)).toEqual([expect.stringContaining('start again')])
    expect(away.store.isCurrent()).toBe(false)
  })
})
