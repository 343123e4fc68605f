/**
 * `weir verify`: checks everything in a stopped folder against everything else. It reads only: no
 * replay, no rebuild, no removal of orphans.
 *
 *   FORMAT and lock → catalog → admin.json → index → log → every segment of every pool → orphans
 *
 * Without an index (a start builds it), verify finds the live segments as a rebuild does, and
 * prints which checks were not possible. In a backup, each file is first compared with the list in
 * BACKUP.
 *
 * Findings go to standard output, with their number or `clean` in the last line. Notes go to
 * standard error.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Memory } from '../catalog/documents/memory.ts'
import { schemaVersionOf } from '../catalog/documents/model.ts'
import { adminBytes } from '../catalog/open-catalog.ts'
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import type { PoolState } from '../index/index-types.ts'
import { disk, readFile } from '../util/disk.ts'
import { BACKUP_FILE, poolFolder } from '../util/paths.ts'
import { note, say } from '../util/say.ts'
import type { BackupContents } from './backup/backup-format.ts'
import { checkPoolFolder, type PoolCheck } from './check-pool.ts'
import { type Progress, withCopyProgress, withProgress } from './progress.ts'
import { checkedText, findingText, Report } from './report.ts'
import { findDamage, readContents } from './restore.ts'
import {
  flushedOf,
  inspectLog,
  openStopped,
  type ReadIndex,
  readCatalog,
  readIndex,
  type StoppedFolder,
} from './stopped-folder.ts'

/** Runs `weir verify`. The exit code is 1 where damage was found. */
export async function verify({ config, flags }: CommandInput): Promise<number> {
  const report = await checkWithProgress(openStopped(config, { takesBackup: true }))
  const { count, findings, notes, checked } = report
  if (flags.has('json')) say(JSON.stringify({ clean: count === 0, count, findings, notes, checked }, null, 2))
  else sayReport(report)
  return count === 0 ? CLEAN : DAMAGED
}

function sayReport(report: Report): void {
  const { count, findings, notes } = report
  for (const text of notes) note(`note: ${text}`)
  for (const finding of findings) say(findingText(finding))
  if (count > findings.length) say(`and ${count - findings.length} more`)
  if (count === 0) say(`clean: ${checkedText(report)}`)
  else say(`${count === 1 ? '1 finding' : `${count} findings`}; checked: ${checkedText(report)}`)
}

/** Checks the folder and shows the progress meanwhile. */
export async function checkWithProgress(folder: StoppedFolder): Promise<Report> {
  const report = new Report()
  await withProgress('checking segments', progress => checkFolder(folder, report, progress))
  return report
}

type Folder = Omit<StoppedFolder, 'lock'>

/** Checks the folder. Damage goes to `report`. */
export async function checkFolder(folder: Folder, report: Report, progress: Progress): Promise<void> {
  const { paths } = folder
  if (folder.isBackup) await checkBackup(paths.root, report)
  const memory = await tryRead(paths.catalog, report, () => readCatalog(folder))
  if (memory === undefined) {
    report.note('without the catalog it is not known what else there should be: the rest was not checked')
    return
  }
  report.checked.pools = memory.pools.size
  await checkAdmin(folder, memory, report)
  checkCatalog(folder, memory, report)
  const found = await tryRead(paths.index, report, () => readIndex(folder, memory))
  const index = typeof found === 'string' ? undefined : found
  report.isWithoutIndex = index === undefined
  if (typeof found === 'string') noteNoIndex(folder, found, report)
  try {
    checkLog(folder, memory, index?.states ?? [], report)
    if (index !== undefined) checkStates(folder, memory, index, report)
    for (const left of [paths.indexNew, paths.indexOld])
      if (disk.exists(left))
        report.note(`${left} is left of an interrupted rebuild; the next start removes it`)
    await checkPools(folder, memory, index, report, progress)
    checkFolders(folder, memory, report)
  } finally {
    index?.index.close()
  }
}

/** Compares a backup with the list in its file BACKUP: names, lengths, checksums. */
async function checkBackup(root: string, report: Report): Promise<void> {
  const contents = await report.try(() => readContents(disk, root))
  if (contents === undefined) return
  await withCopyProgress('checking', async onProgress => {
    for await (const damage of findDamage(disk, root, contents, onProgress)) report.damage(damage)
  })
  for (const { path, what } of contents.damaged ?? [])
    report.find(join(root, path), `it was damaged before the backup was made: ${what}`)
  report.checked.files = contents.files.length
  noteUnlisted(root, contents, report)
}

function noteUnlisted(root: string, { files }: BackupContents, report: Report): void {
  const listed = new Set([BACKUP_FILE, ...files.map(({ path }) => path)].map(path => join(root, path)))
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isDirectory() && !listed.has(path))
      report.note(`${path} is not a file of the backup; a restore does not copy it`)
  }
}

/** Without an index fewer things can be checked, so a clean result says less. */
function noteNoIndex({ paths, isBackup }: Folder, why: string, report: Report): void {
  const what = isBackup
    ? 'the backup has no index; the first start after weir restore builds it'
    : `${paths.index}: ${why}; the next start, or weir rebuild, builds it`
  const unchecked = isBackup
    ? 'keys and deletion vectors against rows, and segments that decode although they were changed before the backup'
    : 'missing segments, keys and deletion vectors against rows, and segments that decode although they were changed'
  report.note(`${what}. Not checked without it: ${unchecked}`)
}

