/**
 * After a power cut at any change of a backup or restore, a result that looks complete is complete.
 */
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { expect, test } from 'vitest'
import { whyNotTo } from '../../../src/tools/backup/backup-folder.ts'
import { BackupThrottle } from '../../../src/tools/backup/copy-file.ts'
import { fillFolder } from '../../../src/tools/backup/new-folder.ts'
import { type BackupState, writeBackup } from '../../../src/tools/backup/write-backup.ts'
import { folderTarget } from '../../../src/tools/backup/write-folder.ts'
import { copyBackup } from '../../../src/tools/restore.ts'
import { writeDurably } from '../../../src/util/disk.ts'
import { deleteFile, pathsOf, segmentFile } from '../../../src/util/paths.ts'
import { MemoryDisk, PowerCut } from '../../util/memory-disk.ts'
import { randomFrom } from '../../util/random.ts'
import { verifyBackup } from '../../util/verify.ts'

const SEED = Math.floor(Math.random() * 2 ** 32)
const CUTS_EACH = 4

/** Ends with its own checksum, as delete files do. */
const DELETES = Buffer.alloc(40, 8)
DELETES.writeUInt32LE(crc32(DELETES.subarray(0, 36)), 36)

const META = {
  segment: 3,
  rows: 5,
  schemaVersion: 1,
  sequenceFrom: 1,
  sequenceTo: 9,
  receivedFromUs: 0,
  receivedToUs: 0,
  timestampFromUs: 0,
  timestampToUs: 0,
  tenant: null,
  deletes: 2,
  bytes: 3000 + 40,
  checksum: crc32(Buffer.alloc(3000, 7)),
}
const STATE: BackupState = {
  pools: [{ pool: 1, poolId: 'DPO1', flushedSequence: 9, segments: [META] }],
  documents: [],
  deletedPools: [],
  log: { generation: 1, position: 0, firstSequence: 10, lastSequence: 9 },
}
const TARGET = { dataDir: '/data', folder: '/backups/one' }

function dataFolder(): MemoryDisk {
  const disk = new MemoryDisk()
  const folder = '/data/segment/DPO1'
  disk.mkdir(folder)
  disk.mkdir('/backups')
  writeDurably(disk, '/data/FORMAT', [Buffer.from('weir 1\n')])
  writeDurably(disk, join(folder, segmentFile(3)), [Buffer.alloc(3000, 7)])
  writeDurably(disk, join(folder, deleteFile(3)), [DELETES])
  for (const path of [folder, '/data', '/data/segment', '/']) {
    const handle = disk.open(path, 'r')
    disk.fsync(handle)
    disk.close(handle)
  }
  return disk
}

/** A lower layer that writes one file durably. */
const oneFile = (name: string) => async (disk: MemoryDisk, to: string) => {
  disk.mkdir(to)
  writeDurably(disk, join(to, name), [Buffer.alloc(600, 9)])
  return [name]
}

function backUp(disk: MemoryDisk) {
  const throttle = new BackupThrottle(0)
  const writeCatalog = (to: string) => oneFile('data.mdb')(disk, to)
  return writeBackup(
    folderTarget(TARGET, STATE, throttle, { disk, writeCatalog }),
    pathsOf(TARGET.dataDir),
    STATE,
    { throttle, onProgress: () => undefined, onLogCopied: () => undefined },
    { disk, extractLog: ({ to }) => oneFile('head')(disk, to) },
  )
}

function verify(disk: MemoryDisk) {
  return verifyBackup(disk, TARGET.folder)
}

test(`a power cut leaves a complete backup or none (seed ${SEED})`, async () => {
  const random = randomFrom(SEED)
  let whole = 0
  let cuts = 0
  for (let changes = 1; ; changes++) {
    const disk = dataFolder()
    disk.stopAfter(changes)
    const outcome = await backUp(disk).then(
      () => 'done',
      error => error as Error,
    )
    for (let i = 0; i < CUTS_EACH; i++) {
      const after = disk.cut(random)
      cuts += 1
      const found = after.exists(join(TARGET.folder, 'BACKUP'))
      if (outcome === 'done') expect(found).toBe(true)
      if (!found) continue
      whole += 1
      expect((await verify(after)).sequence).toBe(9)
    }
    if (outcome === 'done') break
    expect(outcome).toBeInstanceOf(PowerCut)
  }
  expect(whole).toBeGreaterThan(0)
  expect(cuts).toBeGreaterThan(40)
})

test(`a power cut leaves a complete restore or the file RESTORING (seed ${SEED})`, async () => {
  const random = randomFrom(SEED)
  const to = pathsOf('/new')
  for (let changes = 1; ; changes++) {
    const disk = dataFolder()
    await backUp(disk)
    const contents = await verify(disk)
    disk.mkdir('/new')
    disk.stopAfter(changes)
    const options = { disk, from: TARGET.folder, to, takesIncomplete: false, onProgress: () => undefined }
    const copyTo = (on: MemoryDisk) => async () => ({
      folders: await copyBackup({ ...options, disk: on }, contents),
      lost: [],
    })
    const outcome = await fillFolder(disk, to, copyTo(disk), ['/new']).then(
      () => 'done',
      error => error as Error,
    )
    for (let i = 0; i < CUTS_EACH; i++) {
      const after = disk.cut(random)
      const isDeleted = after.exists(to.restoring)
      if (outcome === 'done') expect(isDeleted).toBe(false)
      const there = contents.files.filter(({ path }) => after.exists(join('/new', path)))
      if (isDeleted || there.length === 0) {
        // Restore can start again here. The command makes the folder again where the cut removed
        // it.
        const made = after.exists('/new') ? [] : ['/new']
        for (const folder of made) after.mkdir(folder)
        await fillFolder(after, to, copyTo(after), made)
      }
      for (const { path, bytes } of contents.files) expect(after.size(join('/new', path))).toBe(bytes)
    }
    if (outcome === 'done') break
    expect(outcome).toBeInstanceOf(PowerCut)
  }
})

test('a failed backup that the disk does not remove is marked as unfinished', async () => {
  const disk = dataFolder()
  disk.failNext('rename', 'EIO', /^\/backups\/one/)
  disk.failNext('unlink', 'EIO', /^\/backups\/one\/FORMAT/)
  await expect(backUp(disk)).rejects.toThrow('EIO')
  expect(disk.readdir('/backups/one').sort()).toEqual(['BACKUP.tmp', 'FORMAT'])
  expect(whyNotTo(disk, '/backups/one', '/')).toContain('has an unfinished backup')
})

test('an error of any disk call leaves nothing of the backup', async () => {
  for (const [operation, code] of [
    ['write', 'ENOSPC'],
    ['fdatasync', 'EIO'],
    ['fsync', 'EIO'],
    ['rename', 'EIO'],
    ['open', 'EMFILE'],
  ] as const) {
    const disk = dataFolder()
    disk.failNext(operation, code, /^\/backups\/one/)
    const failed = await backUp(disk).catch(error => error as Error)
    expect(failed).toMatchObject({
      name: 'Unavailable',
      code: code === 'ENOSPC' ? 'disk_full' : 'backup_failed',
    })
    expect(disk.exists('/backups/one')).toBe(false)
    expect(await backUp(disk)).toMatchObject({ sequence: 9, segments: 1 })
  }
})
