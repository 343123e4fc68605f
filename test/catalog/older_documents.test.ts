/** A folder whose documents were written by an earlier version. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createPool } from '../../src/catalog/change/change-pool.ts'
import { createWebhookSource, modifySource } from '../../src/catalog/change/change-source.ts'
import type { Entry } from '../../src/catalog/documents/catalog-types.ts'
import { openStore } from '../../src/catalog/lmdb/catalog-store.ts'
import { type Folder, makeFolder } from './folder.ts'

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

const AT = '2026-11-01T00:00:00.000Z'
const common = {
  uniqueName: 'orders',
  description: '',
  createdAt: AT,
  createdBy: 'system',
  modifiedAt: AT,
  modifiedBy: 'system',
}
const COLUMNS = [{ name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false }]
const keyed = { columns: COLUMNS, timestamp: null, uniqueIdColumn: 'id', tenant: null }

/** As the first release wrote them. */
const DOCUMENTS: readonly Entry[] = [
  [
    'meta',
    {
      format: 1,
      folderId: 'f',
      accountId: 'ACC1',
      environmentId: 'ENV1',
      nextPoolNumber: 2,
      firstApplicationId: 'app',
      openPoolMade: true,
    },
  ],
  ['signing-key', { secret: Buffer.alloc(32, 1).toString('base64url') }],
  [
    'application/app',
    { ...common, id: 'app', uniqueName: 'app', secret: 'a-secret-of-the-app', scopes: ['admin'] },
  ],
  [
    'source/DSO1',
    {
      ...common,
      id: 'DSO1',
      webhookId: 'WHK1',
      poolId: 'DPO1',
      basicAuth: null,
      timestamp: null,
      uniqueIdColumn: 'id',
      tenant: null,
    },
  ],
  [
    'source/DSO2',
    {
      ...common,
      id: 'DSO2',
      uniqueName: 'crashed',
      kind: 'KAFKA',
      status: 'CONNECTING',
      error: null,
      basicAuth: null,
      webhook: null,
      tables: [],
      settings: {},
    },
  ],
  [
    'pool/DPO1',
    {
      ...common,
      ...keyed,
      id: 'DPO1',
      number: 1,
      dataSourceId: 'DSO1',
      planVersion: 1,
      accessControlEnabled: false,
      retentionDays: 0,
    },
  ],
  ['plan/1/1', { ...keyed, pool: 1, version: 1 }],
]

/** A webhook source whose pool an earlier version deleted alone. */
const ORPHAN: readonly Entry[] = [
  [
    'source/DSO3',
    {
      ...common,
      id: 'DSO3',
      uniqueName: 'left',
      kind: 'WEBHOOK',
      status: 'CONNECTED',
      error: null,
      basicAuth: null,
      webhook: {
        webhookId: 'WHK3',
        poolId: 'DPO3',
        timestamp: null,
        uniqueIdColumn: null,
        tenant: null,
        tableSettings: null,
      },
      tables: [],
      settings: {},
    },
  ],
  ['tombstone/7', { number: 7, poolId: 'DPO3', deletedAt: AT }],
]

test('a start removes the webhook sources that an earlier version left without a pool', async () => {
  const store = await openStore(folder.paths.catalog)
  store.apply({ puts: [...DOCUMENTS, ...ORPHAN], removes: [] })
  await store.close()
  const first = await folder.open({ clientId: 'app', clientSecret: 'another-secret-of-the-app' })
  expect(first.removedSources).toEqual(['left'])
  expect(first.admin?.clientSecret).toBe('another-secret-of-the-app')
  const sources = first.catalog.read.sources.all().map(({ id, kind }) => (kind === 'INTERNAL' ? kind : id))
  expect(sources).toEqual(['DSO1', 'DSO2', 'INTERNAL'])
  expect(await first.catalog.change(createWebhookSource({ uniqueName: 'left' }, 'app'))).toHaveProperty(
    'pool',
  )
  await first.catalog.stop()
  const second = await folder.open()
  expect(second.removedSources).toEqual([])
  expect(second.catalog.read.sources.all()).toHaveLength(4)
})

test('documents of the first release are read, changed and read again', async () => {
  const store = await openStore(folder.paths.catalog)
  store.apply({ puts: DOCUMENTS, removes: [] })
  await store.close()
  const { catalog } = await folder.open()
  const target = catalog.byWebhookId('WHK1')
  expect(target?.source).toMatchObject({
    kind: 'WEBHOOK',
    status: 'CONNECTED',
    webhook: { webhookId: 'WHK1', poolId: 'DPO1', uniqueIdColumn: 'id', tableSettings: null },
  })
  expect(target?.source).not.toHaveProperty('poolId')
  // An earlier version could stop between the creation of such a source and its next status.
  expect(catalog.read.sources.get('DSO2')).toMatchObject({
    status: 'BROKEN',
    error: expect.stringContaining('does not connect to Kafka'),
  })
  expect(target?.pool).toMatchObject({ webhookId: null, table: 'orders', tableSettings: null })
  expect(catalog.application('app')?.propeller).toBe('P1_X_LARGE')
  expect(catalog.schema(1, 1)).toMatchObject({ key: { version: -1 } })
  await catalog.change(modifySource('WEBHOOK', { id: 'DSO1' }, { description: 'new' }, 'app'))
  const made = await catalog.change(createPool({ uniqueName: 'generic', columns: [] }, 'app'))
  expect(made).toMatchObject({ number: 3, uniqueName: 'generic' }) // behind that of rejected events
  await catalog.stop()

  const again = await folder.open()
  expect(again.catalog.byWebhookId('WHK1')).toEqual({
    ...target,
    source: expect.objectContaining({ description: 'new' }),
  })
  expect(again.catalog.read.pools.all()).toHaveLength(3)
})
