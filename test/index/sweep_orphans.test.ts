/** W-5, W-8: the files that the sweep removes, leaves and reports. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openIndex } from '../../src/index/index-client.ts'
import { disk } from '../../src/util/disk.ts'
import { INDEX_SLICE_ENTRIES } from '../../src/util/limits.ts'
import { deleteFile, pathsOf, segmentFile } from '../../src/util/paths.ts'
import { temporaryFolder } from '../util/server.ts'
import { openHere, SCHEMA, writeFlush } from './segments.ts'

function home() {
  const paths = pathsOf(temporaryFolder())
  const schema = { ...SCHEMA, pool: 2 }
  const pools = [
    { pool: 1, poolId: 'POOL1', schemas: [SCHEMA] },
    { pool: 2, poolId: 'POOL2', schemas: [schema] },
  ]
  const open = () =>
    openIndex({
      folder: paths.index,
      segmentFolder: paths.segment,
      identity: 'here',
      pools,
      kernel: 'native',
      crashAt: '',
      nice: undefined,
    })
  return { open, pool: join(paths.segment, 'POOL1'), other: join(paths.segment, 'POOL2'), paths }
}

const POOLS = new Map([
  ['POOL1', 1],
  ['POOL2', 2],
])

const rows = [{ ts: 1, id: 'a', sequence: 1 }]

/** A folder whose index is whole: segments 1 to 3, of which 3 replaced 2. */
async function filled() {
  const made = home()
  const { index } = await made.open()
  const { pool } = made
  await index.commit([writeFlush({ schema: SCHEMA, folder: pool, segment: 1, rows, from: 1, to: 9 })])
  await index.commit([writeFlush({ schema: SCHEMA, folder: pool, segment: 2, rows, from: 10, to: 19 })])
  const last = { schema: SCHEMA, folder: pool, segment: 3, rows, deletes: [{ ts: 2, id: 'x', sequence: 25 }] }
  await index.commit([writeFlush({ ...last, replaces: [2], from: 10, to: 29 })])
  await index.stop()
  return made
}

