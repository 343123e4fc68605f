/**
 * A catalog that leaves as one file and comes back into a Keeper that was emptied: the same
 * objects and secrets, and versions of rows above all that ever were.
 */
import { describe, expect, onTestFinished, test } from 'vitest'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { OPERATION } from '../../src/cluster/keeper/jute.ts'
import {
  type CatalogFile,
  connectKeeper,
  exportCatalog,
  importCatalog,
  readCatalogFile,
} from '../../src/cluster/keeper/keeper-backup.ts'
import { Versions } from '../../src/cluster/keeper/versions.ts'
import { CannotRun, Unavailable } from '../../src/util/errors.ts'
import { freePort } from '../util/server.ts'
import { framesProxy } from './frames-proxy.ts'
import { nodeOf } from './keeper-node.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

type Node = Awaited<ReturnType<typeof nodeOf>>

async function clientOf(port: number) {
  const keeper = await connectKeeper({ servers: [{ host: '127.0.0.1', port }], sessionMs: 2_000 })
  onTestFinished(() => keeper.stop())
  return keeper
}

const make = ({ catalog }: Node, uniqueName: string) =>
  catalog.change(
    createWebhookSource(
      { uniqueName, basicAuth: { username: 'u', password: `secret of ${uniqueName}` } },
      'APP1',
    ),
  )

const versionsOf = async ({ store }: Node) => {
  const versions = new Versions(store.keeper, '/weir/versions', store.zxidOffset)
  await versions.open()
  return versions
}

const documentsOf = ({ catalog }: Node) => new Map(catalog.read.documents())

/** A cluster of some sources, its newest version of a row, and its catalog as a file. */
async function saved(port: number) {
  const node = await nodeOf(port)
  for (let i = 0; i < 30; i += 1) await make(node, `s${i}`)
  const version = await (await versionsOf(node)).take(1)
  const file = await exportCatalog(await clientOf(port), '/weir')
  return { node, version, file, documents: documentsOf(node) }
}

describe.skipIf(noZookeeper !== undefined)(`a catalog as a file ${noZookeeper ?? ''}`, () => {
  test('it comes back into a Keeper that was emptied, and later versions are above all before', async () => {
    const zookeeper = await startZookeeper()
    const { port } = zookeeper
    const { node, version, file, documents } = await saved(port)
    const text = JSON.stringify(file)
    expect(text).not.toContain('secret of')
    expect(text).not.toContain(node.catalog.signingKeys()[0]!.secret)
    // Rows that came after the file was made are known by the tables.
    const later = await (await versionsOf(node)).take(100)
    await node.stop()
    for (const highest of [0n, later + 99n, (1n << 60n) + 5n]) {
      await zookeeper.empty()
      await importCatalog(await clientOf(port), '/weir', readCatalogFile(text), highest)
      const back = await nodeOf(port)
      expect(documentsOf(back)).toEqual(documents)
      expect(back.store.version()).toBe(file.root.version)
      const next = await (await versionsOf(back)).take(1)
      expect(next).toBeGreaterThan(version)
      expect(next).toBeGreaterThan(highest)
      const other = await nodeOf(port)
      await make(back, 'after')
      expect(other.catalog.read.sources.find('after')).toBeDefined()
      expect(back.catalog.read.meta().nextPoolNumber).toBe(node.catalog.read.meta().nextPoolNumber + 1)
      await other.stop()
      await back.stop()
    }
    await expect(nodeOf(port, { store: { secretKey: Buffer.alloc(32, 8) } })).rejects.toThrow(
      'WEIR_SECRET_KEY is not the key',
    )
  })

  test('a Keeper that has counted further needs no offset', async () => {
    const { port } = await startZookeeper()
    const { file, documents } = await saved(port)
    const keeper = await clientOf(port)
    await importCatalog(keeper, '/copy/of/weir', file, 0n)
    const copy = await nodeOf(port, { store: { root: '/copy/of/weir' } })
    expect([copy.store.zxidOffset, documentsOf(copy)]).toEqual([0, documents])
  })

  test('while others change the catalog a file has all of one version', async () => {
    const { port } = await startZookeeper()
    const one = await nodeOf(port)
    const states = new Map<number, string>()
    let isOver = false
    const working = (async () => {
      for (let i = 0; !isOver; i += 1) {
        await make(one, `s${i}`)
        states.set(one.store.version(), JSON.stringify(documentsOf(one).size))
      }
    })()
    const keeper = await clientOf(port)
    const files: CatalogFile[] = []
    while (files.length < 20) files.push(await exportCatalog(keeper, '/weir'))
    isOver = true
    await working
    for (const { root, documents } of files)
      if (states.has(root.version)) expect(String(documents.length)).toBe(states.get(root.version))
    expect(new Set(files.map(({ root }) => root.version)).size).toBeGreaterThan(5)
  })

  test('a restore that was cut off is no catalog until it is run again, also of another file', async () => {
    const zookeeper = await startZookeeper()
    const { port } = zookeeper
    const { node, file, documents } = await saved(port)
    await make(node, 'only in the second file')
    const second = await exportCatalog(await clientOf(port), '/weir')
    await node.stop()
    for (let passed = 1; passed <= 3; passed += 1) {
      await zookeeper.empty()
      let left = passed
      const path = await framesProxy(port, {
        onRequest({ operation, frame, cut }) {
          if (operation !== OPERATION.multi || !frame.includes('/weir/catalog')) return frame
          left -= 1
          if (left >= 0) return frame
          cut()
          return undefined
        },
      })
      const cutOff = importCatalog(await clientOf(path.port), '/weir', wide(second), 0n)
      await expect(cutOff).rejects.toThrow(expect.objectContaining({ code: 'keeper_lost' }))
      await expect(nodeOf(port)).rejects.toThrow(
        new CannotRun('the catalog in Keeper is being restored, or that was cut off: restore it again'),
      )
      await importCatalog(await clientOf(port), '/weir', file, 0n)
      const back = await nodeOf(port)
      expect(documentsOf(back)).toEqual(documents)
      await back.stop()
    }
  })

  test('what is there is not overwritten, and what is no whole file is refused', async () => {
    const { port } = await startZookeeper()
    const { file, node, documents } = await saved(port)
    const keeper = await clientOf(port)
    await expect(importCatalog(keeper, '/weir', file, 0n)).rejects.toThrow(
      new CannotRun('Keeper has a catalog at /weir/catalog: stop all nodes, and delete it first'),
    )
    expect(documentsOf(node)).toEqual(documents)
    await expect(exportCatalog(keeper, '/other')).rejects.toThrow(
      new CannotRun('Keeper has no catalog at /other/catalog'),
    )
    const text = JSON.stringify(file)
    for (const broken of [
      '',
      'null',
      '[]',
      '{}',
      text.slice(0, -1),
      text.replace('"format":1', '"format":2'),
      text.replace('"s3"', '"s4"'),
    ])
      expect(() => readCatalogFile(broken), broken.slice(0, 40)).toThrow(CannotRun)
    const nowhere = { servers: [{ host: '127.0.0.1', port: Number(await freePort()) }], sessionMs: 2_000 }
    await expect(connectKeeper(nowhere, 500)).rejects.toThrow(Unavailable)
  })
})

/** The file with documents that need three requests. */
function wide(file: CatalogFile): CatalogFile {
  const filling = Array.from(
    { length: 3 },
    (_, i) => [`job/filling ${i}`, { x: 'x'.repeat(400_000) }] as const,
  )
  return { ...file, documents: [...file.documents, ...filling] }
}
