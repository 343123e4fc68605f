/**
 * The catalog's LMDB: documents by key, as JSON. It runs on the catalog thread only.
 *
 * All transactions are synchronous, without overlapping syncs: an asynchronous one is visible
 * before it is on disk. `apply` returns after LMDB's sync of the change, so an answer that is sent
 * after it survives a power cut.
 *
 * Secrets are sealed on disk and plain in `entries` and in changes (seal.ts). The key stands beside
 * the catalog's folder. It is durable before the first document that is sealed with it.
 */
import { chmodSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type * as Lmdb from 'lmdb'
import type { RootDatabase } from 'lmdb'
import { crc32 } from '../../util/crc32.ts'
import { type Disk, disk, removeFolder, syncFolder } from '../../util/disk.ts'
import { CannotRun, Damaged } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { MiB } from '../../util/limits.ts'
import { checkLmdbPages, lastTransaction } from '../../util/lmdb-file.ts'
import { loadPackage } from '../../util/load-package.ts'
import { LMDB_FILES, secretKeyBeside } from '../../util/paths.ts'
import type { Change, Entry } from '../documents/catalog-types.ts'
import { isPlain, isSealed, makeSecretKey, openEntry, readSecretKey, sealEntry } from './seal.ts'

/** LMDB map of the catalog: address space, not memory. */
const CATALOG_MAP_BYTES = 4 * 1024 * MiB

export interface Store {
  readonly entries: readonly Entry[]
  /** Returns after the sync. Throws NotChanged where every document of it reads as before. */
  apply(change: Change): void
  close(): Promise<void>
}

/** The disk refused a change, and the documents are as they were. */
export class NotChanged extends Error {
  override readonly name = 'NotChanged'
}

/** Seals plain documents of an earlier version. Throws CannotRun, or Damaged naming the place. */
export async function openStore(path: string, on: Disk = disk): Promise<Store> {
  const keyFile = secretKeyBeside(path)
  on.mkdir(path)
  checkLmdbPages(path, on)
  const db = openDatabase(path)
  const { entries, key, hasPlain, sums } = await closedOnError(db, () => {
    // Each start does this: a crash may have come between creating the files and syncing their
    // names.
    syncFolder(on, path)
    syncFolder(on, dirname(path))
    const { documents: stored, sums } = readAll(db, path, on)
    const key = keyFor(stored, keyFile, on) ?? makeSecretKey(keyFile, on)
    makePrivate(path, on)
    return { entries: openAll(stored, key, path, keyFile), key, hasPlain: stored.some(isPlain), sums }
  })
  if (hasPlain) {
    await db.close()
    await replaceBySealed(path, entries, on)
    return await openStore(path, on)
  }
  return {
    entries,
    apply: ({ puts, removes }) => {
      const change = { puts: puts.map(entry => sealEntry(entry, key)), removes }
      applyChange(db, sums.withSum(change, lastTransaction(path, on) + 1))
      sums.made(change)
    },
    close: () => db.close(),
  }
}

async function closedOnError<T>(db: RootDatabase<unknown, string>, read: () => T): Promise<T> {
  try {
    return read()
  } catch (error) {
    await db.close()
    throw error
  }
}

/**
 * Read only. Throws CannotRun, or Damaged. @param keyFile the key, where `path` is a copy elsewhere
 */
export async function readStore(
  path: string,
  on: Disk = disk,
  keyFile = secretKeyBeside(path),
): Promise<readonly Entry[]> {
  if (!on.exists(join(path, LMDB_FILES.data))) throw new Damaged(path, 0, 'the catalog is missing')
  checkLmdbPages(path, on)
  const db = openDatabase(path, true)
  try {
    const stored = readAll(db, path, on).documents
    const key = keyFor(stored, keyFile, on)
    return key === undefined ? stored : openAll(stored, key, path, keyFile)
  } finally {
    await db.close()
  }
}

/** The key of these documents; undefined where none needs one. Throws Damaged. */
function keyFor(stored: readonly Entry[], keyFile: string, on: Disk): Uint8Array | undefined {
  const key = readSecretKey(keyFile, on)
  if (key === undefined && stored.some(isSealed))
    throw new Damaged(
      keyFile,
      0,
      'it is missing, and the secrets in the catalog are sealed with it; put it back from a backup of this folder',
    )
  return key
}

/** Opens the sealed documents. Throws Damaged naming the key where it opens none of them. */
function openAll(stored: readonly Entry[], key: Uint8Array, path: string, keyFile: string): Entry[] {
  const entries: Entry[] = []
  const unopened: string[] = []
  for (const entry of stored) {
    const opened = openEntry(entry, key)
    if (opened === undefined) unopened.push(entry[0])
    else entries.push(opened)
  }
  if (unopened.length === 0) return entries
  if (unopened.length === stored.filter(isSealed).length)
    throw new Damaged(
      keyFile,
      0,
      'it is not the key that the secrets in the catalog are sealed with; put the right one back from a backup of this folder',
    )
  throw new Damaged(path, 0, `the secret of the document ${unopened[0]} cannot be opened`)
}

/** A change in place would leave the plain text in the file's free pages. */
async function replaceBySealed(path: string, entries: readonly Entry[], on: Disk): Promise<void> {
  const sealed = `${path}.new`
  removeFolder(on, sealed) // of a start that was killed
  await writeCatalog(sealed, entries, on)
  crashPoint('catalog.sealed')
  on.rename(join(sealed, LMDB_FILES.data), join(path, LMDB_FILES.data))
  syncFolder(on, path)
  removeFolder(on, sealed)
}

/** LMDB gives this mode to new files and leaves the mode of existing ones. */
const PRIVATE = 0o600

/** Earlier versions created files that others could read, as a copy of the key may be. */
function makePrivate(path: string, on: Disk): void {
  const files = Object.values(LMDB_FILES).map(name => join(path, name))
  for (const file of [...files, secretKeyBeside(path)]) if (on.exists(file)) chmodSync(file, PRIVATE)
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

/** All documents, compared with their checksum. Throws Damaged naming the folder. */
function readAll(db: RootDatabase<unknown, string>, path: string, on: Disk) {
  const entries: Entry[] = []
  try {
    for (const { key, value } of db.getRange({})) entries.push([key, value])
  } catch (error) {
    throw new Damaged(path, 0, `a document of the catalog cannot be read: ${(error as Error).message}`)
  }
  return DocumentSums.check(entries, lastTransaction(path, on), path)
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

function textOf(db: RootDatabase<unknown, string>, { puts, removes }: Change): string {
  db.resetReadTxn()
  return JSON.stringify([...puts.map(([key]) => key), ...removes].map(key => db.get(key) ?? null))
}

/** Writes a new catalog in one synced transaction. Returns the names of its files. */
export async function writeCatalog(
  path: string,
  documents: readonly Entry[],
  disk: Disk,
): Promise<readonly string[]> {
  const store = await openStore(path, disk)
  try {
    store.apply({ puts: documents, removes: [] })
  } finally {
    await store.close()
  }
  // The lock file belongs to this process. LMDB creates another one.
  for (const name of disk.readdir(path)) if (name !== LMDB_FILES.data) disk.unlink(join(path, name))
  return [LMDB_FILES.data]
}

const META = 'meta'

interface Sum {
  readonly txn: number
  /** Exclusive or of the CRC-32s of all documents, `meta` without this field included. */
  readonly crc: number
}

type Meta = Readonly<Record<string, unknown>> & { readonly sum?: Sum }

/**
 * The checksum of all documents. LMDB's pages have none, and a flipped bit in a document may read
 * as another name, column or policy. It is the field `sum` of the stored `meta`: FORMAT.md.
 *
 * Each change writes it anew, with the number of the transaction. A version of Weir that does not
 * know it leaves it as it is when it changes a document: the transaction is then another one, and
 * nothing is compared until the next change.
 */
class DocumentSums {
  readonly #crcs: Map<string, number>
  #crc: number
  #meta: Meta | undefined

  private constructor(documents: readonly Entry[]) {
    this.#crcs = new Map(documents.map(entry => [entry[0], crcOf(entry)]))
    this.#crc = [...this.#crcs.values()].reduce(xor, 0)
    this.#meta = metaOf(documents)
  }

  /**
   * Returns the documents without their checksum. @param txn the last transaction of the file
   * @throws Damaged naming `path`
   */
  static check(
    stored: readonly Entry[],
    txn: number,
    path: string,
  ): { readonly documents: readonly Entry[]; readonly sums: DocumentSums } {
    const sum = metaOf(stored)?.sum
    const documents = stored.map(withoutSum)
    const sums = new DocumentSums(documents)
    if (sum?.txn === txn && sum.crc !== sums.#crc)
      throw new Damaged(path, 0, 'its documents do not match their checksum')
    return { documents, sums }
  }

  withSum({ puts, removes }: Change, txn: number): Change {
    const meta = metaOf(puts) ?? (removes.includes(META) ? undefined : this.#meta)
    if (meta === undefined) return { puts, removes }
    const sum: Sum = { txn, crc: this.#crcAfter(this.#crcsOf({ puts, removes })) }
    return { puts: [...puts.filter(([key]) => key !== META), [META, { ...meta, sum }]], removes }
  }

  made({ puts, removes }: Change): void {
    const changed = this.#crcsOf({ puts, removes })
    this.#crc = this.#crcAfter(changed)
    for (const [key, crc] of changed)
      if (crc === undefined) this.#crcs.delete(key)
      else this.#crcs.set(key, crc)
    this.#meta = metaOf(puts) ?? (removes.includes(META) ? undefined : this.#meta)
  }

  /** The sums of what a change names. The last one counts where it names a document twice. */
  #crcsOf({ puts, removes }: Change): ReadonlyMap<string, number | undefined> {
    const changed = new Map<string, number | undefined>(removes.map(key => [key, undefined]))
    for (const entry of puts) changed.set(entry[0], crcOf(entry))
    return changed
  }

  /** It costs what the change holds: 20,000 pools have 60,000 documents. */
  #crcAfter(changed: ReadonlyMap<string, number | undefined>): number {
    let crc = this.#crc
    for (const [key, after] of changed) crc = xor(xor(crc, this.#crcs.get(key) ?? 0), after ?? 0)
    return crc
  }
}

function metaOf(documents: readonly Entry[]): Meta | undefined {
  return documents.find(([key]) => key === META)?.[1] as Meta | undefined
}

function withoutSum(entry: Entry): Entry {
  if (entry[0] !== META) return entry
  const { sum: _, ...meta } = entry[1] as Meta
  return [META, meta]
}

function crcOf(entry: Entry): number {
  return crc32(Buffer.from(JSON.stringify(entry)))
}

function xor(a: number, b: number): number {
  return (a ^ b) >>> 0
}