/** Any error of a read is a finding. */
async function tryRead<T>(file: string, report: Report, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await report.try(work)
  } catch (error) {
    report.find(file, (error as Error).message)
    return undefined
  }
}

/**
 * A missing admin.json is a note. One with other content is a finding, so that the operator sees it
 * before the next start overwrites it.
 */
async function checkAdmin({ paths }: Folder, memory: Memory, report: Report): Promise<void> {
  const application = memory.applications.get(memory.meta().firstApplicationId)
  if (application === undefined) return
  if (!disk.exists(paths.admin)) {
    report.note(`${paths.admin} is missing; the next start writes it again`)
    return
  }
  await report.try(() => {
    if (!adminBytes(application).equals(readFile(disk, paths.admin)))
      report.find(paths.admin, 'it differs from the first application in the catalog')
  })
}

function checkCatalog({ paths }: Folder, memory: Memory, report: Report): void {
  const { nextPoolNumber } = memory.meta()
  for (const pool of memory.pools.all()) {
    const { id, number, dataSourceId } = pool
    const wrong = (what: string) => report.find(paths.catalog, `pool ${id} ${what}`)
    if (number >= nextPoolNumber) wrong(`has number ${number}, the next new pool would get ${nextPoolNumber}`)
    if (memory.tombstones.has(number)) wrong(`has the number ${number} of a deleted pool`)
    const source = memory.sources.get(dataSourceId)
    if (source === undefined || (source.webhook !== null && source.webhook.poolId !== id))
      wrong(`names the source ${dataSourceId}, which belongs to no pool or to another`)
    for (let version = 1; version <= schemaVersionOf(pool); version++)
      if (memory.schema(number, version) === undefined)
        wrong(`lacks the columns of schema version ${version}`)
  }
}

function checkLog({ paths }: Folder, memory: Memory, states: readonly PoolState[], report: Report): void {
  const log = inspectLog(paths.log, flushedOf(memory, states), (record, isUnflushed) => {
    if (isUnflushed && memory.schema(record.pool, record.version) === undefined)
      report.find(
        record.file,
        `the record of sequence ${record.sequence} has schema version ${record.version} of pool ${record.pool}, which the catalog does not have`,
        { offset: record.fileOffset },
      )
  })
  const { damage, end, unflushedRequests, records } = log
  report.checked.logRecords = records
  if (damage !== undefined) report.damage(damage)
  if (end?.torn === true)
    report.note(
      `${end.file}: an unfinished write begins at byte ${end.fileOffset}; the next start removes it`,
    )
  if (unflushedRequests > 0)
    report.note(`${unflushedRequests} requests are in the log only; the next start flushes them`)
}

/** Compares the index's list of pools with the catalog, and with the pools of its keys. */
function checkStates({ paths }: Folder, memory: Memory, index: ReadIndex, report: Report): void {
  const { states, keys, keyTotal } = index
  report.checked.keys = keyTotal
  const known = new Set(states.map(({ pool }) => pool))
  for (const pool of new Set([...known, ...keys.keys()])) {
    if (memory.poolsByNumber.has(pool)) {
      if (!known.has(pool)) report.find(paths.index, `pool ${pool} has keys and no entry of its own`)
    } else if (memory.tombstones.has(pool))
      report.note(`the index has entries of the deleted pool ${pool}; the next start removes them`)
    else report.find(paths.index, `it has entries of pool ${pool}, which the catalog never had`)
  }
}

async function checkPools(
  folder: Folder,
  memory: Memory,
  index: ReadIndex | undefined,
  report: Report,
  progress: Progress,
): Promise<void> {
  const pools = [...memory.pools.all()]
  let of = index?.states.reduce((sum, { segments }) => sum + segments.length, 0) ?? pools.length
  let done = 0
  for (const pool of pools) {
    const state = index?.states.find(one => one.pool === pool.number)
    const check: PoolCheck = {
      pool,
      folder: poolFolder(folder.paths, pool.id),
      indexFile: folder.paths.index,
      schema: version => memory.schema(pool.number, version)?.schema,
      index:
        index === undefined ? undefined : { ...index, state, keyCount: index.keys.get(pool.number) ?? 0 },
    }
    const onSegment = () => {
      done += 1
      of = Math.max(of, done)
      progress.step(done, of, `pool ${pool.uniqueName}`)
    }
    // The probe has read every page of the index, but LMDB may still reject one during a lookup.
    await tryRead(folder.paths.index, report, () => checkPoolFolder(check, report, onSegment))
  }
}

/** The next start removes folders of deleted and unknown pools. */
function checkFolders({ paths }: Folder, memory: Memory, report: Report): void {
  if (!disk.exists(paths.segment)) return
  for (const name of disk.readdir(paths.segment))
    if (!memory.pools.has(name))
      report.note(`${poolFolder(paths, name)} belongs to no pool; the next start removes it`)
}
