import { chmodSync, mkdirSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createApplication,
  deleteApplication,
  modifyApplication,
  rotateSecret,
} from '../../src/catalog/change/change-application.ts'
import { assignPolicy, createPolicy } from '../../src/catalog/change/change-policy.ts'
import { deleteSource } from '../../src/catalog/change/change-source.ts'
import { Memory } from '../../src/catalog/documents/memory.ts'
import { SCOPES } from '../../src/catalog/documents/model.ts'
import { openStore } from '../../src/catalog/lmdb/catalog-store.ts'
import { type OpenedCatalog, startChange, writeAdmin } from '../../src/catalog/open-catalog.ts'
import { REJECTED_EVENTS } from '../../src/catalog/rejected-pool.ts'
import { must } from '../../src/util/errors.ts'
import { MemoryDisk } from '../util/memory-disk.ts'
import { type Folder, makeFolder } from './folder.ts'

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

function adminFile(): unknown {
  return JSON.parse(readFileSync(folder.paths.admin, 'utf8'))
}

describe('an empty folder', () => {
  test('gets an application with all scopes, in a file only its owner reads', async () => {
    const { catalog, admin, adminIsNew, isNewFolder } = await folder.open()
    const { clientId, clientSecret } = must(admin, 'admin')
    expect([adminIsNew, isNewFolder]).toEqual([true, true])
    expect(clientId).toMatch(/^APP[0-9A-Z]{26}$/)
    expect(clientSecret.length).toBeGreaterThan(40)
    expect(adminFile()).toEqual({ clientId, clientSecret })
    expect(statSync(folder.paths.admin).mode & 0o777).toBe(0o600)
    expect(statSync(folder.paths.catalog).mode & 0o777).toBe(0o700)
    expect(catalog.application(clientId)).toMatchObject({ secret: clientSecret, scopes: SCOPES })
  })

  test('gets the open pool once, never again after its deletion', async () => {
    const first = await folder.open()
    const pool = must(first.catalog.read.pools.byName('events'), 'events')
    expect(pool).toMatchObject({ columns: [], uniqueIdColumn: null, number: 1, createdBy: 'system' })
    await first.catalog.change(deleteSource({ uniqueName: 'events' }))
    await first.catalog.stop()
    const second = await folder.open()
    expect(second.catalog.pools().map(({ uniqueName }) => uniqueName)).toEqual([REJECTED_EVENTS])
  })

  test('takes id and secret from the options', async () => {
    const { admin } = await folder.open({ clientId: 'me', clientSecret: 'a-secret-of-mine' })
    expect(admin).toEqual({ clientId: 'me', clientSecret: 'a-secret-of-mine' })
    expect(adminFile()).toEqual(admin)
  })

  test('refuses options that HTTP Basic cannot carry', async () => {
    for (const bad of [{ clientId: 'a:b' }, { clientSecret: 'a secret of mine' }, { clientId: 'é' }])
      await expect(folder.open(bad)).rejects.toMatchObject({ name: 'CannotRun' })
    expect((await folder.open({ clientId: '', clientSecret: '' })).admin?.clientId).toMatch(/^APP/)
  })
})

