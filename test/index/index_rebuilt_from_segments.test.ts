/** W-6: `data/index` can be deleted: a rebuild from the segments gives the same index. */
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type OpenedIndex, openIndex } from '../../src/index/index-client.ts'
import type { FlushCommit } from '../../src/index/index-types.ts'
import { Damaged } from '../../src/util/errors.ts'
import { deleteFile, pathsOf, segmentFile } from '../../src/util/paths.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import { type Change, type Flush, openHere, SCHEMA, writeFlush } from './segments.ts'

interface Home {
  readonly root: string
  readonly pool: string
  open(more?: { identity?: string; kernel?: 'native' | 'js'; noPools?: boolean }): Promise<OpenedIndex>
}

function home(): Home {
  const paths = pathsOf(temporaryFolder())
  return {
    root: paths.root,
    pool: join(paths.segment, 'POOL1'),
    open: ({ identity = 'here', kernel = 'native', noPools = false } = {}) =>
      openIndex({
        folder: paths.index,
        segmentFolder: paths.segment,
        identity,
        pools: noPools ? [] : [{ pool: 1, poolId: 'POOL1', schemas: [SCHEMA] }],
        kernel,
        crashAt: '',
        nice: undefined,
      }),
  }
}

async function stateOf({ opened, index }: OpenedIndex) {
  const { deletionVectors } = await index.readDeletionVectors(1)
  return {
    pools: opened.pools,
    deletionVectors: deletionVectors.map(({ segment, rows }) => [segment, [...rows]]),
  }
}

/**
 * Flushes with updates, deletes, delete-only segments and replaced segments; long and empty ids
 * too.
 */
function randomFlushes(pool: string, random: (below: number) => number): Flush[] {
  const flushes: Flush[] = []
  let before: Flush | undefined
  for (let segment = 1; segment <= 14; segment++) {
    const first = segment * 10
    const takes = segment % 4 === 0 ? before : undefined
    const changes = new Map<string, { change: Change; deleted: boolean }>()
    const add = (change: Change, deleted: boolean) =>
      changes.set(`${change.ts} ${change.id}`, { change, deleted })
    for (const row of takes?.rows ?? []) add(row, false)
    for (const gone of takes?.deletes ?? []) add(gone, true)
    for (let i = 0; i < 150; i++) {
      const id = ['', 'a', 'é', 'x'.repeat(200), 'y'.repeat(300)][random(5)] as string
      const change = { ts: random(60) * 1_000_001 - 30_000_000, id, sequence: first + random(10) }
      add(change, segment % 5 === 0 || random(6) === 0)
    }
    const all = [...changes.values()]
    const flush: Flush = {
      schema: SCHEMA,
      folder: pool,
      segment,
      rows: all.filter(({ deleted }) => !deleted).map(({ change }) => change),
      deletes: all.filter(({ deleted }) => deleted).map(({ change }) => change),
      replaces: takes === undefined ? [] : [takes.segment],
      from: takes?.from ?? first,
      to: first + 9,
    }
    flushes.push(flush)
    before = flush
  }
  return flushes
}

describe.each(['native', 'js'] as const)('rebuild with the %s key loop', kernel => {
  test('W-6 gives the state that the flushes made, replaced files still there or not', async () => {
    const seed = newSeed()
    const { root, pool, open } = home()
    const first = await open({ kernel })
    expect(first.opened).toMatchObject({ rebuilt: true, keyLoop: kernel, pools: [] })
    const flushes = randomFlushes(pool, integersFrom(seed))
    for (const flush of flushes) await first.index.commit([writeFlush(flush)])
    await first.index.stop()
    const whole = await open({ kernel })
    expect(whole.opened).toMatchObject({ rebuilt: false, lastCommit: flushes.length })
    const want = await stateOf(whole)
    expect(want.deletionVectors.length, `seed ${seed}`).toBeGreaterThan(3)
    await whole.index.stop()
    for (const round of ['with replaced files', 'without']) {
      rmSync(join(root, 'index'), { recursive: true })
      const rebuilt = await open({ kernel })
      expect(rebuilt.opened.rebuilt).toBe(true)
      expect(await stateOf(rebuilt), `seed ${seed}, ${round}`).toEqual(want)
      await rebuilt.index.stop()
      for (const { replaces = [] } of flushes)
        for (const gone of replaces)
          for (const name of [segmentFile(gone), deleteFile(gone)]) rmSync(join(pool, name), { force: true })
    }
  })
})

