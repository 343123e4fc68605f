/**
 * What an operator may do to a Keeper, and what Keeper may refuse: rights, limits, sessions that
 * are too short, a folder that was emptied. A node says what happened, and serves nothing stale.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { createAddColumnJob, startAddColumn } from '../../src/catalog/change/change-add-column.ts'
import { deletePool } from '../../src/catalog/change/change-pool.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { withTables } from '../../src/cluster/cluster.ts'
import { forgetDeleted } from '../../src/cluster/forget-deleted.ts'
import { JuteWriter, OPERATION } from '../../src/cluster/keeper/jute.ts'
import type { KeeperStore } from '../../src/cluster/keeper/keeper-store.ts'
import { addColumnRunner } from '../../src/jobs/add-column.ts'
import { CannotRun, Unavailable } from '../../src/util/errors.ts'
import { created } from '../catalog/folder.ts'
import { framesProxy } from './frames-proxy.ts'
import { nodeOf } from './keeper-node.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

type Node = Awaited<ReturnType<typeof nodeOf>>

const make = async (catalog: Catalog, uniqueName: string) =>
  created(await catalog.change(createWebhookSource({ uniqueName }, 'APP1')))

/** Puts a text of so many bytes into the meta document. */
const fill = ({ catalog }: Node, bytes: number) =>
  catalog.change(memory => ({
    puts: [['meta', { ...memory.meta(), filling: 'x'.repeat(bytes) }]],
    removes: [],
    result: 'made' as const,
  }))

/** A node whose Keeper has other options. */
const nodeAt = (port: number, keeper: object, root = '/weir') =>
  nodeOf(port, {
    store: { keeper: { servers: [{ host: '127.0.0.1', port }], sessionMs: 2_000, ...keeper }, root },
  })

/** Takes every right at `/` but reading, as an administrator does. */
async function closeTop(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const hello = new JuteWriter().int(0).long(0n).int(4_000).long(0n).buffer(Buffer.alloc(16)).boolean(false)
  socket.write(hello.frame())
  await once(socket, 'data')
  const setAcl = new JuteWriter().int(1).int(7).text('/').int(1).int(1).text('world').text('anyone').int(-1)
  socket.write(setAcl.frame())
  const [answer] = (await once(socket, 'data')) as [Buffer]
  expect(answer.readInt32BE(16)).toBe(0)
  socket.destroy()
}