describe('a later start', () => {
  test('announces nothing new without options', async () => {
    const first = await folder.open()
    await first.catalog.stop()
    const second = await folder.open()
    expect(second.adminIsNew).toBe(false)
    expect(second.admin).toEqual(first.admin)
  })

  test('writes the file again where it is missing or differs', async () => {
    const first = await folder.open()
    await first.catalog.stop()
    unlinkSync(folder.paths.admin)
    const second = await folder.open()
    await second.catalog.stop()
    expect([second.adminIsNew, adminFile()]).toEqual([true, first.admin])
    writeFileSync(folder.paths.admin, '{}')
    chmodSync(folder.paths.admin, 0o644)
    await folder.open()
    expect(adminFile()).toEqual(first.admin)
    expect(statSync(folder.paths.admin).mode & 0o777).toBe(0o600)
  })

  test('replaces the application by the options, each alone too', async () => {
    const first = await folder.open()
    const oldId = must(first.admin, 'admin').clientId
    await first.catalog.stop()
    const second = await folder.open({ clientSecret: 'new-secret-of-mine' })
    expect(second.admin).toEqual({ clientId: oldId, clientSecret: 'new-secret-of-mine' })
    await second.catalog.stop()
    const third = await folder.open({ clientId: 'new-id' })
    expect(third.admin).toEqual({ clientId: 'new-id', clientSecret: 'new-secret-of-mine' })
    expect(third.catalog.application(oldId)).toBeUndefined()
    expect(adminFile()).toEqual(third.admin)
    expect(third.catalog.pools()).toHaveLength(2)
  })

  test('with another id or secret leaves name, scopes and propeller, and takes no policy along', async () => {
    const first = await folder.open()
    const { clientId: id } = must(first.admin, 'admin')
    const change = { uniqueName: 'ops', description: 'd', propeller: 'P1_SMALL', scopes: ['admin'] } as const
    await first.catalog.change(modifyApplication({ id }, change, 'me'))
    const poolId = must(first.catalog.read.pools.byName('events'), 'events').id
    const policy = await first.catalog.change(createPolicy({ poolId, columns: ['*'] }, 'me'))
    if (policy === null || 'badRequest' in policy) throw new Error('no policy')
    await first.catalog.change(assignPolicy(policy.id, id, 'me'))
    await first.catalog.stop()

    const second = await folder.open({ clientSecret: 'new-secret-of-mine' })
    const kept = { ...change, secret: 'new-secret-of-mine' }
    expect(second.catalog.application(id)).toMatchObject({ ...kept, id, modifiedBy: 'system' })
    expect(second.catalog.read.policyOf(poolId, id)?.id).toBe(policy.id)
    await second.catalog.stop()

    const third = await folder.open({ clientId: 'new-id' })
    expect(third.catalog.application('new-id')).toMatchObject({ ...kept, id: 'new-id' })
    expect(third.catalog.read.policies.get(policy.id)?.applicationIds).toEqual([])
  })

  test('refuses the name of another application as the id of a deleted first one', async () => {
    const first = await folder.open({ clientId: 'me', clientSecret: 'a-secret-of-mine' })
    await first.catalog.change(deleteApplication({ id: 'me' }, 'me'))
    await first.catalog.change(createApplication({ uniqueName: 'me' }, 'me'))
    await first.catalog.stop()
    await expect(folder.open({ clientId: 'me', clientSecret: 'another-secret' })).rejects.toThrow(
      'the client id me belongs to another application',
    )
  })

  test('takes the name of the first application as its id', async () => {
    const first = await folder.open()
    const id = must(first.admin, 'admin').clientId
    await first.catalog.change(modifyApplication({ id }, { uniqueName: 'ops' }, 'me'))
    await first.catalog.stop()
    const { admin, catalog } = await folder.open({ clientId: 'ops', clientSecret: 'a-secret-of-mine' })
    expect(admin).toEqual({ clientId: 'ops', clientSecret: 'a-secret-of-mine' })
    expect(catalog.read.applications.all().map(one => [one.id, one.uniqueName])).toEqual([['ops', 'ops']])
    expect(catalog.read.applications.byName('ops')?.id).toBe('ops')
  })
})

