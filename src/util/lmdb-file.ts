/**
 * Checks an LMDB data file before LMDB opens it. LMDB maps the file and trusts it: lmdb-js crashes
 * the process on a file that is not LMDB's, and any reader of a truncated file dies with SIGBUS.
 */
import { join } from 'node:path'
import { type Disk, disk, type FileHandle, withFile } from './disk.ts'
import { Damaged, must } from './errors.ts'
import { LMDB_FILES } from './paths.ts'

/** Two meta pages of LMDB's smallest page size. */
const FILE_BYTES_MIN = 2 * 4096
const META_PAGES = 2
const MAGIC = 0xbeefc0de
/** Page number, transaction, pad, flags, bounds or page count (LMDB data version 2). */
const PAGE_HEADER_BYTES = 24
/** Offsets in a meta page. A database record has pad, flags, depth, counts and root. */
const META = { magic: 24, pageBytes: 48, roots: [48, 96], lastPage: 144, txn: 152, end: 160 } as const
const DATABASE = { depth: 6, branchPages: 8, leafPages: 16, overflowPages: 24, root: 40 } as const
const NODE_HEADER_BYTES = 8
/** Levels of a tree. LMDB's own cursors go no deeper (CURSOR_STACK). */
const DEPTH_MAX = 32
const PAGE = { branch: 0x01, leaf: 0x02, leaf2: 0x20 } as const
/** Flags of a node: its data is the number of an overflow page, or a database record. */
const NODE = { isBig: 0x01, isDatabase: 0x02 } as const
const NO_PAGE = 0xffff_ffff_ffff_ffffn

/** Damage of a data file. `foreign`: LMDB did not write it. `short`: pages of it are missing. */
interface LmdbDamage {
  readonly kind: 'foreign' | 'short'
  readonly path: string
  readonly bytes: number
  readonly what: string
}

/** Throws Damaged for a data file that LMDB did not write or that was truncated. */
export function checkLmdbFile(folder: string, on: Disk = disk): void {
  const damage = findLmdbDamage(folder, on)
  if (damage === undefined) return
  const { kind, path, bytes, what } = damage
  throw new Damaged(path, kind === 'foreign' ? 0 : bytes, what)
}

/**
 * Walks all pages of a small file, because LMDB may crash the process at an overwritten page.
 * @throws Damaged as checkLmdbFile, and where a page or a record is not where the tree says
 */
export function checkLmdbPages(folder: string, on: Disk = disk): void {
  checkLmdbFile(folder, on)
  withDataFile(folder, on, ({ path, bytes, file, meta }) => {
    const newest = must(meta, 'the meta page that checkLmdbFile read')
    if (!holdsAll(on, file, newest, Math.floor(bytes / newest.pageBytes)))
      throw new Damaged(path, 0, 'its pages do not lead to all of its records')
  })
}

/** The damage of the data file in `folder`; undefined where LMDB may map it. */
export function findLmdbDamage(folder: string, on: Disk = disk): LmdbDamage | undefined {
  return withDataFile(folder, on, ({ path, bytes, file, meta }) => {
    if (meta === undefined || bytes < FILE_BYTES_MIN)
      return { kind: 'foreign', path, bytes, what: 'it is not an LMDB file' }
    const pages = Math.floor(bytes / meta.pageBytes)
    if (pages > meta.lastPage || holdsAll(on, file, meta, pages)) return undefined
    return { kind: 'short', path, bytes, what: `it ends after ${pages} pages of ${meta.lastPage + 1}` }
  })
}

/**
 * The bytes of a data file, and those used without its free pages after the last transaction;
 * undefined where LMDB did not write it.
 */
export function lmdbUse(folder: string, on: Disk) {
  return withDataFile(folder, on, ({ bytes, meta }) => {
    if (meta === undefined) return undefined
    const { view, pageBytes } = meta
    const counts = [DATABASE.branchPages, DATABASE.leafPages, DATABASE.overflowPages]
    const pages = META.roots.flatMap(at => counts.map(count => Number(view.getBigUint64(at + count, true))))
    return { bytes, bytesUsed: pageBytes * pages.reduce((sum, count) => sum + count, META_PAGES) }
  })
}

/** The number of the last transaction; 0 where there is none. */
export function lastTransaction(folder: string, on: Disk): number {
  return withDataFile(folder, on, ({ meta }) => Number(meta?.txn ?? 0)) ?? 0
}

interface DataFile {
  readonly path: string
  readonly bytes: number
  readonly file: FileHandle
  /** See newestMeta. */
  readonly meta: Meta | undefined
}

/** The result of `work` on the data file in `folder`; undefined where it is missing or empty. */
function withDataFile<T>(folder: string, on: Disk, work: (data: DataFile) => T): T | undefined {
  const path = join(folder, LMDB_FILES.data)
  const bytes = on.exists(path) ? on.size(path) : 0
  if (bytes === 0) return undefined
  return withFile(on, path, 'r', file => work({ path, bytes, file, meta: newestMeta(on, file, bytes) }))
}

