/** The key index of the data folder, opened or rebuilt for the catalog's pools; a long rebuild says how far it is. */
import type { Catalog } from './catalog/catalog.ts'
import type { Config } from './config.ts'
import { type OpenedIndex, openIndex } from './keys/index-client.ts'
import { BACKGROUND_NICE } from './limits.ts'
import type { Paths } from './paths.ts'
import { monotonicMs } from './util/clock.ts'
import { warn } from './util/say.ts'

/** Rejects with Damaged or CannotRun. */
export function openIndexOf(
  config: Config,
  paths: Paths,
  catalog: Catalog,
  kernel: 'native' | 'js',
  onFault: (error: Error) => void,
): Promise<OpenedIndex> {
  let told = 0
  return openIndex({
    folder: paths.index,
    segmentFolder: paths.segment,
    identity: catalog.meta().folderId,
    pools: catalog
      .pools()
      .map(pool => ({ pool: pool.number, poolId: pool.id, plans: plansOf(catalog, pool) })),
    kernel,
    crashAt: config.crashAt,
    nice: BACKGROUND_NICE,
    onFailed: onFault,
    onProgress: (done, of) => {
      if (monotonicMs() - told < 1000 && done < of) return
      told = monotonicMs()
      warn(`rebuilding the index: ${done} of ${of} segments of a pool`)
    },
  })
}

function plansOf(catalog: Catalog, pool: { readonly number: number; readonly planVersion: number }) {
  return Array.from({ length: pool.planVersion }, (_, index) => catalog.plan(pool.number, index + 1)).filter(
    plan => plan !== undefined,
  )
}