const row = (id: string, sequence: number): Change => ({ ts: 1, id, sequence })

describe('rebuild', () => {
  test('happens where the index is foreign, and again where a rebuild was cut short', async () => {
    const { pool, open } = home()
    const first = await open()
    await first.index.commit([
      writeFlush({ schema: SCHEMA, folder: pool, segment: 1, rows: [row('a', 5)], from: 1, to: 9 }),
    ])
    await first.index.stop()
    const foreign = await open({ identity: 'there' })
    expect(foreign.notes.rebuiltBecause).toBe('it belongs to another data folder')
    expect(foreign.opened.pools).toMatchObject([{ pool: 1, flushedSequence: 9, nextSegment: 2 }])
    await foreign.index.stop()
    writeFlush({ schema: SCHEMA, folder: pool, segment: 2, rows: [row('b', 15)], from: 10, to: 19 })
    writeFileSync(join(pool, segmentFile(3)), 'PAR1 this is no Parquet file')
    const error = await open({ identity: 'here' }).then(
      () => undefined,
      (e: unknown) => e,
    )
    expect(error).toBeInstanceOf(Damaged)
    expect(error).toMatchObject({ file: join(pool, segmentFile(3)) })
    rmSync(join(pool, segmentFile(3)))
    const again = await open({ identity: 'here' })
    expect(again.notes.rebuiltBecause).toBe('a rebuild was not finished')
    expect(again.opened.pools[0]?.segments.map(({ segment }) => segment)).toEqual([1, 2])
    await again.index.stop()
  })

  test('takes a delete file alone only where its flush had no rows, and lets the higher sequence win', async () => {
    const { pool, open } = home()
    const flush = (more: Pick<Flush, 'segment' | 'rows' | 'deletes' | 'from' | 'to'>): FlushCommit =>
      writeFlush({ schema: SCHEMA, folder: pool, ...more } as Flush)
    flush({ segment: 1, rows: [row('a', 1), row('b', 1), row('c', 1)], deletes: [], from: 1, to: 9 })
    flush({ segment: 2, rows: [], deletes: [row('a', 12)], from: 10, to: 19 })
    // `b` was deleted and then posted in one flush. `c` was posted and then deleted, so it has no
    // row.
    flush({ segment: 3, rows: [row('b', 25)], deletes: [row('b', 21), row('c', 26)], from: 20, to: 29 })
    flush({ segment: 4, rows: [row('z', 31)], deletes: [row('b', 32)], from: 30, to: 39 })
    rmSync(join(pool, segmentFile(4)))
    writeFileSync(join(pool, `${segmentFile(5)}.tmp`), 'half')
    const opened = await open()
    expect(await stateOf(opened)).toMatchObject({
      pools: [{ flushedSequence: 29, nextSegment: 5 }],
      deletionVectors: [[1, [0, 1, 2]]],
    })
    // Nothing is swept in a run that rebuilt the index (W-5).
    expect(await opened.index.sweep(new Map([['POOL1', 1]]))).toEqual({
      removed: [],
      missing: [],
      keptOrphans: [],
      poolsWithOrphans: [1],
    })
    expect(existsSync(join(pool, deleteFile(4)))).toBe(true)
    await opened.index.stop()
  })

  test('leaves folders of unknown pools alone and reports them', async () => {
    const { pool, open } = home()
    writeFlush({ schema: SCHEMA, folder: pool, segment: 1, rows: [row('a', 1)], from: 1, to: 9 })
    const opened = await open({ noPools: true })
    expect(opened.notes.unknownFolders).toEqual([pool])
    expect(opened.opened.pools).toEqual([])
    expect(readdirSync(pool)).toHaveLength(1)
    await opened.index.stop()
  })

  /**
   * Opens a folder without an index. Returns its segments, the reported losses, and the number of
   * visible rows.
   */
  async function rebuilt({ root }: Home) {
    const { index, pools, possibleLosses } = await openHere(pathsOf(root))
    const { deletionVectors } = index.readDeletionVectors(1)
    index.close()
    const segments = pools[0]?.segments ?? []
    const deletedRows = deletionVectors.reduce((sum, { rows }) => sum + rows.length, 0)
    const visible = segments.reduce((sum, { rows }) => sum + rows, 0) - deletedRows
    return { segments: segments.map(({ segment }) => segment), possibleLosses, visible, pool: pools[0] }
  }
  const DELETES = [row('gone', 2)]
  const write = (pool: string, flush: Pick<Flush, 'segment' | 'from' | 'to'> & Partial<Flush>) => {
    writeFlush({ schema: SCHEMA, folder: pool, rows: [row(`id ${flush.segment}`, flush.from)], ...flush })
  }

  test('takes the inputs of a merge whose output was cut short between its two names', async () => {
    const made = home()
    write(made.pool, { segment: 1, from: 1, to: 9 })
    write(made.pool, { segment: 2, from: 10, to: 19 })
    write(made.pool, { segment: 4, from: 20, to: 29 })
    write(made.pool, { segment: 3, from: 1, to: 19, deletes: DELETES, replaces: [1, 2] })
    rmSync(join(made.pool, segmentFile(3)))
    expect(await rebuilt(made)).toMatchObject({ segments: [1, 2, 4], possibleLosses: [], visible: 3 })
  })

  test.each([
    ['the oldest', 1, [2, 3]],
    ['in between', 2, [1, 3]],
    ['the newest', 3, [1, 2]],
  ])(
    'goes on after an interrupted removal of an obsolete segment: %s; and reports the possible loss',
    async (_where, gone, left) => {
      const made = home()
      for (const segment of [1, 2, 3])
        write(made.pool, { segment, from: segment * 10, to: segment * 10 + 9, deletes: DELETES })
      rmSync(join(made.pool, segmentFile(gone)))
      const { segments, possibleLosses, pool } = await rebuilt(made)
      expect(segments).toEqual(left)
      expect(possibleLosses).toEqual([expect.stringContaining(join(made.pool, deleteFile(gone)))])
      expect(pool?.nextSegment).toBe(4)
    },
  )

  test.each([
    ['one that replaces it', [{ segment: 2, from: 1, to: 19, replaces: [1] }]],
    ['one that holds its sequences', [{ segment: 3, from: 1, to: 39 }]],
    [
      'two that were flushed again in its place',
      [
        { segment: 4, from: 1, to: 7 },
        { segment: 5, from: 8, to: 12 },
      ],
    ],
    ['one that overlaps: both were never live at once', [{ segment: 2, from: 5, to: 12 }]],
  ])('says nothing of a delete file alone beside %s', async (_what, flushes) => {
    const made = home()
    write(made.pool, { segment: 1, from: 1, to: 9, deletes: DELETES })
    rmSync(join(made.pool, segmentFile(1)))
    for (const flush of flushes) write(made.pool, flush)
    const { segments, possibleLosses } = await rebuilt(made)
    expect([segments, possibleLosses]).toEqual([flushes.map(({ segment }) => segment), []])
  })

  test('says what is damaged: overlapping sequences', async () => {
    const made = home()
    write(made.pool, { segment: 1, from: 1, to: 9 })
    write(made.pool, { segment: 2, from: 5, to: 19 })
    const file = join(made.pool, segmentFile(2))
    await expect(rebuilt(made)).rejects.toMatchObject({ name: 'Damaged', file })
  })

  test.each([2, 3])('says what is damaged: a delete file that is missing, segment %d of 3', async segment => {
    const made = home()
    for (const one of [1, 2, 3])
      write(made.pool, { segment: one, from: one * 10, to: one * 10 + 9, deletes: DELETES })
    rmSync(join(made.pool, deleteFile(segment)))
    await expect(rebuilt(made)).rejects.toMatchObject({
      name: 'Damaged',
      file: join(made.pool, deleteFile(segment)),
    })
    // A later segment covers it, so it is not needed.
    write(made.pool, { segment: 4, from: segment * 10, to: segment * 10 + 9, replaces: [segment] })
    expect(await rebuilt(made)).toMatchObject({ possibleLosses: [], visible: 3 })
  })
})
