/**
 * A stopped data folder as it is on disk: its lock, catalog, index and log. Nothing here replays,
 * rebuilds or removes anything.
 *
 * A backup can be read too. It has no index, and nothing is written into it. So no lock is taken,
 * and the catalog is read from a copy, because LMDB makes a lock file beside the file that it
 * reads.
 *
 * LMDB trusts its pages: a damaged file may crash its reader or hold it for ever. So a process of
 * its own reads catalog and index once before the command does (try-lmdb.ts).
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Memory } from '../catalog/documents/memory.ts'
import type { Pool } from '../catalog/documents/model.ts'
import { readStore } from '../catalog/lmdb/catalog-store.ts'
import type { Config } from '../database/config.ts'
import { flushedSequences } from '../database/stages.ts'
import type { PoolState } from '../index/index-types.ts'
import { type InspectedIndex, inspectIndex } from '../index/inspect-index.ts'
import { filesOfLog, listFolder, readLogFolder } from '../log/log-folder.ts'
import { type LogEnd, readLog } from '../log/read-log.ts'
import { isUnflushed, type ReadRecord } from '../log/record-codec.ts'
import { checkBackupFolder, lockFolder } from '../util/data-folder.ts'
import { disk, type FileHandle } from '../util/disk.ts'
import { CannotRun, Damaged } from '../util/errors.ts'
import { chooseNative, type KernelChoice } from '../util/native.ts'
import { BACKUP_FILE, LMDB_FILES, type Paths, pathsOf } from '../util/paths.ts'
import { firstNotPlain } from './backup/backup-folder.ts'
import { BackupThrottle, copyFile } from './backup/copy-file.ts'
import { whenInterrupted } from './interrupts.ts'
import { unknownPool } from './text-tables.ts'
import { tryLmdb } from './try-lmdb.ts'

export interface StoppedFolder {
  readonly paths: Paths
  readonly kernel: KernelChoice
  /** True where the folder holds the file BACKUP. */
  readonly isBackup: boolean
  /** The process holds the lock while this file is open. A backup is not locked. */
  readonly lock: FileHandle | undefined
}

/**
 * Opens the folder of `config` and takes its lock.
 * @param options `takesBackup`: the folder may be a backup
 * @throws CannotRun no data folder, or another process uses it; Damaged
 */
export function openStopped(config: Config, options = { takesBackup: false }): StoppedFolder {
  const paths = pathsOf(config.dataDir)
  const kernel = chooseNative(config.kernel)
  const isBackup = options.takesBackup && disk.kind(join(paths.root, BACKUP_FILE)) !== undefined
  if (!isBackup) return { paths, kernel, isBackup, lock: lockFolder(paths) }
  const notPlain = firstNotPlain(disk, paths.root)
  if (notPlain !== undefined) throw notPlain
  checkBackupFolder(paths)
  return { paths, kernel, isBackup, lock: undefined }
}

/** The catalog's documents. Throws Damaged, or CannotRun. */
export async function readCatalog(
  folder: Pick<StoppedFolder, 'paths' | 'kernel' | 'isBackup'>,
): Promise<Memory> {
  const { paths, kernel, isBackup } = folder
  if (!isBackup) return await readCatalogFrom(paths.catalog, paths.secretKey, kernel)
  const data = join(paths.catalog, LMDB_FILES.data)
  if (!disk.exists(data)) throw new Damaged(data, 0, 'it is missing from the backup')
  const copy = mkdtempSync(join(tmpdir(), 'weir-catalog-'))
  const remove = () => rmSync(copy, { recursive: true, force: true })
  const forget = whenInterrupted(remove)
  try {
    const deps = { disk, throttle: new BackupThrottle(0), isForeign: true, onBytes: () => undefined }
    await copyFile(deps, data, join(copy, LMDB_FILES.data))
    return await readCatalogFrom(copy, paths.secretKey, kernel)
  } catch (error) {
    throw new Damaged(data, 0, (error as Error).message.replaceAll(copy, paths.catalog))
  } finally {
    remove()
    forget()
  }
}

async function readCatalogFrom(folder: string, keyFile: string, kernel: KernelChoice): Promise<Memory> {
  await tryLmdb({ kind: 'catalog', folder, keyFile, kernel })
  const memory = new Memory()
  memory.load(await readStore(folder, disk, keyFile), folder)
  return memory
}