describe('the same options at a later start', () => {
  const given = { clientId: 'me', clientSecret: 'a-secret-of-mine' }
  const secretOf = (id: string, { catalog }: OpenedCatalog) => catalog.application(id)?.secret

  test('leave a rotated secret dead, and a line says so', async () => {
    const first = await folder.open(given)
    expect(first.unapplied).toBeUndefined()
    const rotated = await first.catalog.change(rotateSecret({ id: 'me' }, 'me'))
    if (rotated === null || 'badRequest' in rotated) throw new Error('not rotated')
    await folder.stop()

    const second = await folder.open(given)
    expect(secretOf('me', second)).toBe(rotated.secret)
    expect(second.unapplied).toMatch(/not applied again: the secret of the first application was rotated/)
    expect(adminFile()).toEqual({ clientId: 'me', clientSecret: rotated.secret })
    await folder.stop()
    // The new secret is given, and rotated too.
    const third = await folder.open({ clientId: 'me', clientSecret: rotated.secret })
    expect(third.unapplied).toBeUndefined()
    const again = await third.catalog.change(rotateSecret({ id: 'me' }, 'me'))
    await folder.stop()
    const fourth = await folder.open({ clientId: 'me', clientSecret: rotated.secret })
    expect(again).toMatchObject({ secret: secretOf('me', fourth) })
    await folder.stop()
    // Another pair is applied, without options nothing changes.
    const other = { clientId: 'me', clientSecret: 'another-secret' }
    expect((await folder.open(other)).admin).toEqual(other)
    await folder.stop()
    const last = await folder.open()
    expect([last.admin, last.unapplied]).toEqual([other, undefined])
  })

  test('do not make a deleted application again', async () => {
    const first = await folder.open(given)
    await first.catalog.change(deleteApplication({ id: 'me' }, 'me'))
    await folder.stop()
    const second = await folder.open(given)
    expect(second.catalog.read.applications.all()).toEqual([])
    expect(second.unapplied).toMatch(/not applied again: the first application was deleted/)
    await folder.stop()
    expect((await folder.open({ ...given, clientSecret: 'another-secret' })).admin?.clientId).toBe('me')
  })

  test('are remembered where an earlier version applied them', async () => {
    const first = await folder.open(given)
    const { givenDigest, ...meta } = first.catalog.read.meta()
    expect(givenDigest).toHaveLength(43)
    await first.catalog.put([['meta', meta]])
    await folder.stop()
    const second = await folder.open(given)
    expect(second.catalog.read.meta()).toEqual({ ...meta, givenDigest })
    await second.catalog.change(rotateSecret({ id: 'me' }, 'me'))
    await folder.stop()
    expect(secretOf('me', await folder.open(given))).not.toBe(given.clientSecret)
  })
})

describe('a catalog that is not ours', () => {
  test('is damaged where its file is not LMDB’s', async () => {
    mkdirSync(folder.paths.catalog)
    for (const bytes of [Buffer.alloc(8192, 'x'), Buffer.alloc(8192), Buffer.alloc(100)]) {
      writeFileSync(join(folder.paths.catalog, 'data.mdb'), bytes)
      await expect(folder.open()).rejects.toMatchObject({
        name: 'Damaged',
        message: expect.stringMatching(/data\.mdb/),
      })
    }
    writeFileSync(join(folder.paths.catalog, 'data.mdb'), '')
    expect((await folder.open()).isNewFolder).toBe(true)
  })

  test('is damaged where documents are unknown or missing', async () => {
    await (await folder.open()).catalog.stop()
    const edit = async (puts: readonly [string, unknown][], removes: readonly string[]): Promise<void> => {
      const store = await openStore(folder.paths.catalog)
      store.apply({ puts, removes })
      await store.close()
    }
    await edit([['strange/1', {}]], [])
    await expect(folder.open()).rejects.toMatchObject({
      name: 'Damaged',
      message: expect.stringMatching(/strange\/1/),
    })
    await edit([], ['strange/1', 'plan/1/1'])
    await expect(folder.open()).rejects.toMatchObject({
      name: 'Damaged',
      message: expect.stringMatching(/no schema version 1 of pool DPO/),
    })
    await edit([], ['meta'])
    await expect(folder.open()).rejects.toMatchObject({
      name: 'Damaged',
      message: expect.stringMatching(/meta document or its signing key is missing/),
    })
  })
})

test('an admin.json that cannot be read is written again', () => {
  const disk = new MemoryDisk()
  disk.mkdir('/data')
  const memory = new Memory()
  memory.load(must(startChange(memory, {}), 'a new folder').puts, '/data')
  expect(writeAdmin(memory, '/data/admin.json', disk).written).toBe(true)
  expect(writeAdmin(memory, '/data/admin.json', disk).written).toBe(false)
  disk.failNext('read', 'EIO', /admin/)
  expect(writeAdmin(memory, '/data/admin.json', disk).written).toBe(true)
})
