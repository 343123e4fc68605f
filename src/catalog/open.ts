/** Start-up of the catalog stage: worker, memory, first start, data/admin.json. */
import type { Paths } from '../paths.ts'
import { type Disk, disk } from '../util/disk.ts'
import { Catalog, type CatalogListener } from './catalog.ts'
import { type Admin, type AdminGiven, startChange, writeAdmin } from './first-start.ts'
import { Memory } from './memory.ts'
import type { Pool } from './model.ts'
import { openStoreClient, type StoreClient } from './store-client.ts'

export interface CatalogOptions extends AdminGiven {
  readonly paths: Paths
  /** Opened already; undefined: it is opened now. */
  readonly store?: Promise<StoreClient>
  /** For armCrash in the worker; '' for none. */
  readonly crashAt?: string | undefined
  /** See CatalogListener. */
  readonly onPoolDeleted?: (pool: Pool) => void
  readonly onPoolModified?: (pool: Pool) => void
  readonly disk?: Disk
}

export interface OpenedCatalog {
  readonly catalog: Catalog
  /** The first application; undefined where it was deleted. */
  readonly admin: Admin | undefined
  /** data/admin.json was written by this start: main prints id and secret once. */
  readonly adminIsNew: boolean
  /** This start found no catalog and made one. */
  readonly isNewFolder: boolean
}

/** Opens the catalog of a data folder, or makes it. Rejects with CannotRun, Damaged or Unavailable. */
export async function openCatalog(options: CatalogOptions): Promise<OpenedCatalog> {
  const { paths, crashAt = '' } = options
  const listener: CatalogListener = {
    poolDeleted: options.onPoolDeleted ?? (() => undefined),
    poolModified: options.onPoolModified ?? (() => undefined),
  }
  const store = await (options.store ?? openStoreClient({ path: paths.catalog, crashAt }))
  try {
    return await start(store, options, listener)
  } catch (error) {
    await store.stop()
    throw error
  }
}

async function start(
  store: StoreClient,
  options: CatalogOptions,
  listener: CatalogListener,
): Promise<OpenedCatalog> {
  const memory = new Memory()
  memory.load(store.entries, options.paths.catalog)
  const isNewFolder = memory.isEmpty()
  const catalog = new Catalog(memory, store, listener)
  const change = startChange(memory, options)
  if (change !== undefined) await catalog.put(change.puts, change.removes)
  const { admin, written } = writeAdmin(memory, options.paths.admin, options.disk ?? disk)
  return { catalog, admin, adminIsNew: written, isNewFolder }
}
