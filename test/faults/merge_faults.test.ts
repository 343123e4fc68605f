/**
 * The real server with injected faults during merges and backups: queries and acknowledgements go
 * on, no file of the merge or the backup is left, and both succeed when the disk works again.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { restoreBackup } from '../../src/tools/restore.ts'
import { disk } from '../../src/util/disk.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { AT, at, events, filesOf, KEYED, merges, metric, post, until, untilRest } from '../path/compaction.ts'
import { askBackup } from '../tools/backup/backups.ts'
import { crossRead } from '../util/cross-read.ts'
import { send, startServer, type TestPool, type TestServer, temporaryFolder } from '../util/server.ts'
import { fillDisk, mountSmall, NO_SMALL_DISK } from '../util/small-disk.ts'
import { verifyFolder } from '../util/verify.ts'

vi.setConfig({ testTimeout: 120_000 })

/** Pools are quiet after 60 ticks: time to arm a fault before the first merge. */
const TICK = { WEIR_COMPACT_TICK_MS: '40' }
/**
 * Sizes that fall by half: a flush rewrites none of these segments, and one merge takes all of
 * them.
 */
const FALLING = [900, 400, 190, 90, 40]
const ROWS = 1620

const OUTPUT = '/segment/.*[.]parquet[.]tmp$'
const COPY = '/tmp/merge/copy[.]parquet$'
/** One fault in each kind of system call of the merge thread. */
const MERGE_FAULTS = [
  `open ${COPY} 1 EIO`,
  `read ${COPY} 1 EIO`,
  `open ${OUTPUT} 1 EMFILE`,
  `write ${OUTPUT} 1 ENOSPC`,
  `fdatasync ${OUTPUT} 1 EIO`,
  'rename /segment/.*[.]parquet$ 1 EIO',
  'fsync /segment/[^/]+$ 1 EIO',
]
const BACKUP_FAULTS = [
  ['write /to-[^/]+/segment/.*[.]parquet$ 1 ENOSPC', 'disk_full'],
  ['open /to-[^/]+/log/ 1 EIO', 'backup_failed'],
  ['fdatasync /to-[^/]+/segment/.*[.]parquet$ 1 EIO', 'backup_failed'],
  ['mkdir /to-[^/]+/catalog$ 1 ENOSPC', 'disk_full'],
  ['fsync /to-[^/]+/segment$ 1 EIO', 'backup_failed'],
  ['write /to-[^/]+/BACKUP.tmp$ 1 EDQUOT', 'disk_full'],
  ['rename /to-[^/]+/BACKUP$ 1 EIO', 'backup_failed'],
] as const

const root = temporaryFolder('weir-merge-faults-')
const triggers = join(root, 'triggers')
/**
 * Each fault has a trigger file of its own. The server knows all faults from its start; one is
 * armed at a time.
 */
const FAULTS = [...MERGE_FAULTS, ...BACKUP_FAULTS.map(([fault]) => fault)]
const triggerOf = (fault: string) => join(triggers, String(FAULTS.indexOf(fault)))

let server: TestServer
let steady: TestPool
/** The rows of each merged pool, and the sum of n. */
const expected = new Map<string, { rows: number; sum: number }>()

beforeAll(async () => {
  mkdirSync(triggers)
  const faults = FAULTS.map(fault => `${fault} ${triggerOf(fault)}`).join(';')
  server = await startServer({ dataDir: join(root, 'data'), args: ['--fault-at', faults], env: TICK })
  steady = await server.createPool(KEYED)
  await post(steady, events(0, 10))
  expect(await server.count(steady.poolId)).toBe('10')
})

afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
  const notes = await verifyFolder(server.dataDir)
  expect(notes.filter(note => note.includes('is named by no segment'))).toEqual([])
  const found = await crossRead(server.dataDir)
  for (const [poolId, { rows, sum }] of expected) {
    const is = found.get(poolId) ?? []
    expect([is.length, is.reduce((all, row) => all + Number(row['n']), 0)], poolId).toEqual([rows, sum])
  }
})

/** The event with a text that does not compress. */
const padded = (event: object) => ({ ...event, pad: randomBytes(24).toString('hex') })

/** A pool of five segments, which are merged after a while without a flush. */
async function poolOfFive(on = server): Promise<TestPool> {
  const pool = await on.createPool(KEYED)
  let next = 0
  for (const size of FALLING) {
    for (let left = size; left > 0; left -= 500) {
      const count = Math.min(left, 500)
      await post(pool, events(next, next + count).map(padded))
      next += count
    }
    expect(await on.count(pool.poolId)).toBe(String(next)) // flushes
  }
  expect(filesOf(on.dataDir, pool.poolId).length).toBe(FALLING.length)
  return pool
}

const failures = (on = server) => metric(on, 'weir_compaction_failures_total')
const parquet = (pool: TestPool, on = server) =>
  filesOf(on.dataDir, pool.poolId).filter(name => name.endsWith('.parquet'))
const temporary = (on = server) => readdirSync(join(on.dataDir, 'tmp', 'merge'), { recursive: true })

