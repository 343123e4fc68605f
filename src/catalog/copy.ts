/** A catalog written anew from its documents: as a new folder's, in one flushed transaction. */
import { join } from 'node:path'
import { LMDB_FILES } from '../paths.ts'
import type { Disk } from '../util/disk.ts'
import type { Entry } from './protocol.ts'
import { openStore } from './store.ts'

/** Makes the store in the new folder `path` and closes it. Returns the names of its files. Throws LMDB's errors. */
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
  // The lock file speaks of this process; LMDB makes another.
  for (const name of disk.readdir(path)) if (name !== LMDB_FILES.data) disk.unlink(join(path, name))
  return [LMDB_FILES.data]
}
