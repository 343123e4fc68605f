/** A node of a cluster that has the catalog in Keeper and nothing else, for tests. */
import { expect, onTestFinished } from 'vitest'
import type { StoreClient } from '../../src/catalog/lmdb/store-client.ts'
import { type CatalogOptions, openCatalogOf } from '../../src/catalog/open-catalog.ts'
import {
  type KeeperStore,
  type KeeperStoreOptions,
  openKeeperStore,
} from '../../src/cluster/keeper/keeper-store.ts'
import { Leader } from '../../src/cluster/keeper/leader.ts'

const SESSION_MS = 2_000

interface NodeOptions extends Pick<CatalogOptions, 'jobCreated'> {
  readonly sessionMs?: number
  readonly store?: Partial<KeeperStoreOptions>
  onLead?(ended: AbortSignal): void
  /** What stands between the catalog and Keeper. */
  through?(store: KeeperStore): StoreClient
}

/** It stops with the test. */
export async function nodeOf(port: number, options: NodeOptions = {}) {
  const fatal: Error[] = []
  const store = await openKeeperStore({
    keeper: { servers: [{ host: '127.0.0.1', port }], sessionMs: options.sessionMs ?? SESSION_MS },
    root: '/weir',
    secretKey: Buffer.alloc(32, 7),
    layout: {},
    onFatal: error => fatal.push(error),
    ...options.store,
  })
  const { catalog } = await openCatalogOf({
    store: options.through?.(store) ?? store,
    place: '/weir',
    adminFile: undefined,
    ...(options.jobCreated && { jobCreated: options.jobCreated }),
  })
  let isStopped = false
  const stop = async () => {
    if (isStopped) return
    isStopped = true
    await catalog.stop()
  }
  onTestFinished(stop)
  return { store, catalog, fatal, stop }
}

/** With a try to lead. `terms` are those of this node that began, in turn. */
export async function leadingNodeOf(port: number, options: NodeOptions = {}) {
  const node = await nodeOf(port, options)
  const terms: AbortSignal[] = []
  const onLead = (ended: AbortSignal) => {
    terms.push(ended)
    options.onLead?.(ended)
  }
  const leader = new Leader({ store: node.store, path: '/weir/leader', onLead })
  onTestFinished(() => leader.stop())
  return { ...node, leader, terms }
}

export async function leads({ leader }: { readonly leader: Leader }): Promise<void> {
  await expect.poll(() => leader.isLeader()).toBe(true)
}