/** The merge of `pool` fails twice, and nothing else fails meanwhile. */
async function mustFailHarmlessly(pool: TestPool, on = server): Promise<void> {
  const before = await failures(on)
  await until('a merge fails twice', async () => (await failures(on)) >= before + 2)
  await until('none runs', async () => (await metric(on, 'weir_compaction_running')) === 0)
  expect(temporary(on)).toEqual(['spill'])
  expect(filesOf(on.dataDir, pool.poolId).length).toBe(FALLING.length)
  expect(await on.count(pool.poolId)).toBe(String(ROWS))
  expect((await fetch(`${on.base}/readyz`)).status).toBe(200)
  await expect.poll(() => on.output()).toContain('is tried again in')
}

/** The disk works again: the merge succeeds, without the rows that are updated and deleted here. */
async function mustMerge(pool: TestPool, on = server): Promise<void> {
  await post(pool, events(0, 300, 5))
  await post(pool, events(300, 350), 'DELETE')
  await until('the five segments are one', () => parquet(pool, on).length <= 2)
  await untilRest(on)
  expect(temporary(on)).toEqual(['spill'])
  const want = { rows: ROWS - 50, sum: ROWS - 50 + 300 * 4 }
  expect([await on.count(pool.poolId), await on.sum(pool.poolId, 'n')]).toEqual([
    String(want.rows),
    String(want.sum),
  ])
  expected.set(pool.poolId, want)
}

test.each(MERGE_FAULTS)(
  '%s: the merge fails and is tried again; acknowledgements and queries go on',
  async fault => {
    const pool = await poolOfFive()
    const made = await merges(server)
    writeFileSync(triggerOf(fault), '')
    await mustFailHarmlessly(pool)
    expect(await merges(server)).toBe(made)
    expect((await send(pool.url, events(0, 300, 4))).status).toBe(200)
    rmSync(triggerOf(fault))
    await mustMerge(pool)
  },
)

test.each(BACKUP_FAULTS)(
  '%s: the backup fails and leaves no file, and the next one is complete',
  async (fault, code) => {
    const folder = join(root, `to-${FAULTS.indexOf(fault)}`)
    writeFileSync(triggerOf(fault), '')
    const { lines } = await askBackup(server, { folder })
    expect(lines.at(-1)).toMatchObject({ code })
    expect(existsSync(folder)).toBe(false)
    await post(steady, events(0, 10))
    expect(await server.count(steady.poolId)).toBe('10')
    rmSync(triggerOf(fault))
    await mustBackUp(folder)
  },
)

/** A backup succeeds, and `weir verify` finds no error in the restored folder. */
async function mustBackUp(folder: string): Promise<void> {
  const { lines } = await askBackup(server, { folder })
  expect(lines.at(-1)).toMatchObject({ done: true })
  const to = `${folder}-restored`
  await restoreBackup({
    disk,
    from: folder,
    to: pathsOf(to),
    takesIncomplete: false,
    onProgress: () => undefined,
  })
  await verifyFolder(to)
  rmSync(to, { recursive: true })
}

test('no room for DuckDB’s copy: the merge fails, and succeeds when there is room', async context => {
  const pool = await poolOfFive()
  const small = mountSmall(join(server.dataDir, 'tmp', 'merge'), '8k')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    await mustFailHarmlessly(pool)
    await expect.poll(() => server.output()).toMatch(/a merge of pool .* failed .*No space left/)
    small.resize('64m')
    await mustMerge(pool)
  } finally {
    await untilRest(server)
    small.end()
  }
})

test('no room for a backup: disk_full, no file is left, and the backup succeeds when there is room', async context => {
  const folder = join(root, 'small')
  const small = mountSmall(folder, '64k')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    const { lines } = await askBackup(server, { folder: join(folder, 'to') })
    expect(lines.at(-1)).toMatchObject({ code: 'disk_full' })
    expect(readdirSync(folder)).toEqual([])
    small.resize('256m')
    await mustBackUp(join(folder, 'to'))
  } finally {
    small.end()
  }
})

test('no room for a compaction commit: the output is removed, and the commit succeeds when there is room', async context => {
  const dataDir = join(root, 'full')
  const index = join(dataDir, 'index')
  const small = mountSmall(index, '64m')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    const own = await startServer({ dataDir, env: TICK })
    const pool = await poolOfFive(own)
    const ballast = join(index, 'ballast')
    fillDisk(ballast)
    await mustFailHarmlessly(pool, own)
    await expect
      .poll(() => own.output())
      .toMatch(/a merge of pool .* failed .*the key index cannot be changed/)
    expect((await send(pool.url, [{ at: AT, id: 'more', n: 1 }])).status).toBe(200)
    await expect(own.count(pool.poolId)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    rmSync(ballast)
    await until(
      'it flushes again',
      async () => (await own.count(pool.poolId).catch(() => '')) === `${ROWS + 1}`,
    )
    await post(pool, [{ at: AT, id: 'more' }], 'DELETE')
    await mustMerge(pool, own)
    expected.delete(pool.poolId)
    await own.kill()
    await verifyFolder(dataDir)
    const next = await startServer({ dataDir, env: TICK })
    expect(await next.count(at(next, pool).poolId)).toBe(String(ROWS - 50))
    expect((await next.stop()).code).toBe(0)
    expect((await crossRead(dataDir)).get(pool.poolId)?.length).toBe(ROWS - 50)
  } finally {
    small.end()
  }
})
