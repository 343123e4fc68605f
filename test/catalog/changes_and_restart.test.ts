import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { unusedId } from '../../src/catalog/change/change.ts'
import { deletePool } from '../../src/catalog/change/change-pool.ts'
import { createWebhookSource, deleteSource } from '../../src/catalog/change/change-source.ts'
import type { Change } from '../../src/catalog/documents/catalog-types.ts'
import type { Pool } from '../../src/catalog/documents/model.ts'
import { openStoreClient } from '../../src/catalog/lmdb/store-client.ts'
import { KEY_RECEIVED_AT } from '../../src/format/schema.ts'
import { must } from '../../src/util/errors.ts'
import { created, type Folder, makeFolder } from './folder.ts'

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

const COLUMNS = [
  { name: 'at', jsonProperty: 'meta.at', type: 'TIMESTAMP', nullable: true },
  { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: true },
  { name: 'constructor', jsonProperty: '__proto__', type: 'DOUBLE', nullable: true },
  { name: 'need', jsonProperty: 'need', type: 'INT64', nullable: false },
]

describe('creation', () => {
  test('is known to every reader once it is answered', async () => {
    const { catalog } = await folder.open()
    const { pool, source } = created(
      await catalog.change(
        createWebhookSource({ uniqueName: 'orders', columns: COLUMNS, uniqueId: 'id' }, 'APP1'),
      ),
    )
    expect(pool.id).toMatch(/^DPO[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(source.id).toMatch(/^DSO[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(source.webhook?.webhookId ?? '').toMatch(/^WHK[0-9A-HJKMNP-TV-Z]{26}$/)
    expect([pool.uniqueName, source.uniqueName]).toEqual(['orders', 'orders'])
    expect(catalog.byWebhookId(source.webhook?.webhookId ?? '')).toEqual({ pool, source })
    expect(catalog.read.pools.byName('orders')).toEqual(pool)
    expect(catalog.poolByNumber(pool.number)).toEqual(pool)
    expect(catalog.read.sources.byName('orders')).toEqual(source)
    expect(catalog.byWebhookId('constructor')).toBeUndefined()
    expect(pool.createdBy).toBe('APP1')
  })

  test('names source and pool by the source’s id where no name is given', async () => {
    const { catalog } = await folder.open()
    for (const uniqueName of [undefined, null, '']) {
      const { pool, source } = created(await catalog.change(createWebhookSource({ uniqueName }, 'APP1')))
      expect([pool.uniqueName, source.uniqueName]).toEqual([source.id, source.id])
    }
  })

  test('makes the schema: key columns are required, whatever nullable says', async () => {
    const { catalog } = await folder.open()
    const make = async (more: object) =>
      created(await catalog.change(createWebhookSource({ columns: COLUMNS, ...more }, 'APP1'))).pool
    const keyed = await make({ timestamp: 'at', uniqueId: 'id', tenant: 'constructor' })
    const schema = must(catalog.schema(keyed.number, 1), 'schema')
    expect(schema.columns.map(c => c.required)).toEqual([true, true, false, true])
    expect(schema).toMatchObject({ timestamp: 0, tenant: 2, key: { columns: [0, 1], version: -1 } })
    const shared = must(catalog.sharedSchema(keyed.number, 1), 'shared')
    expect(JSON.parse(Buffer.from(new Uint8Array(shared)).toString())).toEqual(schema)
    expect(catalog.sharedSchema(keyed.number, 1)).toBe(shared)
    expect(catalog.schema(keyed.number, 2)).toBeUndefined()

    const idOnly = catalog.schema((await make({ uniqueId: 'id' })).number, 1)
    expect(idOnly).toMatchObject({ timestamp: -1, key: { columns: [KEY_RECEIVED_AT, 1], version: -1 } })
    const none = catalog.schema((await make({ timestamp: 'at' })).number, 1)
    expect(none).toMatchObject({ timestamp: 0, key: null })
  })

  test('gives one name once, also to calls at the same time', async () => {
    const { catalog } = await folder.open()
    const results = await Promise.all(
      Array.from({ length: 5 }, () => catalog.change(createWebhookSource({ uniqueName: 'one' }, 'APP1'))),
    )
    expect(results.filter(result => 'pool' in result)).toHaveLength(1)
    expect(results.at(-1)).toMatchObject({ badRequest: expect.stringMatching(/"one" already exists/) })
    expect(await catalog.change(createWebhookSource({ uniqueName: 'two' }, 'APP1'))).toHaveProperty('pool')
    expect(catalog.pools().filter(pool => pool.uniqueName === 'one')).toHaveLength(1)
  })

  test('refuses a name that is the id of an object, and takes the id of another server', async () => {
    const { catalog } = await folder.open()
    const { id, dataSourceId } = must(catalog.read.pools.byName('events'), 'events')
    for (const uniqueName of [id, dataSourceId])
      expect(await catalog.change(createWebhookSource({ uniqueName }, 'APP1'))).toEqual({
        badRequest: expect.stringMatching(`"${uniqueName}" is the id of another Data`),
      })
    const uniqueName = 'DPO06A68AAFD9SQZ8NC43JGKBGQMC'
    const { pool } = created(await catalog.change(createWebhookSource({ uniqueName }, 'APP1')))
    expect(catalog.read.pools.find(uniqueName)).toEqual(pool)
    expect(catalog.read.pools.find(pool.id)).toEqual(pool)
    expect(catalog.pool(uniqueName)).toBeUndefined()
  })

  test('gives no id that is the unique name of an object', () => {
    const refused: string[] = []
    const names = { has: (id: string) => refused.push(id) < 3 }
    const id = unusedId('MET', 0, { has: () => false }, names)
    expect(refused).toEqual([expect.any(String), expect.any(String), id])
    expect(new Set(refused).size).toBe(3)
  })

  test('keeps nothing of a refused creation', async () => {
    const { catalog } = await folder.open()
    const before = [catalog.pools(), catalog.read.sources.all(), catalog.read.meta()]
    const bad = { columns: [{ ...COLUMNS[0]!, name: '' }], uniqueName: 'free' }
    expect(await catalog.change(createWebhookSource(bad, 'APP1'))).toHaveProperty('badRequest')
    expect([catalog.pools(), catalog.read.sources.all(), catalog.read.meta()]).toEqual(before)
    expect(await catalog.change(createWebhookSource({ uniqueName: 'free' }, 'APP1'))).toHaveProperty('pool')
  })
})

describe('deletion', () => {
  test('of a pool takes its webhook source along in the same change, and frees the name', async () => {
    const dropped: Pool[] = []
    const applied: Change[] = []
    const store = await openStoreClient({ path: folder.paths.catalog, crashAt: '' })
    const apply = (change: Change) => {
      applied.push(change)
      return store.apply(change)
    }
    const { catalog } = await folder.open({
      store: Promise.resolve({ ...store, apply }),
      poolDeleted: pool => dropped.push(pool),
    })
    const { pool, source } = created(await catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1')))
    expect(await catalog.change(deletePool({ id: pool.id }))).toBe(pool.id)
    expect(dropped).toEqual([pool])
    expect(catalog.byWebhookId(source.webhook?.webhookId ?? '')).toBeUndefined()
    expect(catalog.read.sources.get(source.id)).toBeUndefined()
    expect(applied.at(-1)?.removes).toEqual(
      expect.arrayContaining([`pool/${pool.id}`, `source/${source.id}`]),
    )
    expect([
      catalog.pool(pool.id),
      catalog.read.pools.byName('a'),
      catalog.poolByNumber(pool.number),
    ]).toEqual([undefined, undefined, undefined])
    expect(catalog.schema(pool.number, 1)).toBeUndefined()
    expect(catalog.tombstones()).toMatchObject([{ number: pool.number, poolId: pool.id }])
    expect(await catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1'))).toHaveProperty('pool')
  })

  test('of a source takes its pool along and frees the name', async () => {
    const dropped: Pool[] = []
    const { catalog } = await folder.open({ poolDeleted: pool => dropped.push(pool) })
    const { pool, source } = created(await catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1')))
    expect(await catalog.change(deleteSource({ uniqueName: 'a' }))).toBe(source.id)
    expect(dropped).toEqual([pool])
    expect([catalog.read.sources.get(source.id), catalog.pool(pool.id)]).toEqual([undefined, undefined])
    const again = created(await catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1')))
    expect(again.pool.number).toBeGreaterThan(pool.number)
    expect(again.source.webhook?.webhookId ?? '').not.toBe(source.webhook?.webhookId ?? '')
  })

  test('is idempotent and tells the listener once', async () => {
    let dropped = 0
    const { catalog } = await folder.open({ poolDeleted: () => dropped++ })
    const { pool, source } = created(await catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1')))
    const ids = await Promise.all([
      catalog.change(deletePool({ id: pool.id })),
      catalog.change(deletePool({ uniqueName: 'a' })),
      catalog.change(deletePool({ id: pool.id })),
    ])
    expect(ids).toEqual([pool.id, null, null])
    expect(await catalog.change(deleteSource({ id: source.id }))).toBeNull()
    expect(await catalog.change(deleteSource({ uniqueName: '_comments' }))).toBeNull()
    expect(await catalog.change(deletePool({ id: 'constructor' }))).toBeNull()
    expect(dropped).toBe(1)
  })
})

describe('restart', () => {
  test('keeps everything, and numbers go on', async () => {
    const first = await folder.open()
    const kept = created(
      await first.catalog.change(
        createWebhookSource(
          {
            uniqueName: 'kept',
            columns: COLUMNS,
            uniqueId: 'id',
            basicAuth: { username: '', password: 'p' },
          },
          'APP1',
        ),
      ),
    )
    const deleted = created(
      await first.catalog.change(createWebhookSource({ uniqueName: 'deleted' }, 'APP1')),
    )
    await first.catalog.change(deletePool({ id: deleted.pool.id }))
    await first.catalog.stop()

    const { catalog, isNewFolder } = await folder.open()
    expect(isNewFolder).toBe(false)
    expect(catalog.byWebhookId(kept.source.webhook?.webhookId ?? '')).toEqual(kept)
    expect(catalog.schema(kept.pool.number, 1)).toEqual(first.catalog.schema(kept.pool.number, 1))
    expect(catalog.read.sources.get(deleted.source.id)).toBeUndefined()
    expect(catalog.byWebhookId(deleted.source.webhook?.webhookId ?? '')).toBeUndefined()
    expect(catalog.tombstones()).toEqual(first.catalog.tombstones())
    expect(catalog.read.meta()).toEqual(first.catalog.read.meta())
    expect(catalog.read.signingKeys()).toEqual(first.catalog.read.signingKeys())
    const next = created(await catalog.change(createWebhookSource({}, 'APP1')))
    expect(next.pool.number).toBe(deleted.pool.number + 1)
  })

  test('refuses changes after stop', async () => {
    const { catalog } = await folder.open()
    await catalog.stop()
    await expect(catalog.change(createWebhookSource({}, 'APP1'))).rejects.toMatchObject({
      code: 'catalog_refused',
    })
  })
})
