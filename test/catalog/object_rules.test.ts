/** Rules of metrics, policies, applications, generic pools and sources of other kinds. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import {
  createApplication,
  modifyApplication,
  rotateSecret,
} from '../../src/catalog/change/change-application.ts'
import { createMetric, modifyMetric } from '../../src/catalog/change/change-metric.ts'
import { assignPolicy, createPolicy, modifyPolicy } from '../../src/catalog/change/change-policy.ts'
import { createPool, deletePool } from '../../src/catalog/change/change-pool.ts'
import { createSource, deleteSource, modifySource } from '../../src/catalog/change/change-source.ts'
import type { BadRequest } from '../../src/catalog/documents/catalog-types.ts'
import { SCOPES } from '../../src/catalog/documents/model.ts'
import { type Folder, makeFolder } from './folder.ts'

let folder: Folder
let catalog: Catalog
let pool = ''
beforeEach(async () => {
  folder = makeFolder()
  catalog = (await folder.open()).catalog
  const columns = [
    { name: 'amount', type: 'DOUBLE', nullable: true },
    { name: 'name', type: 'STRING', nullable: true },
    { name: 'day', type: 'CLICKHOUSE', clickHouseType: 'Nullable(Date)', nullable: true },
  ]
  pool = good(await catalog.change(createPool({ uniqueName: 'p', columns }, 'me'))).id
})
afterEach(() => folder.remove())

/** The made or changed object. */
function good<T>(result: T): Exclude<T, BadRequest | null> {
  if (result === null || (typeof result === 'object' && 'badRequest' in result))
    throw new Error(JSON.stringify(result))
  return result as Exclude<T, BadRequest | null>
}

const refused = (why: RegExp) => ({ badRequest: expect.stringMatching(why) })

describe('metrics', () => {
  const make = (more: Partial<Parameters<typeof createMetric>[0]>) =>
    catalog.change(createMetric({ poolId: pool, type: 'COUNT', ...more }, 'me'))

  test('need the column or the expression of their type', async () => {
    for (const type of ['SUM', 'AVERAGE'] as const) {
      expect(await make({ type })).toEqual(refused(/needs a measure/))
      expect(await make({ type, column: 'name' })).toEqual(refused(/type STRING/))
      expect(await make({ type, column: 'day' })).toEqual(refused(/type DATE/))
      expect(await make({ type, column: 'constructor' })).toEqual(refused(/names no column/))
      expect(await make({ type, column: 'amount' })).toMatchObject({ type, column: 'amount' })
    }
    for (const type of ['MIN', 'MAX'] as const) {
      for (const column of ['amount', 'name', 'day', '_service_received_at'])
        expect(await make({ type, column })).toMatchObject({ column })
      expect(await make({ type, column: '_service_payload' })).toEqual(refused(/type JSON/))
    }
    expect(await make({ type: 'COUNT_DISTINCT' })).toEqual(refused(/needs a dimension/))
    expect(await make({ type: 'COUNT_DISTINCT', column: 'name' })).toMatchObject({ column: 'name' })
    expect(await make({ type: 'CUSTOM' })).toEqual(refused(/needs an expression/))
  })

  test('have dimensions that are columns, each once', async () => {
    expect(await make({ dimensions: ['name', '_service_received_at'] })).toMatchObject({
      dimensions: ['name', '_service_received_at'],
    })
    expect(await make({ dimensions: ['nope'] })).toEqual(refused(/names no column/))
    expect(await make({ dimensions: ['name', 'name'] })).toEqual(refused(/more than once/))
  })

  test('without a name do not collide, and are named by their ids', async () => {
    const [one, two] = [good(await make({ uniqueName: '' })), good(await make({ uniqueName: '' }))]
    expect([one.uniqueName, two.uniqueName]).toEqual([one.id, two.id])
  })

  test('keep what a change does not give', async () => {
    const metric = good(await make({ filterSql: 'amount > 1', dimensions: ['name'], description: 'd' }))
    const change = { uniqueName: '', description: null, filterSql: null, dimensions: null, filters: null }
    expect(await catalog.change(modifyMetric({ id: metric.id }, change, 'you'))).toEqual(metric)
    const named = await catalog.change(modifyMetric({ id: metric.id }, { uniqueName: 'n' }, 'you'))
    expect(named).toMatchObject({ uniqueName: 'n', filterSql: 'amount > 1', modifiedBy: 'you' })
  })

  test('go with their pool', async () => {
    const metric = good(await make({}))
    await catalog.change(deletePool({ id: pool }))
    expect(catalog.read.metrics.get(metric.id)).toBeUndefined()
    expect(await make({})).toBeNull()
  })
})

