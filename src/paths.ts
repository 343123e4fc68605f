/** Names of everything in the data folder. The only file that spells a path. */
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
  /** What repairs set aside. Nothing removes it but a person. */
  readonly damaged: string
  /** What a running merge writes before its segment has a name; emptied when the merge thread starts. */
  readonly merge: string
  readonly lock: string
  readonly format: string
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
    damaged: join(root, 'damaged'),
    merge: join(root, 'tmp', 'merge'),
    lock: join(root, 'LOCK'),
    format: join(root, 'FORMAT'),
  }
}

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

/** The number in a segment's or delete file's name, undefined for any other name. */
export function numberOfFile(name: string): number | undefined {
  const match = /^(\d{10})\.(parquet|deletes)$/.exec(name)
  return match === null ? undefined : Number(match[1])
}