interface Meta {
  readonly pageBytes: number
  readonly lastPage: number
  readonly txn: bigint
  readonly view: DataView
}

/**
 * The meta page of the last transaction; undefined where one of the two is not LMDB's. LMDB takes
 * the one with the higher transaction unchecked: it would undo it or trust an overwritten page.
 */
function newestMeta(on: Disk, file: FileHandle, bytes: number): Meta | undefined {
  const first = readMeta(on, file, 0)
  if (first === undefined || first.pageBytes * META_PAGES > bytes) return undefined
  const second = readMeta(on, file, first.pageBytes)
  if (second?.pageBytes !== first.pageBytes) return undefined
  return second.txn > first.txn ? second : first
}

function readMeta(on: Disk, file: FileHandle, position: number): Meta | undefined {
  const page = new Uint8Array(META.end)
  if (on.read(file, page, position) < META.end) return undefined
  const view = new DataView(page.buffer)
  const pageBytes = view.getUint32(META.pageBytes, true)
  const isPage = pageBytes >= 512 && pageBytes <= 65_536 && (pageBytes & (pageBytes - 1)) === 0
  if (view.getUint32(META.magic, true) !== MAGIC || !isPage) return undefined
  const lastPage = Number(view.getBigUint64(META.lastPage, true))
  return { pageBytes, lastPage, txn: view.getBigUint64(META.txn, true), view }
}

/**
 * True when every page that a record needs is among the first `pages`. A valid file may end before
 * its last page: pages at the end that a transaction took and freed were never written.
 */
function holdsAll(on: Disk, file: FileHandle, { view, pageBytes }: Meta, pages: number): boolean {
  let budget = pages // the trees reach no page twice; a damaged file may have a cycle
  const read = (page: number): DataView | undefined => {
    budget -= 1
    const bytes = new Uint8Array(pageBytes)
    if (page >= pages || budget < 0 || on.read(file, bytes, page * pageBytes) < pageBytes) return undefined
    const view = new DataView(bytes.buffer)
    // Every page that LMDB wrote begins with its own number.
    return Number(view.getBigUint64(0, true)) === page ? view : undefined
  }
  const holdsTree = (of: DataView, at: number): boolean => {
    const root = of.getBigUint64(at + DATABASE.root, true)
    return root === NO_PAGE || holdsPage(Number(root), of.getUint16(at + DATABASE.depth, true))
  }
  const holdsPage = (number: number, depth: number): boolean => {
    const page = depth > 0 && depth <= DEPTH_MAX ? read(number) : undefined
    if (page === undefined) return false
    const flags = page.getUint16(18, true)
    if ((flags & PAGE.leaf2) !== 0) return true
    const nodes = nodesOf(page)
    if (nodes === undefined) return false
    if ((flags & PAGE.branch) !== 0) return nodes.every(node => holdsPage(childOf(page, node), depth - 1))
    return (flags & PAGE.leaf) !== 0 && nodes.every(node => holdsNode(page, node))
  }
  const holdsNode = (page: DataView, node: number): boolean => {
    const flags = page.getUint16(node + 4, true)
    const data = node + NODE_HEADER_BYTES + page.getUint16(node + 6, true)
    if ((flags & (NODE.isBig | NODE.isDatabase)) === 0)
      return data + page.getUint16(node, true) + page.getUint16(node + 2, true) * 0x1_0000 <= page.byteLength
    if (data + ((flags & NODE.isBig) === 0 ? DATABASE.root : 0) + 8 > page.byteLength) return false
    if ((flags & NODE.isBig) === 0) return holdsTree(page, data)
    const first = Number(page.getBigUint64(data, true))
    const big = read(first)
    return big !== undefined && first + big.getUint32(20, true) <= pages
  }
  return META.roots.every(at => holdsTree(view, at))
}

/** Offsets of a page's nodes; undefined where one is beyond the page. */
function nodesOf(page: DataView): number[] | undefined {
  const count = page.getUint16(20, true) >> 1
  if (PAGE_HEADER_BYTES + 2 * count > page.byteLength) return undefined
  const nodes = Array.from(
    { length: count },
    (_, i) => PAGE_HEADER_BYTES + page.getUint16(PAGE_HEADER_BYTES + 2 * i, true),
  )
  return nodes.every(node => node + NODE_HEADER_BYTES <= page.byteLength) ? nodes : undefined
}

/** The child of a branch node: 48 bits, of which the highest stand in the field for flags. */
function childOf(page: DataView, node: number): number {
  return page.getUint32(node, true) + page.getUint16(node + 4, true) * 0x1_0000_0000
}