describe('policies', () => {
  const make = (columns: readonly string[]) =>
    catalog.change(createPolicy({ poolId: pool, columns, filterSql: 'amount > 1' }, 'me'))

  test('name columns of the pool, or all', async () => {
    expect(await make(['*'])).toMatchObject({ columns: ['*'] })
    expect(await make(['name', '_service_payload'])).toMatchObject({ columns: ['name', '_service_payload'] })
    expect(await make(['*', 'name'])).toEqual(refused(/stands alone/))
    expect(await make(['nope'])).toEqual(refused(/no column "nope"/))
  })

  test('clear the filter for "", and keep it for null', async () => {
    const { id } = good(await make(['*']))
    expect(await catalog.change(modifyPolicy({ id }, { filterSql: null }, 'me'))).toMatchObject({
      filterSql: 'amount > 1',
    })
    expect(await catalog.change(modifyPolicy({ id }, { filterSql: '' }, 'me'))).toMatchObject({
      filterSql: null,
    })
  })

  test('replace each other for an application, which has one on a pool', async () => {
    const [one, two] = [good(await make(['*'])), good(await make(['name']))]
    const application = good(await catalog.change(createApplication({}, 'me')))
    expect(catalog.read.policyOf(pool, application.id)).toBeUndefined()
    await catalog.change(assignPolicy(one.id, application.id, 'me'))
    await catalog.change(assignPolicy(two.id, application.id, 'me'))
    expect(catalog.read.policyOf(pool, application.id)?.id).toBe(two.id)
    expect(catalog.read.policies.get(one.id)?.applicationIds).toEqual([])
    expect(await catalog.change(assignPolicy(one.id, 'APPgone', 'me'))).toBeNull()
  })
})

describe('applications', () => {
  test('have all scopes where none is given, and each scope once', async () => {
    for (const scopes of [undefined, null, []])
      expect(await catalog.change(createApplication({ scopes }, 'me'))).toMatchObject({ scopes: SCOPES })
    const scopes = ['metric:query', 'admin', 'metric:query'] as const
    expect(await catalog.change(createApplication({ scopes }, 'me'))).toMatchObject({
      scopes: ['metric:query', 'admin'],
      propeller: 'P1_X_SMALL',
    })
  })

  test('get another secret by a rotation only', async () => {
    const { id, secret } = good(await catalog.change(createApplication({ uniqueName: 'a' }, 'me')))
    expect(secret).toHaveLength(43)
    expect(await catalog.change(modifyApplication({ id }, { propeller: 'P1_LARGE' }, 'me'))).toMatchObject({
      secret,
      propeller: 'P1_LARGE',
    })
    const rotated = good(await catalog.change(rotateSecret({ uniqueName: 'a' }, 'me')))
    expect(rotated.secret).not.toBe(secret)
  })
})

describe('sources of other kinds', () => {
  const tables = [{ name: 't', columns: [{ name: 'a', type: 'INT64', nullable: false }] }]

  test('of kind Http have tables, whose columns a pool takes, and a table keeps its id', async () => {
    const source = good(await catalog.change(createSource('Http', { uniqueName: 'h', tables }, 'me')))
    expect(source).toMatchObject({ status: 'CONNECTED', tables: [{ id: expect.stringMatching(/^TBL/) }] })
    const made = await catalog.change(createPool({ dataSource: source.id, table: 't' }, 'me'))
    expect(made).toMatchObject({ table: 't', columns: [{ name: 'a', jsonProperty: 'a', type: 'INT64' }] })
    expect(await catalog.change(createPool({ dataSource: source.id, table: 'u' }, 'me'))).toEqual(
      refused(/no table "u"/),
    )
    const wider = [
      { ...tables[0]!, columns: [...tables[0]!.columns, { name: 'b', type: 'JSON', nullable: true }] },
    ]
    const changed = good(
      await catalog.change(modifySource('Http', { id: source.id }, { tables: wider }, 'me')),
    )
    expect(changed.tables[0]?.id).toBe(source.tables[0]?.id)
    expect(changed.tables[0]?.columns).toHaveLength(2)
  })

  test('that Weir does not connect to take no pool', async () => {
    const source = good(await catalog.change(createSource('S3', { settings: { bucket: 'b' } }, 'me')))
    expect(source).toMatchObject({ status: 'BROKEN', error: expect.stringContaining('S3') })
    expect(await catalog.change(createPool({ dataSource: source.id }, 'me'))).toEqual(refused(/type S3/))
    expect(await catalog.change(modifySource('Http', { id: source.id }, {}, 'me'))).toEqual(
      refused(/of type S3, not Http/),
    )
  })

  test('the internal one holds pools without a source, and stays', async () => {
    const [internal] = catalog.read.sources.all().filter(({ kind }) => kind === 'INTERNAL')
    expect(catalog.pool(pool)?.dataSourceId).toBe(internal?.id)
    expect(await catalog.change(deleteSource({ id: internal?.id ?? '' }))).toEqual(
      refused(/cannot be deleted/),
    )
    await catalog.change(createPool({ uniqueName: 'q' }, 'me'))
    expect(catalog.read.sources.all().filter(({ kind }) => kind === 'INTERNAL')).toHaveLength(1)
  })

  test('events of a generic pool find it by its own webhook id', async () => {
    const { webhookId } = good(catalog.pool(pool) ?? null)
    expect(catalog.byWebhookId(webhookId ?? '')?.pool.id).toBe(pool)
    await catalog.change(deletePool({ id: pool }))
    expect(catalog.byWebhookId(webhookId ?? '')).toBeUndefined()
  })
})
