/** The catalog of a single-thread server: the real one over a given Disk, or fixed schemas. */
import type { Catalog } from '../../src/catalog/catalog.ts'
import type { Change } from '../../src/catalog/documents/catalog-types.ts'
import type { Pool } from '../../src/catalog/documents/model.ts'
import { openStore } from '../../src/catalog/lmdb/catalog-store.ts'
import { ofOneProcess } from '../../src/catalog/lmdb/store-client.ts'
import { openCatalog } from '../../src/catalog/open-catalog.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import { openFolder } from '../../src/util/data-folder.ts'
import type { Disk } from '../../src/util/disk.ts'
import type { Paths } from '../../src/util/paths.ts'
import { poolIdOf } from './pools.ts'

/** The functions of the catalog that the server calls. */
export type ServerCatalog = Pick<Catalog, 'pools' | 'poolByNumber' | 'schema' | 'sharedSchema' | 'tombstones'>

export interface OpenedFolder {
  readonly catalog: Catalog
  close(): Promise<void>
}

interface FolderOptions {
  readonly paths: Paths
  readonly disk: Disk
  /** Called before and after each change, which syncs in between. */
  readonly onTransaction: (what: string) => void
  readonly poolDeleted: (pool: Pool) => void
}

/** Opens the data folder and its catalog in this thread, as a start does. */
export async function openCatalogFolder(options: FolderOptions): Promise<OpenedFolder> {
  const { paths, disk, onTransaction, poolDeleted } = options
  const lock = openFolder(paths, disk)
  try {
    const store = await openStore(paths.catalog, disk)
    const { catalog } = await openCatalog({
      paths,
      disk,
      poolDeleted,
      store: Promise.resolve(
        ofOneProcess({
          entries: store.entries,
          apply: async change => {
            const what = `catalog change (${whatOf(change)})`
            onTransaction(`before ${what}`)
            store.apply(change)
            onTransaction(`after ${what}`)
          },
          refusal: () => undefined,
          stop: () => store.close(),
        }),
      ),
    })
    return {
      catalog,
      close: async () => {
        await catalog.stop()
        disk.close(lock)
      },
    }
  } catch (error) {
    disk.close(lock)
    throw error
  }
}

/** The kind of a change, by the documents that it writes. */
function whatOf({ puts, removes }: Change): string {
  const has = (prefix: string) => puts.some(([key]) => key.startsWith(prefix))
  if (removes.some(key => key.startsWith('pool/'))) return 'pool deleted'
  if (has('application/')) return 'first start'
  if (has('source/')) return 'pool created'
  if (has('plan/')) return 'cut-over'
  return has('job/') ? 'job' : 'other'
}

/** A catalog that never changes: pools with these schemas. */
export function fixedCatalog(schemas: readonly PoolSchema[]): ServerCatalog {
  const pools = schemas.map(({ pool }) => ({ number: pool, id: poolIdOf(pool), planVersion: 1 }) as Pool)
  const shared = new Map(schemas.map(schema => [schema.pool, sharedText(JSON.stringify(schema))]))
  return {
    pools: () => pools,
    poolByNumber: pool => pools.find(({ number }) => number === pool),
    schema: pool => schemas.find(schema => schema.pool === pool),
    sharedSchema: pool => shared.get(pool),
    tombstones: () => [],
  }
}

function sharedText(text: string): SharedArrayBuffer {
  const bytes = Buffer.from(text)
  const memory = new SharedArrayBuffer(bytes.length)
  new Uint8Array(memory).set(bytes)
  return memory
}
