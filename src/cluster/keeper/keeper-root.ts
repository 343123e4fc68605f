/** The catalog in Keeper: its root, on which all nodes agree, and the places below it. */
import type { Entry } from '../../catalog/documents/catalog-types.ts'
import { CannotRun } from '../../util/errors.ts'
import { KEEPER_ERROR, type Stat, type Write } from './jute.ts'
import { isRefused, type KeeperClient } from './keeper-client.ts'

/**
 * Version of the catalog. 2: a schema may cut epoch numbers. A catalog of format 1 is read, and its
 * next change gives it this one, which ends the nodes of earlier versions.
 */
export const FORMAT = 2
const FORMAT_MIN = 1
/** The format while documents are restored (keeper-backup.ts). */
export const RESTORING = 0
/** The format while `weir move` fills the tables (cluster/move/move-root.ts). */
export const MOVING = -1
/** Reads that are sent together. */
export const READS_MAX = 500

/** What all nodes must agree on, such as the number of shards. It never changes. */
export type Layout = Readonly<Record<string, string | number>>

export interface Root {
  readonly format: number
  /** Of the catalog: it rises by one with each change. */
  readonly version: number
  /** The oldest change that is kept. */
  readonly oldest: number
  readonly layout: Layout
  /** Added to the zxids of row versions: those of an earlier Keeper stay below (versions.ts). */
  readonly zxidOffset: number
}

/** Throws CannotRun where this node cannot be one of the cluster. */
export function checkRoot({ format, layout }: Root, ours: Layout): void {
  if (format === RESTORING)
    throw new CannotRun('the catalog in Keeper is being restored, or that was cut off: restore it again')
  if (format === MOVING)
    throw new CannotRun(
      'a folder is being moved to this catalog in Keeper, or that was cut off: run weir move again',
    )
  if (!isReadable(format))
    throw new CannotRun(
      `the catalog in Keeper has format ${format}; this version of Weir reads formats up to ${FORMAT}`,
    )
  for (const [name, found] of Object.entries(ours))
    if (layout[name] !== found)
      throw new CannotRun(
        `the cluster was made with ${name} ${layout[name]}, and this node finds ${found}: rows would be looked for where they are not`,
      )
}

export function isReadable(format: number): boolean {
  return format >= FORMAT_MIN && format <= FORMAT
}

export type Paths = ReturnType<typeof pathsOf>

/** @param root the path of all that the cluster keeps */
export function pathsOf(root: string) {
  const catalog = `${root}/catalog`
  return {
    catalog,
    documents: `${catalog}/documents`,
    changes: `${catalog}/changes`,
    document: (key: string) => `${catalog}/documents/${encodeURIComponent(key)}`,
    change: (version: number) => `${catalog}/changes/${version}`,
  }
}

export async function readRoot(
  keeper: KeeperClient,
  { catalog }: Paths,
  isWatched = false,
): Promise<{ readonly root: Root; readonly stat: Stat }> {
  const { data, stat } = await keeper.getData(catalog, isWatched)
  return { root: JSON.parse(data.toString()) as Root, stat }
}

/** Whether anybody has made a catalog, in whatever format. */
export async function hasCatalog(keeper: KeeperClient, paths: Paths): Promise<boolean> {
  await keeper.sync('/')
  try {
    await readRoot(keeper, paths)
    return true
  } catch (error) {
    if (isRefused(error, KEEPER_ERROR.noNode)) return false
    throw error
  }
}

/** All documents, their secrets sealed. Others may change them meanwhile. */
export async function readDocuments(keeper: KeeperClient, paths: Paths): Promise<Entry[]> {
  const names = await keeper.getChildren(paths.documents)
  const entries: Entry[] = []
  for (let from = 0; from < names.length; from += READS_MAX) {
    const keys = names.slice(from, from + READS_MAX).map(decodeURIComponent)
    entries.push(...(await Promise.all(keys.map(key => readDocument(keeper, paths, key)))).flat())
  }
  return entries
}

/** Nothing where it was removed meanwhile. */
async function readDocument(keeper: KeeperClient, paths: Paths, key: string): Promise<Entry[]> {
  try {
    const { data } = await keeper.getData(paths.document(key))
    return [[key, JSON.parse(data.toString())]]
  } catch (error) {
    if (isRefused(error, KEEPER_ERROR.noNode)) return []
    throw error
  }
}

/** Makes the node, and its parents where they are not there: that needs rights at theirs. */
export async function makePath(keeper: KeeperClient, path: string): Promise<void> {
  const write: Write = { kind: 'create', path, data: json(null) }
  try {
    await unlessRefused(keeper, [write], KEEPER_ERROR.nodeExists)
  } catch (error) {
    if (!isRefused(error, KEEPER_ERROR.noNode)) throw error
    await makePath(keeper, path.slice(0, path.lastIndexOf('/')))
    await unlessRefused(keeper, [write], KEEPER_ERROR.nodeExists)
  }
}

/** False where they were refused so. */
export async function unlessRefused(
  keeper: KeeperClient,
  writes: readonly Write[],
  as: number,
): Promise<boolean> {
  try {
    await keeper.multi(writes)
    return true
  } catch (error) {
    if (!isRefused(error, as)) throw error
    return false
  }
}

export function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

/** Bytes of a write in a request, about. */
export function bytesOf(write: Write): number {
  return 100 + write.path.length + ('data' in write ? write.data.byteLength : 0)
}
