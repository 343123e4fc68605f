/**
 * The catalog's LMDB: documents by key, as JSON. It runs on the catalog thread only.
 *
 * All transactions are synchronous, without overlapping syncs: an asynchronous one is visible
 * before it is on disk. `apply` returns after LMDB's sync of the change, so an answer that is sent
 * after it survives a power cut.
 */

import { chmodSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type * as Lmdb from 'lmdb'
import type { RootDatabase } from 'lmdb'
import { type Disk, disk, syncFolder } from '../util/disk.ts'
import { CannotRun, Damaged } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { CATALOG_MAP_BYTES } from '../util/limits.ts'
import { checkLmdbPages } from '../util/lmdb-file.ts'
import { loadPackage } from '../util/load-package.ts'
import { LMDB_FILES } from '../util/paths.ts'
import type { Change, Entry } from './catalog-types.ts'

export interface Store {
  /** All documents, in key order. */
  readonly entries: readonly Entry[]
  /**
   * Returns after the sync. Throws NotChanged where LMDB refused the change (a full disk) and every
   * document of it reads as before. Throws LMDB's error where that is unknown.
   */
  apply(change: Change): void
  close(): Promise<void>
}

/** The disk refused a change, and the documents are as they were. */
export class NotChanged extends Error {
  override readonly name = 'NotChanged'
}

/** Opens or makes the store in folder `path`. Throws CannotRun, or Damaged naming the folder. */
export function openStore(path: string, on: Disk = disk): Store {
  on.mkdir(path)
  checkLmdbPages(path, on)
  const db = openDatabase(path)
  makePrivate(path, on)
  // Each start does this: a crash may have come between creating the files and syncing their names.
  syncFolder(on, path)
  syncFolder(on, dirname(path))
  return {
    entries: readAll(db, path),
    apply: change => applyChange(db, change),
    close: () => db.close(),
  }
}

/**
 * All documents of the store in folder `path`, read only. Throws CannotRun, or Damaged naming the
 * folder.
 */
export async function readStore(path: string, on: Disk = disk): Promise<readonly Entry[]> {
  if (!on.exists(join(path, LMDB_FILES.data))) throw new Damaged(path, 0, 'the catalog is missing')
  checkLmdbPages(path, on)
  const db = openDatabase(path, true)
  try {
    return readAll(db, path)
  } finally {
    await db.close()
  }
}

/**
 * The catalog holds secrets. LMDB gives this mode to new files and leaves the mode of existing
 * ones.
 */
const PRIVATE = 0o600

/** Earlier versions created files that the group and others could read. */
function makePrivate(path: string, on: Disk): void {
  for (const name of Object.values(LMDB_FILES)) {
    const file = join(path, name)
    if (on.exists(file)) chmodSync(file, PRIVATE)
  }
}

function openDatabase(path: string, readOnly = false): RootDatabase<unknown, string> {
  const { open } = loadPackage('lmdb') as typeof Lmdb
  try {
    return open<unknown, string>({
      path,
      encoding: 'json',
      mapSize: CATALOG_MAP_BYTES,
      overlappingSync: false,
      noSubdir: false,
      permissionsMode: PRIVATE,
      readOnly,
    } as unknown as Parameters<typeof open>[0])
  } catch (error) {
    throw new CannotRun(`the catalog in ${path} cannot be opened: ${(error as Error).message}`)
  }
}

function readAll(db: RootDatabase<unknown, string>, path: string): Entry[] {
  const entries: Entry[] = []
  try {
    for (const { key, value } of db.getRange({})) entries.push([key, value])
  } catch (error) {
    throw new Damaged(path, 0, `a document of the catalog cannot be read: ${(error as Error).message}`)
  }
  return entries
}

function applyChange(db: RootDatabase<unknown, string>, change: Change): void {
  const before = textOf(db, change)
  try {
    db.transactionSync(() => {
      for (const key of change.removes) db.removeSync(key)
      for (const [key, value] of change.puts) db.putSync(key, value)
      crashPoint('catalog.before-commit')
    })
  } catch (error) {
    if (textOf(db, change) !== before) throw error
    throw new NotChanged((error as Error).message)
  }
  crashPoint('catalog.committed')
}

/** The documents of a change as they are on disk now. Throws LMDB's error. */
function textOf(db: RootDatabase<unknown, string>, { puts, removes }: Change): string {
  db.resetReadTxn()
  return JSON.stringify([...puts.map(([key]) => key), ...removes].map(key => db.get(key) ?? null))
}

/**
 * Writes a catalog of these documents to the new folder `path`, in one synced transaction. Returns
 * the names of its files. Throws LMDB's errors.
 */
export async function writeCatalog(
  path: string,
  documents: readonly Entry[],
  disk: Disk,
): Promise<readonly string[]> {
  const store = openStore(path, disk)
  try {
    store.apply({ puts: documents, removes: [] })
  } finally {
    await store.close()
  }
  // The lock file belongs to this process. LMDB creates another one.
  for (const name of disk.readdir(path)) if (name !== LMDB_FILES.data) disk.unlink(join(path, name))
  return [LMDB_FILES.data]
}
