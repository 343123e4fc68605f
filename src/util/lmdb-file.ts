/**
 * A look at an LMDB data file before LMDB opens it: lmdb-js crashes the process on a file that is not LMDB's,
 * instead of saying so.
 */
import { join } from 'node:path'
import { CannotRun } from '../errors.ts'
import { type Disk, disk } from './disk.ts'

const DATA_FILE = 'data.mdb'
/** Where lmdb-js's LMDB keeps the magic in a meta page: behind the page header. */
const MAGIC_OFFSET = 24
const MAGIC = 0xbeefc0de
/** Two meta pages, of the smallest page that LMDB uses. */
const FILE_BYTES_MIN = 2 * 4096

/** Throws CannotRun where `folder` holds a data file that LMDB did not write. None, or an empty one, is fine. */
export function checkLmdbFile(folder: string, on: Disk = disk): void {
  const path = join(folder, DATA_FILE)
  if (!on.exists(path)) return
  const size = on.size(path)
  if (size === 0) return
  const head = new Uint8Array(MAGIC_OFFSET + 4)
  const file = on.open(path, 'r')
  try {
    on.read(file, head, 0)
  } finally {
    on.close(file)
  }
  const magic = new DataView(head.buffer).getUint32(MAGIC_OFFSET, true)
  if (size < FILE_BYTES_MIN || magic !== MAGIC) throw new CannotRun(`${path} is not an LMDB file`)
}
