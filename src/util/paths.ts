/** Names of the files in the data folder, except those of log/log-folder.ts and a running merge. */
import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'

/** The paths of one data folder. */
export type Paths = Readonly<ReturnType<typeof pathsOf>>

/** The paths below `root`, an absolute folder. */
export function pathsOf(root: string) {
  const catalog = join(root, 'catalog')
  return {
    root,
    admin: join(root, 'admin.json'),
    /** The key that seals the secrets of the catalog. */
    secretKey: secretKeyBeside(catalog),
    catalog,
    log: join(root, 'log'),
    index: join(root, 'index'),
    /** A new index while a rebuild makes it. */
    indexNew: join(root, 'index.new'),
    /** An old index that an earlier version left behind. */
    indexOld: join(root, 'index.old'),
    segment: join(root, 'segment'),
    temporary: join(root, 'tmp'),
    /** Files of a running merge. The merge thread empties the folder when it starts. */
    merge: join(root, 'tmp', 'merge'),
    /** Requests for a backup in a bucket, while they are sent. A start removes them. */
    backupLog: join(root, 'tmp', 'backup-log'),
    /** The claim of a running backup in a bucket. The next backup ends one that is left. */
    bucketClaim: join(root, 'tmp', 'bucket-claim'),
    /** Damaged files that repairs moved away. Only a person removes them. */
    damaged: join(root, 'damaged'),
    lock: join(root, 'LOCK'),
    format: join(root, 'FORMAT'),
    /** Exists while a restore fills the folder. */
    restoring: join(root, 'RESTORING'),
  }
}

/** The key of the catalog in `folder`, of a data folder or of a backup. */
export function secretKeyBeside(catalog: string): string {
  return join(dirname(catalog), 'secret.key')
}

/** The table of contents of a backup, written last. It has no meaning in a data folder. */
export const BACKUP_FILE = 'BACKUP'

/** The table of contents of an unfinished backup. A rename makes it BACKUP. */
export const UNFINISHED_BACKUP_FILE = `${BACKUP_FILE}.tmp`

/** The folder of a pool's segments. */
export function poolFolder(paths: Paths, poolId: string): string {
  return join(paths.segment, poolId)
}

/** `0000000042.parquet`: a segment of a pool. */
export function segmentFile(segment: number): string {
  return `${String(segment).padStart(10, '0')}.parquet`
}

/** `0000000042.deletes`: the deletes of the flush of that segment. */
export function deleteFile(segment: number): string {
  return `${String(segment).padStart(10, '0')}.deletes`
}

/** Part of temporary names. A process id would repeat: in a container it is always 1. */
const PROCESS_TAG = randomBytes(8).toString('hex')

/** A file for exported rows. It is unlinked as soon as it is open for reading. */
export function exportFile(temporaryFolder: string, number: number): string {
  return join(temporaryFolder, `export-${PROCESS_TAG}-${number}.parquet`)
}

/** The changes of a segment's rows, from when they are found until they are applied. */
export function rowChangesFile(temporaryFolder: string, pool: number, segment: number): string {
  return join(temporaryFolder, `changes-${PROCESS_TAG}-${pool}-${segment}.parquet`)
}

/** A file for the body of an import. */
export function importFile(temporaryFolder: string, number: number): string {
  return join(temporaryFolder, `import-${PROCESS_TAG}-${number}.parquet`)
}

/** The processes that run queries (query/duckdb/engine-lane.ts). */
export type QueryProcessName = 'query' | 'penalty'

/** The folder that the queries of one process spill to. The process empties it when it starts. */
export function spillFolder(temporaryFolder: string, process: QueryProcessName = 'query'): string {
  return join(temporaryFolder, process)
}

/**
 * True for exported rows, row changes or an import's body of an earlier process, and for a file
 * that a query of an earlier version spilled. A start removes such files.
 */
export function isLeftCopy(name: string): boolean {
  if (name.startsWith('duckdb_temp_')) return true
  const tag = /^(?:(?:export|import)-([\da-f]+)-\d+|changes-([\da-f]+)-\d+-\d+)\.parquet$/
    .exec(name)
    ?.slice(1)
    .find(each => each !== undefined)
  return tag !== undefined && tag !== PROCESS_TAG
}

/** The temporary name of a file outside the data folder while it is written. */
export function unfinishedFile(path: string): string {
  return `${path}.tmp-${PROCESS_TAG}`
}

/** The number in a segment's or delete file's name, undefined for any other name. */
export function numberOfFile(name: string): number | undefined {
  const match = /^(\d{10})\.(parquet|deletes)$/.exec(name)
  return match === null ? undefined : Number(match[1])
}

/** LMDB's files, in the folders of catalog and index. */
export const LMDB_FILES = { data: 'data.mdb', lock: 'lock.mdb' } as const

/** `data.mdb.damaged-2`: an unreadable index that was moved away. */
export function damagedIndexFile(number: number): string {
  return `${LMDB_FILES.data}.damaged-${number}`
}

/** The number in such a name, undefined for any other name. */
export function numberOfDamagedIndex(name: string): number | undefined {
  const match = /^data\.mdb\.damaged-(\d{1,9})$/.exec(name)
  return match === null ? undefined : Number(match[1])
}
