/**
 * The real server with a disk that fails while segments are merged or a backup is written: queries and acks go on, nothing
 * of the merge or the backup is left, and both are made when the disk works again.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { restoreBackup } from '../../src/backup/restore.ts'
import { pathsOf } from '../../src/paths.ts'
import { disk } from '../../src/util/disk.ts'
import { askBackup } from '../backup/backups.ts'
import { AT, at, events, filesOf, KEYED, merges, metric, post, until, untilRest } from '../path/compaction.ts'
import { crossRead } from '../util/cross-read.ts'
import { send, startServer, type TestPool, type TestServer, temporaryFolder } from '../util/server.ts'
import { fillDisk, mountSmall, NO_SMALL_DISK } from '../util/small-disk.ts'
import { verifyFolder } from '../util/verify.ts'

vi.setConfig({ testTimeout: 120_000 })

/** Pools are quiet after 60 ticks: time to order a fault before the first merge. */
const TICK = { WEIR_COMPACT_TICK_MS: '40' }
/** Sizes that fall by half: the sealer takes none of them along, and one merge takes them all. */
const FALLING = [900, 400, 190, 90, 40]
const ROWS = 1620

const OUTPUT = '/segment/.*[.]parquet[.]tmp$'
const COPY = '/tmp/merge/copy[.]parquet$'
/** The merge thread's calls up to the swap, and that of what a refused swap leaves. */
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
/** Each fault has a file of its own: all are ordered at the start, and one is armed at a time. */
const FAULTS = [...MERGE_FAULTS, ...BACKUP_FAULTS.map(([fault]) => fault)]
const triggerOf = (fault: string) => join(triggers, String(FAULTS.indexOf(fault)))

let server: TestServer
let steady: TestPool
/** Pools that were merged, and the sum of n. */
const models = new Map<string, { rows: number; sum: number }>()

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
  for (const [poolId, { rows, sum }] of models) {
    const is = found.get(poolId) ?? []
    expect([is.length, is.reduce((all, row) => all + Number(row['n']), 0)], poolId).toEqual([rows, sum])
  }
})

/** Text that does not compress. */
const padded = (event: object) => ({ ...event, pad: randomBytes(24).toString('hex') })

/** A pool of five segments that are merged as soon as it was quiet for a while. */
async function falling(on = server): Promise<TestPool> {
  const pool = await on.createPool(KEYED)
  let next = 0
  for (const size of FALLING) {
    for (let left = size; left > 0; left -= 500) {
      const count = Math.min(left, 500)
      await post(pool, events(next, next + count).map(padded))
      next += count
    }
    expect(await on.count(pool.poolId)).toBe(String(next)) // seals
  }
  expect(filesOf(on.dataDir, pool.poolId).length).toBe(FALLING.length)
  return pool
}

const failures = (on = server) => metric(on, 'weir_compaction_failures_total')
const parquet = (pool: TestPool, on = server) =>
  filesOf(on.dataDir, pool.poolId).filter(name => name.endsWith('.parquet'))
const temporary = (on = server) => readdirSync(join(on.dataDir, 'tmp', 'merge'), { recursive: true })

/** A merge of `pool` fails, and is tried again in vain; meanwhile nothing else does. */
async function mustFailHarmlessly(pool: TestPool, on = server): Promise<void> {
  const before = await failures(on)
  await until('a merge fails twice', async () => (await failures(on)) >= before + 2)
  await until('none runs', async () => (await metric(on, 'weir_compaction_running')) === 0)
  expect(temporary(on)).toEqual(['spill'])
  // Not a name more than before, whole or half.
  expect(filesOf(on.dataDir, pool.poolId).length).toBe(FALLING.length)
  expect(await on.count(pool.poolId)).toBe(String(ROWS))
  expect((await fetch(`${on.base}/readyz`)).status).toBe(200)
  expect(on.output()).toContain('is tried again in')
}

/** Rows are updated and deleted in between; then the disk works again: the merge is made, without them. */
async function mustMerge(pool: TestPool, on = server): Promise<void> {
  await post(pool, events(0, 300, 5))
  await post(pool, events(300, 350), 'DELETE')
  await until('the five are one', () => parquet(pool, on).length <= 2)
  await untilRest(on)
  expect(temporary(on)).toEqual(['spill'])
  const want = { rows: ROWS - 50, sum: ROWS - 50 + 300 * 4 }
  expect([await on.count(pool.poolId), await on.sum(pool.poolId, 'n')]).toEqual([
    String(want.rows),
    String(want.sum),
  ])
  models.set(pool.poolId, want)
}

test.each(MERGE_FAULTS)('%s: the merge fails and is tried again; acks and queries go on', async fault => {
  const pool = await falling()
  const made = await merges(server)
  writeFileSync(triggerOf(fault), '')
  await mustFailHarmlessly(pool)
  expect(await merges(server)).toBe(made)
  // Acks do not wait for it.
  expect((await send(pool.url, events(0, 300, 4))).status).toBe(200)
  rmSync(triggerOf(fault))
  await mustMerge(pool)
})

test.each(BACKUP_FAULTS)(
  '%s: no backup, nothing is left of it, and the next one is whole',
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

/** A backup that is whole: its copy is clean. */
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

test('no room for DuckDB’s own copy: the same, and it is made when there is room', async context => {
  const pool = await falling()
  const small = mountSmall(join(server.dataDir, 'tmp', 'merge'), '8k')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    await mustFailHarmlessly(pool)
    expect(server.output()).toMatch(/a merge of pool .* failed .*No space left/)
    small.resize('64m')
    await mustMerge(pool)
  } finally {
    await untilRest(server)
    small.end()
  }
})

test('no room for a backup: disk_full, nothing is left, and it is made when there is room', async context => {
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

test('no room for the transaction of a swap: its output goes, and the swap is made when there is room', async context => {
  const dataDir = join(root, 'full')
  const index = join(dataDir, 'index')
  const small = mountSmall(index, '64m')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    const own = await startServer({ dataDir, env: TICK })
    const pool = await falling(own)
    const ballast = join(index, 'ballast')
    fillDisk(ballast)
    await mustFailHarmlessly(pool, own)
    expect(own.output()).toMatch(/a merge of pool .* failed .*the key index cannot be changed/)
    expect((await send(pool.url, [{ at: AT, id: 'more', n: 1 }])).status).toBe(200)
    await expect(own.count(pool.poolId)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    rmSync(ballast)
    await until(
      'it seals again',
      async () => (await own.count(pool.poolId).catch(() => '')) === `${ROWS + 1}`,
    )
    await post(pool, [{ at: AT, id: 'more' }], 'DELETE')
    await mustMerge(pool, own)
    models.delete(pool.poolId)
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