describe('sweep', () => {
  test('W-5 removes orphans, temporary files and folders of deleted pools, nothing else', async () => {
    const { open, pool, other, paths } = await filled()
    const deletedPool = join(paths.segment, 'DELETED')
    mkdirSync(deletedPool)
    writeFileSync(join(deletedPool, segmentFile(1)), 'x')
    for (const name of [`${segmentFile(1)}.tmp`, deleteFile(1), 'stray']) writeFileSync(join(pool, name), 'x')
    mkdirSync(other)
    writeFileSync(join(other, segmentFile(1)), 'a flush that was never committed')
    const { index, notes } = await open()
    expect(notes.cleared).toEqual([join(other, segmentFile(1))])
    // Files of flushes of this run stay, committed or not, and so do the files that they replace.
    await index.commit([
      writeFlush({ schema: SCHEMA, folder: pool, segment: 4, rows, replaces: [1], from: 30, to: 39 }),
    ])
    writeFlush({ schema: SCHEMA, folder: pool, segment: 5, rows, from: 40, to: 49 })
    writeFileSync(join(pool, `${segmentFile(6)}.tmp`), 'x')
    mkdirSync(join(paths.segment, 'NEW'))
    const { removed, missing } = await index.sweep(POOLS)
    expect([...removed].sort()).toEqual(
      [
        join(deletedPool, segmentFile(1)),
        deletedPool,
        join(pool, segmentFile(2)),
        join(pool, `${segmentFile(1)}.tmp`),
        join(pool, deleteFile(1)),
        join(pool, 'stray'),
      ].sort(),
    )
    expect(missing).toEqual([])
    expect(readdirSync(pool).sort()).toEqual(
      [1, 3, 4, 5]
        .map(segmentFile)
        .concat(deleteFile(3), `${segmentFile(6)}.tmp`)
        .sort(),
    )
    expect(existsSync(join(paths.segment, 'NEW'))).toBe(true)
    await index.stop()
  })

  test('a stop interrupts the sweep between two steps, and the next sweep does the rest', async () => {
    const { open, paths } = await filled()
    const folders = Array.from({ length: 50 }, (_, number) => join(paths.segment, `DELETED${number}`))
    for (const folder of folders) mkdirSync(folder)
    const first = await open()
    const interrupted = expect(first.index.sweep(POOLS)).rejects.toThrow('the index is being closed')
    await Promise.all([first.index.stop(), interrupted])
    expect(folders.filter(existsSync).length).toBeGreaterThan(0)
    const { index } = await open()
    await index.sweep(POOLS)
    expect(folders.filter(existsSync)).toEqual([])
    await index.stop()
  })

  test('a stop interrupts the drop of a pool between two steps, and the next drop does the rest', async () => {
    const { open, pool, paths } = await filled()
    const many = Array.from({ length: INDEX_SLICE_ENTRIES }, (_, number) => ({
      ts: 1,
      id: `id-${number}`,
      sequence: 31,
    }))
    const keysLeft = async () => {
      const { index } = await openHere(paths)
      const keys = index.countKeys(1)
      index.close()
      return keys
    }
    const first = await open()
    const flush = writeFlush({ schema: SCHEMA, folder: pool, segment: 4, rows: many, from: 30, to: 39 })
    // All three calls are sent before the thread has committed, so the stop comes between the first
    // two steps of the drop.
    const committed = first.index.commit([flush])
    const interrupted = expect(first.index.dropPool(1)).rejects.toThrow('the index is being closed')
    await Promise.all([committed, interrupted, first.index.stop()])
    expect(await keysLeft()).toBeGreaterThan(0)
    const { index } = await open()
    await index.dropPool(1)
    await index.stop()
    expect(await keysLeft()).toBe(0)
  })

  test('W-5 clears files of uncommitted flushes when the index is opened', async () => {
    const { open, pool } = await filled()
    for (const name of [segmentFile(4), deleteFile(4), segmentFile(5)]) writeFileSync(join(pool, name), 'x')
    const { index, notes } = await open()
    expect(notes.cleared).toHaveLength(3)
    expect(readdirSync(pool)).not.toContain(segmentFile(4))
    await index.stop()
  })

  test('W-4 syncs the index that it reads before it clears anything by it: a kill may have come before the sync', async () => {
    const { pool, paths } = await filled()
    writeFileSync(join(pool, segmentFile(4)), 'x')
    const changes: string[] = []
    const opened = new Map<number, string>()
    const { index } = await openHere(paths, () => new Map(), {
      ...disk,
      open: (path, flags, mode) => {
        const file = disk.open(path, flags, mode)
        opened.set(file, path)
        return file
      },
      fdatasync: file => changes.push(`sync ${opened.get(file)}`),
      unlink: path => {
        changes.push(`unlink ${path}`)
        disk.unlink(path)
      },
    })
    index.close()
    expect(changes).toEqual([`sync ${join(paths.index, 'data.mdb')}`, `unlink ${join(pool, segmentFile(4))}`])
  })

  test('W-8 reports named files that are missing', async () => {
    const { open, pool } = await filled()
    rmSync(join(pool, segmentFile(1)))
    rmSync(join(pool, deleteFile(3)))
    const { index } = await open()
    const { missing } = await index.sweep(POOLS)
    expect(missing).toEqual([join(pool, segmentFile(1)), join(pool, deleteFile(3))])
    await index.stop()
  })

  test('W-5 removes nothing in a pool with missing files, and says what it leaves; other pools are swept', async () => {
    const { open, pool, other, paths } = await filled()
    const first = await open()
    await first.index.commit([
      writeFlush({ schema: { ...SCHEMA, pool: 2 }, folder: other, segment: 7, rows, from: 1, to: 9 }),
    ])
    await first.index.stop()
    rmSync(join(pool, segmentFile(1)))
    for (const folder of [pool, other]) writeFileSync(join(folder, 'stray'), 'x')
    const { index } = await open()
    const { removed, missing, keptOrphans } = await index.sweep(POOLS)
    expect(missing).toEqual([join(pool, segmentFile(1))])
    expect(keptOrphans).toEqual([join(pool, segmentFile(2)), join(pool, 'stray')])
    expect(removed).toEqual([join(other, 'stray')])
    expect(existsSync(join(paths.segment, 'POOL1', 'stray'))).toBe(true)
    await index.stop()
  })
})
