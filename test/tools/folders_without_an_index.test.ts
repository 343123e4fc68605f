/**
 * Verify and inspect read backups and restored folders, say that they have no index, and change
 * nothing.
 */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test, vi } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { flipBit, segmentsOf } from '../path/damage.ts'
import { startServer, temporaryFolder } from '../util/server.ts'
import { cannotBeRead, copyOf, type Filled, fillFolder, holds, weir } from './folder.ts'

// Each test runs several processes, one after the other.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

const root = temporaryFolder('weir-without-')
const backup = join(root, 'backup')
let filled: Filled

beforeAll(async () => {
  filled = await fillFolder()
  expect((await weir(['backup', backup, '--data-dir', filled.dataDir])).code).toBe(0)
})

/** Every name below a folder. */
function names(folder: string): string[] {
  return (readdirSync(folder, { recursive: true }) as string[]).sort()
}

/** A copy of the backup to damage. */
function damaged(name: string, damage: (folder: string) => void): string {
  const folder = join(root, name)
  cpSync(backup, folder, { recursive: true })
  damage(folder)
  return folder
}

test('verify and inspect of a backup find it clean and add no file to it', async () => {
  const before = names(backup)
  const verified = await weir(['verify', '--data-dir', backup])
  expect([verified.code, verified.out]).toEqual([
    0,
    'clean: 10 files listed in BACKUP, 4 pools, 3 segments with 4,507 rows and 100 deletes, 0 log records\n',
  ])
  expect(verified.err).toContain('the backup has no index')
  const inspected = await weir(['inspect', '--data-dir', backup])
  expect([inspected.code, inspected.out]).toEqual([0, expect.stringMatching(/keyed +- +4,500 +- +2 /)])
  expect(inspected.err).toContain('this is a backup and has no index')
  expect(names(backup)).toEqual(before)
})

test.each([
  [
    'a missing segment',
    (folder: string) => rmSync(segmentsOf(folder, filled.poolId)[1]!),
    /0000000002\.parquet.*it is missing from the backup/,
  ],
  [
    'a lost end',
    (folder: string) => writeFileSync(join(folder, 'FORMAT'), 'weir 2'),
    /FORMAT.*it has 6 bytes, BACKUP lists 7/,
  ],
  [
    'a flipped bit of a value',
    (folder: string) => flipBit(segmentsOf(folder, filled.poolId)[0]!, 2000),
    /0000000001\.parquet.*its checksum is not the one in BACKUP/,
  ],
  ['a flipped bit of BACKUP', (folder: string) => flipBit(join(folder, 'BACKUP'), 20), /BACKUP/],
  [
    'a file that cannot be read, and another that is damaged',
    (folder: string) => {
      cannotBeRead(segmentsOf(folder, filled.poolId)[0]!)
      flipBit(segmentsOf(folder, filled.plainId)[0]!, 200)
    },
    /0000000001\.parquet: it is not a plain file[\s\S]*0000000001\.parquet.*its checksum is not the one in BACKUP/,
  ],
  [
    'a lost catalog',
    (folder: string) => rmSync(join(folder, 'catalog', 'data.mdb')),
    /data\.mdb.*it is missing from the backup/,
  ],
])('verify of a backup finds %s', async (name, damage, names) => {
  const { code, out } = await weir(['verify', '--data-dir', damaged(name, damage)])
  expect([code, out]).toEqual([1, expect.stringMatching(names)])
})

test('a file that BACKUP does not list is noted', async () => {
  const folder = damaged('more', at => writeFileSync(join(at, 'log', 'more'), 'x'))
  const { code, err } = await weir(['verify', '--data-dir', folder])
  expect([code, err]).toEqual([0, expect.stringContaining('log/more is not a file of the backup')])
})

test.each([
  ['rebuild'],
  ['repair', '--yes'],
  ['backup', '/nowhere/new'],
  ['export', 'keyed', '--out', '-'],
  ['start', '--port', '0'],
])('%s on a backup is refused, and changes nothing', async (...args) => {
  const before = names(backup)
  const { code, err } = await weir([...args, '--data-dir', backup])
  expect([code, err]).toEqual([2, expect.stringMatching(/is a backup and must not change: weir restore/)])
  expect(names(backup)).toEqual(before)
})

test('inspect of a restored folder prints no unknown figure, and its first start builds the index', async () => {
  const dataDir = join(root, 'restored')
  expect((await weir(['restore', backup, '--data-dir', dataDir])).code).toBe(0)
  const { code, out, err } = await weir(['inspect', '--data-dir', dataDir])
  expect([code, out]).toEqual([0, expect.stringMatching(/keyed +- +4,500 +- +2 /)])
  expect(err).toMatch(
    /the index is not built: .*weir restore; the next start, or weir rebuild, builds it; the output comes from the footers of 3 segments/,
  )
  const json = JSON.parse((await weir(['inspect', '--json', '--data-dir', dataDir])).out) as {
    readonly pools: { readonly name: string }[]
  }
  expect(json.pools.find(({ name }) => name === 'keyed')).toMatchObject({
    rowsLive: null,
    rowsStored: 4500,
    rowsDeleted: null,
    segments: 2,
    keys: null,
    debt: null,
    segmentList: [
      { segment: 1, rows: 4000 },
      { segment: 2, rows: 500, deletes: 100 },
    ],
  })
  expect(json).toMatchObject({ debt: null, log: { unflushedRequests: 0 }, index: { isDamaged: false } })
  const server = await startServer({ dataDir })
  expect(server.output()).toContain('the index was built from 3 segments')
  expect(server.output()).not.toContain('rebuilt')
  await holds(server, filled.poolId)
  expect((await server.stop()).code).toBe(0)
})

test('inspect prints unreadable segments, counts them as debt, and prints the rest', async () => {
  const dataDir = copyOf(filled)
  const [first, second] = segmentsOf(dataDir, filled.poolId)
  writeFileSync(first!, readFileSync(first!).subarray(0, 5000))
  flipBit(second!, statSync(second!).size - 2)
  const { code, out, err } = await weir(['inspect', '--data-dir', dataDir])
  expect([code, out]).toEqual([1, expect.stringContaining('2 segments that cannot be read')])
  expect(out).toMatch(/keyed +3,900 +4,500/)
  for (const file of [first, second]) expect(err).toContain(must(file, 'a segment'))
  rmSync(join(dataDir, 'index'), { recursive: true })
  const without = await weir(['inspect', 'keyed', '--data-dir', dataDir])
  expect([without.code, without.err]).toEqual([1, expect.stringContaining('0000000001.parquet')])
  rmSync(second!)
  const lone = await weir(['inspect', 'keyed', '--data-dir', dataDir])
  expect(lone.err).toMatch(
    /note: .*0000000002\.deletes has no Parquet file beside it: .* is lost with up to 500 rows/,
  )
})

test('bytes used by the index leave out its free pages', async () => {
  const dataDir = copyOf(filled)
  const { index } = JSON.parse((await weir(['inspect', '--json', '--data-dir', dataDir])).out) as {
    readonly index: { readonly bytes: number; readonly bytesUsed: number; readonly keys: number }
  }
  expect(index.bytes).toBe(statSync(join(dataDir, 'index', 'data.mdb')).size)
  expect(index.keys).toBe(3900)
  expect(index.bytesUsed).toBeLessThan(index.bytes)
  // At least the keys themselves are in use.
  expect(index.bytesUsed).toBeGreaterThan(3900 * 30)
  expect(existsSync(join(dataDir, 'index.new'))).toBe(false)
})
