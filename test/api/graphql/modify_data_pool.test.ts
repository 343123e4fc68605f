/**
 * modifyDataPool as Terraform sends it: changes, requests without effect, refusals, and the state
 * after a restart.
 */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RETENTION_DAYS_MAX } from '../../../src/catalog/change/change-pool.ts'
import { createWebhookSource } from '../../../src/catalog/change/change-source.ts'
import type { Pool } from '../../../src/catalog/documents/model.ts'
import { makeServer, type TestServer } from './server.ts'

const MODIFY = `mutation ModifyDataPool($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { __typename
  ... on DataPoolResponse { dataPool { id uniqueName description dataRetentionInDays accessControlEnabled modifiedBy
    timestamp { columnName } } }
  ... on FailureResponse { error { code message } } } }`

let server: TestServer
const told: Pool[] = []
beforeAll(async () => {
  server = await makeServer({ poolModified: pool => told.push(pool) })
})
afterAll(() => server.stop())

let pool: Pool
let count = 0
beforeEach(async () => {
  told.length = 0
  count += 1
  pool = await make(`pool-${count}`)
})

async function make(uniqueName: string): Promise<Pool> {
  const columns = [
    { name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false },
    { name: 'second', jsonProperty: 'second', type: 'DATE', nullable: false },
    { name: 'text', jsonProperty: 'text', type: 'STRING', nullable: false },
  ]
  const made = await server.catalog.change(
    createWebhookSource({ uniqueName, columns, timestamp: 'at' }, 'maker'),
  )
  if ('badRequest' in made) throw new Error(made.badRequest)
  return made.pool
}

async function modify(change: object, which: object = { id: pool.id, uniqueName: null }) {
  return await server.ask(MODIFY, { input: { idOrUniqueName: which, ...change } })
}

async function refused(change: object, message: RegExp, which?: object): Promise<void> {
  const { errors, data } = await modify(change, which)
  expect(data?.modifyDataPool ?? null).toBeNull()
  expect([errors?.[0]?.extensions.code, errors?.[0]?.message]).toEqual([
    'BAD_REQUEST',
    expect.stringMatching(message),
  ])
  expect([server.catalog.pool(pool.id), told]).toEqual([pool, []])
}

describe('a request without effect', () => {
  const none: [string, object][] = [
    ['only the id', {}],
    ['nulls', { uniqueName: null, description: null, dataRetentionInDays: null, accessControlEnabled: null }],
    ['an empty timestamp and name', { timestamp: { columnName: '' }, uniqueName: '' }],
    ['what is there', { timestamp: { columnName: 'at' }, dataRetentionInDays: 0, description: '' }],
  ]
  for (const [what, change] of none)
    test(what, async () => {
      const { errors, data } = await modify(change)
      expect(errors).toBeUndefined()
      expect(data.modifyDataPool).toMatchObject({
        __typename: 'DataPoolResponse',
        dataPool: { id: pool.id, uniqueName: pool.uniqueName, dataRetentionInDays: 0, modifiedBy: 'maker' },
      })
      expect([server.catalog.pool(pool.id), told]).toEqual([pool, []])
    })
})

describe('a change', () => {
  test('is answered, shown, and kept over a restart', async () => {
    const change = {
      uniqueName: `renamed-${count}`,
      description: 'kept a week',
      dataRetentionInDays: 7,
      accessControlEnabled: true,
    }
    const { data } = await modify(change)
    expect(data.modifyDataPool.dataPool).toEqual({
      id: pool.id,
      ...change,
      modifiedBy: 'app',
      timestamp: { columnName: 'at' },
    })
    expect(told.map(one => [one.id, one.retentionDays])).toEqual([[pool.id, 7]])
    expect(server.catalog.read.pools.byName(pool.uniqueName)).toBeUndefined()
    expect(server.catalog.poolByNumber(pool.number)?.description).toBe('kept a week')
    const again = await modify({ dataRetentionInDays: 0 }, { id: null, uniqueName: change.uniqueName })
    expect(again.data.modifyDataPool.dataPool).toMatchObject({
      dataRetentionInDays: 0,
      description: 'kept a week',
    })
    await modify({ dataRetentionInDays: RETENTION_DAYS_MAX, description: '' })
    expect(server.catalog.pool(pool.id)).toMatchObject({ retentionDays: RETENTION_DAYS_MAX, description: '' })
  })

  test('of the syncing is the interval alone', async () => {
    const { data } = await server.ask(
      'mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { ... on DataPoolResponse { dataPool { syncing { status interval } } } } }',
      { input: { idOrUniqueName: { id: pool.id }, syncing: { interval: 'EVERY_1_HOUR' } } },
    )
    expect(data.modifyDataPool.dataPool.syncing).toEqual({ status: 'DISABLED', interval: 'EVERY_1_HOUR' })
    await modify({ description: 'other', syncing: null })
    expect(server.catalog.pool(pool.id)).toMatchObject({ syncInterval: 'EVERY_1_HOUR' })
  })

  test('a pool may have the name of its own source back', async () => {
    await modify({ uniqueName: `away-${count}` })
    const { data } = await modify({ uniqueName: pool.uniqueName })
    expect(data.modifyDataPool.dataPool.uniqueName).toBe(pool.uniqueName)
  })
})

describe('a refused change', () => {
  test('has retention days out of range', async () => {
    await refused({ dataRetentionInDays: -1 }, /0 \(for ever\) to 36500, not -1/)
    await refused({ dataRetentionInDays: RETENTION_DAYS_MAX + 1 }, /not 36501/)
    await refused({ dataRetentionInDays: 1.5 }, /Int/)
  })

  test('names another timestamp', async () => {
    for (const columnName of ['_service_received_at', 'second'])
      await refused(
        { timestamp: { columnName } },
        /timestamp .* cannot be changed from "at" to .*timeRange\.timestamp .* create a Data Pool/,
      )
    await refused({ timestamp: { columnName: 'nope' } }, /"nope" names no column/)
    await refused({ timestamp: { columnName: 'text' } }, /"text" is a column of type STRING/)
  })

  test('has a name that is taken, or is an id', async () => {
    const other = await make(`other-${count}`)
    await refused({ uniqueName: other.uniqueName }, /already exists/)
    await refused({ uniqueName: other.id }, /is the id of another Data Pool/)
  })

  test('names no existing pool or comes without the scope', async () => {
    await refused({}, /Neither id nor uniqueName/, {})
    const missing = await modify({}, { id: 'DPO00000000000000000000000000' })
    expect(missing.errors?.[0]).toMatchObject({
      message: 'Data Pool not found',
      extensions: { code: 'NOT_FOUND' },
    })
    const input = { idOrUniqueName: { id: pool.id }, dataRetentionInDays: 1 }
    const { errors } = await server.ask(MODIFY, { input }, { scope: ['data_pool:read'] })
    expect(errors?.[0]?.extensions.code).toBe('FORBIDDEN')
    expect(server.catalog.pool(pool.id)).toEqual(pool)
  })
})

test('lasts', async () => {
  await modify({ dataRetentionInDays: 3, uniqueName: 'lasting' })
  await server.folder.stop()
  const { catalog } = await server.folder.open()
  expect(catalog.read.pools.byName('lasting')).toMatchObject({ id: pool.id, retentionDays: 3 })
})
