/**
 * The catalog forgets a deleted pool when no server has its table. Until then the tombstone says
 * that the table may be dropped. Keeper has all documents in memory, so they must not grow with
 * each pool that ever was.
 */
import { keys } from '../catalog/documents/memory.ts'
import { Unavailable } from '../util/errors.ts'
import type { PoolTables } from './clickhouse/pool-tables.ts'
import type { FencedCatalog } from './keeper/leader.ts'

/** Pools of one change: Keeper refuses large ones. */
const POOLS_MAX = 500

/** Call it at times. Where a server does not answer it does nothing. */
export async function forgetDeleted(
  tables: Pick<PoolTables, 'absent'>,
  catalog: Pick<FencedCatalog, 'change' | 'read'>,
): Promise<void> {
  const deleted = [...catalog.read.tombstones.values()]
  if (deleted.length === 0) return
  try {
    const absent = new Set(await tables.absent(deleted.map(({ poolId }) => poolId)))
    const gone = deleted.filter(({ poolId }) => absent.has(poolId)).slice(0, POOLS_MAX)
    const removes = gone.map(({ number }) => keys.tombstone(number))
    await catalog.change(() => ({ puts: [], removes, result: null }))
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error // otherwise the next look tries again
  }
}
