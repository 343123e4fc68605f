/** Two moves of one folder, as from two copies of it: one ends, and none changes what is whole. */
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Entry } from '../../src/catalog/documents/catalog-types.ts'
import { connectKeeper } from '../../src/cluster/keeper/keeper-backup.ts'
import { FORMAT, pathsOf, readDocuments, readRoot } from '../../src/cluster/keeper/keeper-root.ts'
import { MoveRoot } from '../../src/cluster/move/move-root.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const LAYOUT = { shards: 2 }
const entries = (value: number): Entry[] => [['environment', { value }]]
const OTHER = 'another weir move'

async function places() {
  const { port } = await startZookeeper()
  const keeper = { servers: [{ host: '127.0.0.1', port }], sessionMs: 2_000 }
  const client = await connectKeeper(keeper)
  onTestFinished(() => client.stop())
  const open = async (layout = LAYOUT) => {
    const root = await MoveRoot.open({ keeper, root: '/weir', secretKey: Buffer.alloc(32, 7), layout })
    onTestFinished(() => root.stop())
    return root
  }
  const kept = async () => ({
    format: (await readRoot(client, pathsOf('/weir'))).root.format,
    documents: await readDocuments(client, pathsOf('/weir')),
  })
  return { open, kept }
}

describe.skipIf(noZookeeper !== undefined)(`the root of a move ${noZookeeper ?? ''}`, () => {
  test('the later of two moves goes on, and has the version of the block that was under way', async () => {
    const { open, kept } = await places()
    const one = await open()
    await one.begin('a folder')
    await one.putDocuments(entries(1))
    await one.advance({ pools: 0, rows: 7 })
    const two = await open()
    expect(two.state).toEqual({ folder: 'a folder', pools: 0, rows: 7, isDone: false })
    await two.putDocuments(entries(1))
    expect(two.version).toBe(one.version)
    await expect(one.end()).rejects.toThrow(OTHER)
    expect((await kept()).format).toBe(-1)
    await two.advance({ pools: 0, rows: 9 })
    expect(two.version).toBeGreaterThan(one.version)
    await expect(one.advance({ pools: 0, rows: 8 })).rejects.toThrow(OTHER)
    await two.end()
    expect(await kept()).toEqual({ format: FORMAT, documents: entries(1) })
  })

  test('a move that read the root before another one ended leaves the catalog alone', async () => {
    const { open, kept } = await places()
    const one = await open()
    await one.begin('a folder')
    await one.putDocuments(entries(1))
    const two = await open()
    await one.end()
    await expect(two.putDocuments(entries(2))).rejects.toThrow(OTHER)
    expect(await kept()).toEqual({ format: FORMAT, documents: entries(1) })
    await expect(open({ shards: 3 })).rejects.toThrow('the cluster was made with shards 2')
    const { state } = await open()
    expect(state?.isDone).toBe(true)
  })
})