describe.skipIf(noZookeeper !== undefined)(`a Keeper and its operator ${noZookeeper ?? ''}`, () => {
  test('a node that stops is none at once, and a new session takes the place of the last one', async () => {
    const { port } = await startZookeeper({ tickMs: 2_000 })
    let cut = () => {}
    const path = await framesProxy(port, {
      onRequest(seen) {
        cut = seen.cut
        // As ClickHouse Keeper: each connection has a session of its own.
        if (seen.operation === undefined) seen.frame.fill(0, 20, 28)
        return seen.frame
      },
    })
    const sessionMs = 30_000
    const [one, two] = [await nodeOf(port, { sessionMs }), await nodeOf(path.port, { sessionMs })]
    const session = two.store.keeper.sessionId
    const slot = two.store.nodes.slot
    cut()
    await expect.poll(() => two.store.isCurrent() && two.store.keeper.sessionId !== session).toBe(true)
    const processes = (await one.store.nodes.states()).map(([, { process }]) => process)
    expect(processes.toSorted()).toEqual([one, two].map(({ catalog }) => catalog.process).toSorted())
    expect(two.store.nodes.slot).not.toBe(slot)
    await make(one.catalog, 'a')
    await two.stop()
    expect(await one.store.nodes.states()).toHaveLength(1)
  })

  test('where the path is there, no right above it is needed; else a node says what it lacks', async () => {
    const { port } = await startZookeeper()
    const first = await nodeAt(port, { digest: 'weir:right' }, '/teams/weir')
    await closeTop(port)
    const { catalog } = await nodeAt(port, { digest: 'weir:right' }, '/teams/weir')
    await make(catalog, 'a')
    expect(first.catalog.read.sources.find('a')).toBeDefined()
    const refusals = [nodeAt(port, {}, '/other/weir'), nodeAt(port, { digest: 'weir:wrong' }, '/teams/weir')]
    for (const refused of await Promise.allSettled(refusals)) {
      expect(refused.status).toBe('rejected')
      if (refused.status === 'fulfilled') continue
      expect(refused.reason).toBeInstanceOf(CannotRun)
      expect(refused.reason.message).toMatch(/have no right to it, below \/(teams|other)\/weir$/)
    }
  })

  test('a session of less than three ticks is refused', async () => {
    const { port } = await startZookeeper({ tickMs: 2_000 })
    await expect(nodeOf(port, { sessionMs: 3_000 })).rejects.toThrow(
      new CannotRun(
        'Keeper grants no session shorter than 4000 ms, two of its ticks: a session needs three, 6000 ms',
      ),
    )
  })

  test('what was refused on a connection that stands is tried again', async () => {
    const { port } = await startZookeeper()
    let refusing = 0
    let refused = 0
    const path = await framesProxy(port, {
      onRequest({ operation, xid, frame }) {
        if (refusing === -1 && operation === OPERATION.getData && frame.includes('/weir/catalog\u0001'))
          refusing = xid
        return frame
      },
      onAnswer(frame) {
        if (refusing <= 0 || frame.readInt32BE(4) !== refusing) return frame
        refusing = 0
        refused += 1
        const answer = Buffer.from(frame.subarray(0, 20))
        answer.writeInt32BE(16)
        answer.writeInt32BE(-102, 16)
        return answer
      },
    })
    const [one, two] = [await nodeOf(port), await nodeOf(path.port)]
    refusing = -1
    await make(one.catalog, 'a')
    expect([refused, two.fatal]).toEqual([1, []])
    expect(two.catalog.read.sources.find('a')).toBeDefined()
  })

  test('a node whose Keeper was emptied serves nothing and ends, also where others began anew', async () => {
    const zookeeper = await startZookeeper()
    const [one, two] = [await nodeOf(zookeeper.port), await nodeOf(zookeeper.port)]
    await make(one.catalog, 'a')
    await zookeeper.empty()
    const words = expect.stringContaining('was Keeper emptied? Restore it, then start again')
    await expect.poll(() => one.fatal.map(String)).toEqual([words])
    expect(one.store.isCurrent()).toBe(false)
    await expect(make(one.catalog, 'b')).rejects.toThrow(Unavailable)
    await expect.poll(() => two.fatal.map(String)).toEqual([words])
    const three = await nodeOf(zookeeper.port)
    expect(three.catalog.read.sources.find('a')).toBeUndefined()
    // Below a path that stays, as when a command deletes everything.
    const { keeper } = three.store
    for (const parent of ['/weir/catalog/documents', '/weir/catalog/changes']) {
      for (const name of await keeper.getChildren(parent))
        await keeper.write({ kind: 'delete', path: `${parent}/${name}` })
      await keeper.write({ kind: 'delete', path: parent })
    }
    await keeper.write({ kind: 'delete', path: '/weir/catalog' })
    await expect.poll(() => three.fatal.map(String)).toEqual([words])
    const four = await nodeOf(zookeeper.port)
    expect(four.fatal).toEqual([])
  })

  test('kept changes are bounded by their bytes, and nodes that follow them go on', async () => {
    const { port } = await startZookeeper()
    const [one, two] = [await nodeOf(port), await nodeOf(port)]
    const kept = async () => {
      const names = await one.store.keeper.getChildren('/weir/catalog/changes')
      return names.map(Number).sort((a, b) => a - b)
    }
    for (let i = 0; i < 130; i += 1) await make(one.catalog, `small ${i}`)
    expect(await kept()).toHaveLength(one.store.version())
    for (let i = 0; i < 60; i += 1) expect(await fill(i % 2 === 0 ? one : two, 140_000)).toBe('made')
    const versions = await kept()
    expect(versions).toHaveLength(100)
    expect([versions[0], versions.at(-1)]).toEqual([one.store.version() - 99, one.store.version()])
    // They are as many again when changes are small.
    await fill(two, 1)
    for (let i = 0; i < 20; i += 1) await make(two.catalog, `later ${i}`)
    expect(await kept()).toHaveLength(121)
    const three = await nodeOf(port)
    expect(new Map(three.catalog.read.documents())).toEqual(new Map(one.catalog.read.documents()))
    expect([one.fatal, two.fatal]).toEqual([[], []])
  })

  test('a change that Keeper can never take is refused, and says so', async () => {
    const { port } = await startZookeeper()
    const one = await nodeOf(port)
    const before = one.store.version()
    expect(await fill(one, 600_000)).toEqual({
      badRequest: expect.stringMatching(/1 objects at once.* it takes/),
    })
    expect(one.store.version()).toBe(before)
    expect(await fill(one, 450_000)).toBe('made')
  })

  test('columns that every table has are refused, at once and when they are added', async () => {
    const { port } = await startZookeeper()
    const tables = { async ensure() {}, async addColumns() {} }
    const { catalog } = await nodeOf(port, { through: store => withTables(store, tables) })
    const { pool } = await make(catalog, 'a')
    const refusalOf = async (name: string) => {
      const column = { name, type: 'STRING', jsonProperty: 'x', nullable: true }
      const added = { dataPool: pool.id, columnName: name, columnType: 'STRING', jsonProperty: 'x' }
      const tried = [
        await catalog.change(createWebhookSource({ columns: [column] }, 'APP1')),
        await catalog.change(createAddColumnJob(added, 'APP1')),
      ]
      return tried.map(made => (made !== null && 'badRequest' in made ? made.badRequest : 'made'))
    }
    for (const name of ['_version', '_Deleted', '_row_exists', '_part']) {
      const words = `The column name "${name}" is not possible in a cluster: every table has such a column.`
      expect(await refusalOf(name)).toEqual([words, words])
    }
    expect(await refusalOf('_id')).toEqual(['made', 'made'])
  })

  /** A node whose tables get columns as the test says, and its runner of jobs that add some. */
  async function addingNode(port: number, addColumns: () => Promise<void>) {
    const own: { store?: ReturnType<typeof withTables> } = {}
    const through = (store: KeeperStore) => {
      own.store = withTables(store, { ensure: async () => {}, addColumns })
      return own.store
    }
    const { catalog } = await nodeOf(port, { through })
    const runner = addColumnRunner({
      catalog,
      cutOver: (_, change) => change(7),
      addToTables: async pool => await own.store!.addColumns(pool),
    })
    const run = (id: string) => runner(catalog.read.jobs.get(id)!, new AbortController().signal)
    return { catalog, run }
  }

  const columnJob = async (catalog: Catalog) => {
    const { pool } = await make(catalog, 'a')
    const input = { dataPool: pool.id, columnName: 'x', columnType: 'STRING', jsonProperty: 'x' }
    const job = await catalog.change(createAddColumnJob(input, 'APP1'))
    if (job === null || 'badRequest' in job) throw new Error('the job was refused')
    return { pool, id: job.id }
  }

  test('while tables get a column other changes go on, and the catalog names it after them', async () => {
    const { port } = await startZookeeper()
    let [asked, isKilled, goOn] = [0, true, () => {}]
    const held = new Promise<void>(resolve => {
      goOn = resolve
    })
    onTestFinished(() => goOn())
    const one = await addingNode(port, async () => {
      asked += 1
      await held
      // The tables have it, and the node ends.
      if (isKilled) throw new Unavailable('killed', 'the node was killed')
    })
    const { pool, id } = await columnJob(one.catalog)
    const columns = ({ catalog }: typeof one) => catalog.pool(pool.id)!.columns.map(({ name }) => name)
    const running = one.run(id)
    await expect.poll(() => asked).toBe(1)
    await make(one.catalog, 'meanwhile')
    expect(columns(one)).toEqual([])
    goOn()
    await expect(running).rejects.toMatchObject({ code: 'killed' })
    // No way leads to the column in the catalog but that.
    const started = one.catalog.change(startAddColumn(id, 7))
    await expect(started).rejects.toMatchObject({ name: 'Unavailable', code: 'cluster_tables' })
    expect(columns(one)).toEqual([])
    // The next leader goes on, and the former one beside it.
    const two = await addingNode(port, async () => {})
    isKilled = false
    await Promise.all([one.run(id), two.run(id)])
    for (const node of [one, two]) {
      expect(columns(node)).toEqual(['x'])
      expect(node.catalog.read.jobs.get(id)).toMatchObject({ status: 'SUCCEEDED' })
    }
  })

  test('a column that tables refuse for long ends its job, and one that they are late with does not', async () => {
    const { port } = await startZookeeper()
    let code = 'cluster_tables'
    const { catalog, run } = await addingNode(port, async () => {
      throw new Unavailable(code, 'no column')
    })
    const { id } = await columnJob(catalog)
    for (let tries = 0; tries < 50; tries += 1) await expect(run(id)).rejects.toMatchObject({ code })
    code = 'cluster_refused'
    for (let tries = 0; tries < 29; tries += 1) await expect(run(id)).rejects.toMatchObject({ code })
    await run(id)
    expect(catalog.read.jobs.get(id)).toMatchObject({
      status: 'FAILED',
      error: 'The tables refused the column 30 times: the log of the node says why.',
    })
  })

  test('a deleted pool is forgotten on every node when no server has its table', async () => {
    const { port } = await startZookeeper()
    const [one, two] = [await nodeOf(port), await nodeOf(port)]
    const ids: string[] = []
    for (const name of ['a', 'b', 'c']) {
      const { pool } = await make(one.catalog, name)
      ids.push(pool.id)
      await one.catalog.change(deletePool({ id: pool.id }))
    }
    const deleted = () => [one, two].map(({ catalog }) => catalog.tombstones().map(({ poolId }) => poolId))
    expect(deleted()).toEqual([ids, ids])
    const absent = (which: readonly string[]) => ({ absent: async () => which })
    const version = one.store.version()
    await forgetDeleted(absent([]), one.catalog)
    expect(one.store.version()).toBe(version)
    await forgetDeleted(absent([ids[0]!, ids[2]!, 'DPOX']), one.catalog)
    expect(deleted()).toEqual([[ids[1]], [ids[1]]])
    const documents = await one.store.keeper.getChildren('/weir/catalog/documents')
    expect(documents.filter(name => name.startsWith('tombstone'))).toHaveLength(1)
    const away = async () => {
      throw new Unavailable('cluster_tables', 'a server went away')
    }
    await forgetDeleted({ absent: away }, one.catalog)
    await forgetDeleted(absent(ids), two.catalog)
    const three = await nodeOf(port)
    expect(three.catalog.tombstones()).toEqual([])
    expect((await make(three.catalog, 'd')).pool.number).toBeGreaterThan(3)
  })

  test('a change whose tables took their time is decided again where another one came first', async () => {
    const { port } = await startZookeeper()
    const one = await nodeOf(port)
    let isHeld = true
    const tables = {
      async ensure() {
        // Another node makes a pool of this name, and uses up its number.
        if (isHeld) await make(one.catalog, 'a')
        isHeld = false
      },
      async addColumns() {},
    }
    const { catalog } = await nodeOf(port, { through: store => withTables(store, tables) })
    const made = await catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1'))
    expect(made).toEqual({ badRequest: expect.stringContaining('a') })
    const numbers = catalog.pools().map(({ number }) => number)
    expect(new Set(numbers).size).toBe(numbers.length)
    expect(isHeld).toBe(false)
  })
})
