/**
 * `weir verify`: everything in a stopped folder against everything else. Reads only: no replay, no rebuild, no sweep.
 *
 *   FORMAT and lock → catalog → admin.json → index → log → every segment of every pool → what nothing names
 *
 * Where there is no index (a start builds it), the live segments are told as a rebuild tells them, and what cannot be
 * checked then is said. In a backup every file is compared with the list in BACKUP first.
 */
import type { Memory } from '../catalog/memory.ts'
import type { Pool } from '../catalog/model.ts'
import type { PoolState } from '../index/index-types.ts'
import { disk, readFile } from '../util/disk.ts'
import { poolFolder } from '../util/paths.ts'
import { checkBackup } from './check-backup.ts'
import { checkPool, type PoolCheck } from './check-pool.ts'
import { lookAtLog } from './inspect-log.ts'
import { type FolderLook, flushedOf, readCatalog, readIndex, type WholeIndex } from './open-read-only.ts'
import type { Progress } from './progress.ts'
import type { Report } from './report.ts'

/** Checks the folder; what is wrong goes to `report`. */
export async function checkFolder(folder: FolderLook, report: Report, progress: Progress): Promise<void> {
  const { paths } = folder
  if (folder.isBackup) await checkBackup(paths.root, report)
  const memory = await tryRead(paths.catalog, report, () => readCatalog(folder))
  if (memory === undefined) {
    report.note('without the catalog nothing says what else should be there: the rest was not checked')
    return
  }
  report.checked.pools = memory.pools.byId.size
  await checkAdmin(folder, memory, report)
  checkCatalog(folder, memory, report)
  const index = await tryRead(paths.index, report, () => readIndex(folder, memory))
  const whole = typeof index === 'string' ? undefined : index
  report.isWithoutIndex = whole === undefined
  if (typeof index === 'string') noteNoIndex(folder, index, report)
  try {
    checkLog(folder, memory, whole?.states ?? [], report)
    if (whole !== undefined) checkStates(folder, memory, whole, report)
    for (const left of [paths.indexNew, paths.indexOld])
      if (disk.exists(left))
        report.note(`${left} is left of a rebuild that was cut short; the next start removes it`)
    await checkPools(folder, memory, whole, report, progress)
    checkFolders(folder, memory, report)
  } finally {
    whole?.index.close()
  }
}

/** What is clean without an index is less than what is clean with one. */
function noteNoIndex({ paths, isBackup }: FolderLook, why: string, report: Report): void {
  const missing = isBackup ? '' : 'whether a whole segment is missing, '
  const builds = isBackup ? 'the first start after weir restore' : 'the next start, or weir rebuild,'
  report.note(
    `${isBackup ? 'the backup has no index' : `${paths.index}: ${why}`}; ${builds} builds it. Without it this could not be checked: ${missing}keys and marks against rows, and bytes of segments that still decode${isBackup ? ' but were changed before the backup' : ''}`,
  )
}

/** What cannot be read at all is a finding too, whatever the error is. */
async function tryRead<T>(file: string, report: Report, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await report.try(work)
  } catch (error) {
    report.find(file, (error as Error).message)
    return undefined
  }
}

/** Written again by a start where it is missing; one that says something else is not ours. */
async function checkAdmin({ paths }: FolderLook, memory: Memory, report: Report): Promise<void> {
  const application = memory.applications.byId.get(memory.meta().firstApplicationId)
  if (application === undefined) return
  if (!disk.exists(paths.admin)) {
    report.note(`${paths.admin} is missing; the next start writes it again`)
    return // in a backup too: a folder whose file was lost is backed up without it
  }
  const wanted = `${JSON.stringify({ clientId: application.id, clientSecret: application.secret }, null, 2)}\n`
  await report.try(() => {
    if (!Buffer.from(wanted).equals(readFile(disk, paths.admin)))
      report.find(paths.admin, 'it does not say what the catalog says of the first application')
  })
}

function checkCatalog({ paths }: FolderLook, memory: Memory, report: Report): void {
  const { nextPoolNumber } = memory.meta()
  for (const { id, number, planVersion, dataSourceId } of memory.pools.byId.values()) {
    const wrong = (what: string) => report.find(paths.catalog, `pool ${id} ${what}`)
    if (number >= nextPoolNumber) wrong(`has number ${number}, the next new pool would get ${nextPoolNumber}`)
    if (memory.tombstones.has(number)) wrong(`has the number ${number} of a deleted pool`)
    if (memory.sources.byId.get(dataSourceId)?.poolId !== id)
      wrong(`names the source ${dataSourceId}, which is not its own`)
    for (let version = 1; version <= planVersion; version++)
      if (memory.schema(number, version) === undefined) wrong(`lacks the columns of version ${version}`)
  }
}

function checkLog({ paths }: FolderLook, memory: Memory, states: readonly PoolState[], report: Report): void {
  const look = lookAtLog(paths.log, flushedOf(memory, states), (record, isUnflushed) => {
    if (isUnflushed && memory.schema(record.pool, record.version) === undefined)
      report.find(
        record.file,
        `sequence ${record.sequence} was cut with plan ${record.version} of pool ${record.pool}, which the catalog does not know`,
        { offset: record.fileOffset },
      )
  })
  const { damage, end, unflushedRequests, records } = look
  report.checked.logRecords = records
  if (damage !== undefined) report.damage(damage)
  if (end?.torn === true)
    report.note(`${end.file}: an unfinished write stands at byte ${end.fileOffset}; the next start cuts it`)
  if (unflushedRequests > 0)
    report.note(`${unflushedRequests} requests stand in the log alone; the next start flushes them`)
}

/** The index's own records against each other and the catalog. */
function checkStates(
  { paths }: FolderLook,
  memory: Memory,
  { states, keys }: WholeIndex,
  report: Report,
): void {
  report.checked.keys = [...keys.values()].reduce((sum, count) => sum + count, 0)
  const known = new Set(states.map(({ pool }) => pool))
  for (const pool of new Set([...known, ...keys.keys()])) {
    if (memory.poolsByNumber.has(pool)) {
      if (!known.has(pool)) report.find(paths.index, `pool ${pool} has keys and no record of its own`)
    } else if (memory.tombstones.has(pool))
      report.note(`the index holds records of deleted pool ${pool}; the next start removes them`)
    else report.find(paths.index, `it holds pool ${pool}, which was never known`)
  }
}

async function checkPools(
  folder: FolderLook,
  memory: Memory,
  index: WholeIndex | undefined,
  report: Report,
  progress: Progress,
): Promise<void> {
  const pools = [...memory.pools.byId.values()]
  let of = index === undefined ? pools.length : segmentsOf(pools, index)
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
    // A page of the index that was read before may still not be what a lookup needs: LMDB says so then.
    await tryRead(folder.paths.index, report, () => checkPool(check, report, onSegment))
  }
}

function segmentsOf(pools: readonly Pool[], { states }: WholeIndex): number {
  const numbers = new Set(pools.map(({ number }) => number))
  return states.reduce((sum, state) => sum + (numbers.has(state.pool) ? state.segments.length : 0), 0)
}

/** Folders of no living pool go at the next start. */
function checkFolders({ paths }: FolderLook, memory: Memory, report: Report): void {
  if (!disk.exists(paths.segment)) return
  for (const name of disk.readdir(paths.segment))
    if (!memory.pools.byId.has(name))
      report.note(`${poolFolder(paths, name)} belongs to no pool; the next start removes it`)
}
