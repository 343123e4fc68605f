/**
 * The catalog of a cluster as one file, and back into an empty path of a Keeper. Secrets stay
 * sealed: WEIR_SECRET_KEY is needed by the nodes that start on it, and not here.
 *
 * Versions of rows rise with the zxids of Keeper, and another Keeper begins anew. So what is
 * restored has an offset by which all later versions are above those of the file's time, and above
 * `highestVersion`: rows that came after the file was made are in the tables alone.
 */
import { createHash } from 'node:crypto'
import type { Entry } from '../../catalog/documents/catalog-types.ts'
import { ROW_BITS } from '../../query/clickhouse/rows.ts'
import { resolvesWithin } from '../../util/clock.ts'
import { CannotRun, Unavailable } from '../../util/errors.ts'
import { WEIR_VERSION } from '../../util/version.ts'
import { ANY, KEEPER_ERROR, type Write } from './jute.ts'
import { isRefused, KeeperClient, type KeeperOptions } from './keeper-client.ts'
import {
  bytesOf,
  isReadable,
  json,
  makePath,
  type Paths,
  pathsOf,
  RESTORING,
  type Root,
  readDocuments,
  readRoot,
  unlessRefused,
} from './keeper-root.ts'
import type { KeptChange } from './keeper-store.ts'

const FILE_FORMAT = 1
const CONNECT_MS_MAX = 30_000
/** Of one request. Keeper takes twice as much, and a document has less. */
const WRITE_BYTES_MAX = 500_000

export interface CatalogFile {
  readonly format: number
  /** The version of Weir that made it. */
  readonly weir: string
  readonly root: Root
  /** The newest zxid, with the root's offset: no row had a version of a later one. */
  readonly newestZxid: number
  /** As they are in Keeper, with their secrets sealed. */
  readonly documents: readonly Entry[]
  /** SHA-256 of the documents' JSON in hexadecimal digits. */
  readonly sha256: string
}

/**
 * The catalog at one version, whatever changes meanwhile. Rejects with CannotRun where there is
 * none, and with Unavailable.
 * @param root as of KeeperStoreOptions
 */
export async function exportCatalog(keeper: KeeperClient, root: string): Promise<CatalogFile> {
  const paths = pathsOf(root)
  await keeper.sync(paths.catalog)
  const found = await readRoot(keeper, paths).catch(error => {
    if (!isRefused(error, KEEPER_ERROR.noNode)) throw error
    throw new CannotRun(`Keeper has no catalog at ${paths.catalog}`)
  })
  const first = found.root
  const documents = new Map(await readDocuments(keeper, paths))
  // Documents may be newer than `first`. After all changes since then they are those of one
  // version, because a change has its documents whole.
  const last = (await readRoot(keeper, paths)).root
  for (let version = first.version + 1; version <= last.version; version += 1) {
    const { data } = await keeper.getData(paths.change(version))
    const { puts, removes } = JSON.parse(data.toString()) as KeptChange
    for (const key of removes) documents.delete(key)
    for (const [key, value] of puts) documents.set(key, value)
  }
  const entries = [...documents].sort(([a], [b]) => (a < b ? -1 : 1))
  return {
    format: FILE_FORMAT,
    weir: WEIR_VERSION,
    root: last,
    newestZxid: (await zxidOf(keeper)) + last.zxidOffset,
    documents: entries,
    sha256: sha256Of(entries),
  }
}

/** The text of a CatalogFile. Throws CannotRun. */
export function readCatalogFile(text: string): CatalogFile {
  let file: CatalogFile | null
  try {
    file = JSON.parse(text) as CatalogFile | null
  } catch {
    throw new CannotRun('this is no catalog of a cluster, or it was cut off')
  }
  if (file?.format !== FILE_FORMAT || !isReadable(file.root.format))
    throw new CannotRun(
      `this is no catalog of a cluster, or its format is ${file?.format}; this version of Weir reads format ${FILE_FORMAT}`,
    )
  if (sha256Of(file.documents) !== file.sha256)
    throw new CannotRun('this catalog of a cluster is damaged: its checksum is another one')
  return file
}

/**
 * Makes the catalog of a file the one at a path that has none. Where that was cut off, the next
 * call makes it whole. Rejects with CannotRun and Unavailable.
 * @param highestVersion the highest `_version` in the tables; 0n where they are empty
 */
export async function importCatalog(
  keeper: KeeperClient,
  root: string,
  file: CatalogFile,
  highestVersion: bigint,
): Promise<void> {
  const paths = pathsOf(root)
  await makePath(keeper, root)
  const begun: Root = { ...file.root, format: RESTORING }
  const places: readonly Write[] = [
    { kind: 'create', path: paths.catalog, data: json(begun) },
    { kind: 'create', path: paths.documents, data: json(null) },
    { kind: 'create', path: paths.changes, data: json(null) },
  ]
  const isNew = await unlessRefused(keeper, places, KEEPER_ERROR.nodeExists)
  if (!isNew && (await readRoot(keeper, paths)).root.format !== RESTORING)
    throw new CannotRun(`Keeper has a catalog at ${paths.catalog}: stop all nodes, and delete it first`)
  await writeDocuments(keeper, paths, file.documents)
  const newest = Math.max(file.newestZxid, Number(highestVersion >> ROW_BITS))
  const zxidOffset = Math.max(0, newest - (await zxidOf(keeper)))
  const restored: Root = { ...file.root, oldest: file.root.version + 1, zxidOffset }
  await keeper.write({ kind: 'setData', path: paths.catalog, data: json(restored) })
}

/** Connects. Rejects with Unavailable. */
export async function connectKeeper(
  options: Omit<KeeperOptions, 'onConnected' | 'onWatched'>,
  msMax = CONNECT_MS_MAX,
): Promise<KeeperClient> {
  let connected = () => {}
  const connection = new Promise<void>(resolve => {
    connected = resolve
  })
  const keeper = new KeeperClient({ ...options, onConnected: () => connected(), onWatched: () => {} })
  if (await resolvesWithin(msMax, connection)) return keeper
  await keeper.stop()
  const where = options.servers.map(({ host, port }) => `${host}:${port}`).join(', ')
  throw new Unavailable('keeper_unreachable', `Keeper cannot be reached at ${where}`)
}

/** The documents become all that there are: those of another file, which was cut off, go. */
export async function writeDocuments(
  keeper: KeeperClient,
  paths: Paths,
  documents: readonly Entry[],
): Promise<void> {
  const left = new Set((await keeper.getChildren(paths.documents)).map(decodeURIComponent))
  const writes = documents.map(([key, value]): Write => {
    const kind = left.delete(key) ? 'setData' : 'create'
    return { kind, path: paths.document(key), data: json(value) }
  })
  const removes = [...left].map((key): Write => ({ kind: 'delete', path: paths.document(key) }))
  let [some, bytes] = [[] as Write[], 0]
  for (const write of [...writes, ...removes]) {
    const more = bytesOf(write)
    if (bytes + more > WRITE_BYTES_MAX && some.length > 0) {
      await keeper.multi(some)
      some = []
      bytes = 0
    }
    some.push(write)
    bytes += more
  }
  await keeper.multi(some)
}

/** The zxid of a write that changes nothing. */
async function zxidOf(keeper: KeeperClient): Promise<number> {
  const { zxid } = await keeper.multi([{ kind: 'check', path: '/', version: ANY }])
  return Number(zxid)
}

function sha256Of(documents: readonly Entry[]): string {
  return createHash('sha256').update(JSON.stringify(documents)).digest('hex')
}