/** Finds a pool by id or unique name. Throws CannotRun, which names the pools that exist. */
export function findPool(name: string, pools: readonly Pool[]): Pool {
  const pool = pools.find(({ id }) => id === name) ?? pools.find(({ uniqueName }) => uniqueName === name)
  if (pool !== undefined) return pool
  throw new CannotRun(unknownPool(name, pools))
}

/** An index that can be read, with the number of its keys by pool. */
export interface ReadIndex extends InspectedIndex {
  readonly states: readonly PoolState[]
  readonly keys: ReadonlyMap<number, number>
  readonly keyTotal: number
}

/**
 * Reads the index of the folder whose catalog is `memory`. The caller closes it.
 * @param kind `keys`: the keys are counted, and the caller looks none up
 * @returns a text that says why a start would rebuild the index, where there is none to read
 * @throws Error where it cannot be read
 */
export async function readIndex(
  { paths, kernel, isBackup }: Pick<StoppedFolder, 'paths' | 'kernel' | 'isBackup'>,
  memory: Memory,
  kind: 'index' | 'keys' = 'index',
): Promise<ReadIndex | string> {
  if (isBackup) return 'a backup has no index'
  if (!disk.exists(join(paths.index, LMDB_FILES.data))) return 'it does not exist yet, as after weir restore'
  const keys = await tryLmdb({ kind, folder: paths.index, keyFile: paths.secretKey, kernel })
  const found = inspectIndex({ disk, folder: paths.index, kernel }, memory.meta().folderId)
  if (typeof found === 'string') return found
  const keyTotal = [...keys.values()].reduce((sum, count) => sum + count, 0)
  return { ...found, keys, keyTotal, states: found.index.state().pools }
}

export interface LogSummary {
  /** Files of the current generation, and their bytes on disk. Spare files are counted apart. */
  readonly files: number
  readonly bytes: number
  readonly spares: number
  /** Valid records, fillers and clean-stop records included. */
  readonly records: number
  /** Requests above their pool's flushed sequence, and the bytes of their records. */
  readonly unflushedRequests: number
  readonly unflushedBytes: number
  /** Sequence of the last valid record; 0 in a log that never had one. */
  readonly lastSequence: number
  /** undefined where the log is damaged. */
  readonly end: LogEnd | undefined
  readonly damage: Damaged | undefined
}

/** The flushed sequence of each pool; 0 where `states`, those of the index, lack it. */
export function flushedOf(memory: Memory, states: readonly PoolState[]): Map<number, number> {
  const pools = [...memory.pools.all()]
  return flushedSequences({ pools: () => pools, tombstones: () => [...memory.tombstones.values()] }, states)
}

/** Gets each record as it is read, with whether it is still to be flushed. */
type OnRecord = (record: ReadRecord, isUnflushed: boolean) => void

/**
 * Reads the whole log in `folder` as a recovery would (W-2). Damage is part of the answer.
 * @param flushed flushed sequence by pool, as in RecoverOptions
 */
export function inspectLog(
  folder: string,
  flushed: ReadonlyMap<number, number>,
  onRecord: OnRecord = () => undefined,
): LogSummary {
  const summary: { -readonly [K in keyof LogSummary]: LogSummary[K] } = {
    files: 0,
    bytes: 0,
    spares: listFolder(disk, folder).spares.length,
    records: 0,
    unflushedRequests: 0,
    unflushedBytes: 0,
    lastSequence: 0,
    end: undefined,
    damage: undefined,
  }
  try {
    const { list, header } = readLogFolder(disk, folder)
    if (header === undefined || header.generation === 0) return summary
    const files = filesOfLog(list.files, header)
    summary.files = files.length
    summary.bytes = files.reduce((sum, file) => sum + disk.size(join(folder, file.name)), 0)
    const reader = readLog(disk, folder, list.files, header, flushed)
    let step = reader.next()
    for (; step.done !== true; step = reader.next()) {
      const record = step.value
      const needsFlush = isUnflushed(record, flushed)
      onRecord(record, needsFlush)
      summary.records += 1
      summary.lastSequence = record.lastSequence
      if (!needsFlush) continue
      summary.unflushedRequests += 1
      summary.unflushedBytes += record.recordBytes
    }
    summary.end = step.value
    summary.lastSequence = step.value.lastSequence
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    summary.damage = error
  }
  return summary
}
