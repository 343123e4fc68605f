/** Names of everything in the data folder. The only file that spells a path. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'

/** The paths of one data folder. */
export interface Paths {
  readonly root: string
  readonly admin: string
  readonly catalog: string
  readonly log: string
  readonly index: string
  /** A new index while it is built beside the old one, and the old one while it goes. */
  readonly indexNew: string
  readonly indexOld: string
  readonly segment: string
  readonly temporary: string
  /** What a running merge writes before its segment has a name; emptied when the merge thread starts. */
  readonly merge: string
  /** What repairs set aside. Nothing removes it but a person. */
  readonly damaged: string
  readonly lock: string
  readonly format: string
  /** There while a restore fills the folder. */
  readonly restoring: string
}

/** The paths below `root`, an absolute folder. */
export function pathsOf(root: string): Paths {
  return {
    root,
    admin: join(root, 'admin.json'),
    catalog: join(root, 'catalog'),
    log: join(root, 'log'),
    index: join(root, 'index'),
    indexNew: join(root, 'index.new'),
    indexOld: join(root, 'index.old'),
    segment: join(root, 'segment'),
    temporary: join(root, 'tmp'),
    merge: join(root, 'tmp', 'merge'),
    damaged: join(root, 'damaged'),
    lock: join(root, 'LOCK'),
    format: join(root, 'FORMAT'),
    restoring: join(root, 'RESTORING'),
  }
}

/** In a backup: what it holds, written last. In a data folder it has no meaning. */
export const BACKUP_FILE = 'BACKUP'

/** In a backup while it is written; becomes BACKUP by a rename. */
export const UNFINISHED_BACKUP_FILE = `${BACKUP_FILE}.tmp`

/** The folder of a pool's segments. */
export function poolFolder(paths: Paths, poolId: string): string {
  return join(paths.segment, poolId)
}

/** `0000000042.parquet`: a segment of a pool. */
export function segmentFile(segment: number): string {
  return `${String(segment).padStart(10, '0')}.parquet`
}

/** `0000000042.deletes`: the deletes of the seal that wrote (or would have written) that segment. */
export function deleteFile(segment: number): string {
  return `${String(segment).padStart(10, '0')}.deletes`
}

/** In names of temporary files. Not the process id, which comes again: in a container it is 1 after each crash. */
const THIS_LIFE = randomBytes(8).toString('hex')

/** A file that rows are copied to on their way out. It loses its name as soon as it is read. */
export function exportFile(temporaryFolder: string, number: number): string {
  return join(temporaryFolder, `export-${THIS_LIFE}-${number}.parquet`)
}

/** Did another process leave a file of this name, now or in its life before? A start removes them. */
export function isLeftExportFile(name: string): boolean {
  const life = /^export-([\da-f]+)-\d+\.parquet$/.exec(name)?.[1]
  return life !== undefined && life !== THIS_LIFE
}

/** What stands beside a file while it is made, outside of the data folder. */
export function unfinishedFile(path: string): string {
  return `${path}.tmp-${THIS_LIFE}`
}

/** The number in a segment's or delete file's name, undefined for any other name. */
export function numberOfFile(name: string): number | undefined {
  const match = /^(\d{10})\.(parquet|deletes)$/.exec(name)
  return match === null ? undefined : Number(match[1])
}

/** LMDB's files, in the folders of catalog and index. */
export const LMDB_FILES = { data: 'data.mdb', lock: 'lock.mdb' } as const

/** `data.mdb.damaged-2`: an index that could not be read, set aside. */
export function damagedIndexFile(number: number): string {
  return `${LMDB_FILES.data}.damaged-${number}`
}

/** The number in such a name, undefined for any other name. */
export function numberOfDamagedIndex(name: string): number | undefined {
  const match = /^data\.mdb\.damaged-(\d{1,9})$/.exec(name)
  return match === null ? undefined : Number(match[1])
}
