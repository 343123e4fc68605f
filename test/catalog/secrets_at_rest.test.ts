/**
 * Secrets at rest: nothing on disk but data/secret.key and data/admin.json reveals a secret, and a
 * missing or wrong key is named.
 */

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { open } from 'lmdb'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import type { Entry } from '../../src/catalog/documents/catalog-types.ts'
import { openStore, readStore } from '../../src/catalog/lmdb/catalog-store.ts'
import {
  isPlain,
  isSealed,
  makeSecretKey,
  openEntry,
  readSecretKey,
  sealEntry,
} from '../../src/catalog/lmdb/seal.ts'
import { syncFolder } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import { MemoryDisk } from '../util/memory-disk.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { type Folder, makeFolder } from './folder.ts'

const PASSWORD = 'the-password-of-a-webhook'
const CHILD = fileURLToPath(new URL('./crash_child.js', import.meta.url))

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

/** Fills the folder with a secret of each kind. Returns the texts that no file may have. */
async function fill(): Promise<string[]> {
  const { catalog, admin } = await folder.open()
  const basicAuth = { username: 'user-of-a-webhook', password: PASSWORD }
  await catalog.change(createWebhookSource({ uniqueName: 'closed', basicAuth }, 'APP1'))
  const secrets = [
    must(admin, 'admin').clientSecret,
    PASSWORD,
    ...catalog.read.signingKeys().map(key => key.secret),
  ]
  await folder.stop()
  return secrets
}

/** The secrets that the bytes of the catalog's file have. */
function found(secrets: readonly string[]): string[] {
  const bytes = readFileSync(join(folder.paths.catalog, 'data.mdb'))
  return secrets.filter(secret => bytes.includes(secret))
}

/** Writes the catalog as earlier versions did, all documents plain. */
async function makePlain(): Promise<void> {
  const entries = await readStore(folder.paths.catalog)
  unlinkSync(join(folder.paths.catalog, 'data.mdb'))
  const db = open<unknown, string>({ path: folder.paths.catalog, encoding: 'json', noSubdir: false })
  db.transactionSync(() => {
    for (const [key, value] of entries) db.putSync(key, value)
  })
  await db.close()
  unlinkSync(folder.paths.secretKey)
}

describe('a new folder', () => {
  test('has a key that only its owner reads, and no secret in the catalog', async () => {
    const secrets = await fill()
    expect(readFileSync(folder.paths.secretKey)).toHaveLength(32)
    expect(statSync(folder.paths.secretKey).mode & 0o777).toBe(0o600)
    expect(secrets).toHaveLength(3)
    expect(found(secrets)).toEqual([])
    expect(found(['closed'])).toEqual(['closed']) // the search finds what is there
  })

  test('opens with the same documents again, and with a key of a wrong mode', async () => {
    await fill()
    const before = [...(await readStore(folder.paths.catalog))]
    chmodSync(folder.paths.secretKey, 0o644)
    const { catalog } = await folder.open()
    expect(new Map(catalog.read.documents())).toEqual(new Map(before))
    expect(catalog.read.sources.byName('closed')?.basicAuth?.password).toBe(PASSWORD)
    expect(statSync(folder.paths.secretKey).mode & 0o777).toBe(0o600)
  })

  test('keeps its key where the first start was killed before the first document', async () => {
    makeKey()
    const key = readFileSync(folder.paths.secretKey)
    await fill()
    expect(readFileSync(folder.paths.secretKey)).toEqual(key)
  })
})

describe('a folder of an earlier version', () => {
  test('is sealed at its first start, without a rest of the plain text', async () => {
    const secrets = await fill()
    await makePlain()
    expect(found(secrets)).toEqual(secrets)
    const { catalog } = await folder.open()
    expect(catalog.read.sources.byName('closed')?.basicAuth?.password).toBe(PASSWORD)
    await folder.stop()
    expect(found(secrets)).toEqual([])
    expect(readdirSync(folder.root).filter(name => name.startsWith('catalog'))).toEqual(['catalog'])
    await folder.open()
  })

  test('is sealed by the next start where the first one was killed', async () => {
    const secrets = await fill()
    await makePlain()
    const { signal } = spawnSync(process.execPath, [CHILD, folder.root, 'catalog.sealed', ''])
    expect(signal).toBe('SIGKILL')
    expect(found(secrets)).toEqual(secrets)
    expect(existsSync(`${folder.paths.catalog}.new`)).toBe(true)
    const { catalog } = await folder.open()
    expect(catalog.read.sources.byName('closed')?.basicAuth?.password).toBe(PASSWORD)
    await folder.stop()
    expect(found(secrets)).toEqual([])
    expect(existsSync(`${folder.paths.catalog}.new`)).toBe(false)
  })

  test('is read without a key, and not changed by reading', async () => {
    const secrets = await fill()
    await makePlain()
    await readStore(folder.paths.catalog)
    expect(found(secrets)).toEqual(secrets)
    expect(existsSync(folder.paths.secretKey)).toBe(false)
  })
})

describe('a key that does not fit', () => {
  test.each([
    ['is missing', () => unlinkSync(folder.paths.secretKey), /secret\.key .* it is missing, and the secrets/],
    [
      'is another one',
      () => writeFileSync(folder.paths.secretKey, randomBytes(32)),
      /secret\.key .* it is not the key/,
    ],
    ['is short', () => writeFileSync(folder.paths.secretKey, randomBytes(31)), /secret\.key .* 31 bytes/],
    ['is empty', () => writeFileSync(folder.paths.secretKey, ''), /secret\.key .* 0 bytes/],
  ])('is named: it %s', async (_, damage, message) => {
    await fill()
    const key = readFileSync(folder.paths.secretKey)
    damage()
    await expect(folder.open()).rejects.toMatchObject({
      name: 'Damaged',
      message: expect.stringMatching(message),
    })
    await expect(readStore(folder.paths.catalog)).rejects.toMatchObject({
      message: expect.stringMatching(message),
    })
    writeFileSync(folder.paths.secretKey, key)
    await folder.open()
  })

  test('is never made anew over sealed documents', async () => {
    await fill()
    renameSync(folder.paths.secretKey, `${folder.paths.secretKey}.away`)
    await expect(folder.open()).rejects.toThrow()
    expect(existsSync(folder.paths.secretKey)).toBe(false)
  })
})

describe('a sealed document', () => {
  const key = randomBytes(32)
  const plain: Entry = ['application/A', { id: 'A', secret: 'x', scopes: ['admin'] }]

  test('opens to what it was, and has another text each time', () => {
    const [once, again] = [sealEntry(plain, key), sealEntry(plain, key)]
    expect([isPlain(plain), isPlain(once), isSealed(plain), isSealed(once)]).toEqual([
      true,
      false,
      false,
      true,
    ])
    expect(once[1]).toEqual({ id: 'A', scopes: ['admin'], sealed: expect.stringMatching(/^v1\.[\w-]+$/) })
    expect(once).not.toEqual(again)
    for (const sealed of [once, again]) expect(openEntry(sealed, key)).toEqual(plain)
  })

  test('has no secret where there is none to seal', () => {
    const open: Entry = ['source/S', { id: 'S', basicAuth: null }]
    expect(sealEntry(open, key)).toEqual(open)
    expect(sealEntry(['pool/P', { secret: 'a column' }], key)).toEqual(['pool/P', { secret: 'a column' }])
  })

  test('does not open as another document, with another key or changed anywhere', () => {
    const [, value] = sealEntry(plain, key)
    expect(openEntry(['application/B', value], key)).toBeUndefined()
    expect(openEntry(['application/A', value], randomBytes(32))).toBeUndefined()
    const { sealed } = value as { readonly sealed: string }
    const bytes = Buffer.from(sealed.slice(3), 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at]! ^= 1
      const text = `v1.${changed.toString('base64url')}`
      expect(openEntry(['application/A', { sealed: text }], key), `byte ${at}`).toBeUndefined()
    }
    for (const text of [
      '',
      'v1.',
      'v2.abcd',
      sealed.slice(0, -8),
      `v1.${bytes.subarray(0, 20).toString('base64url')}`,
    ])
      expect(openEntry(['application/A', { sealed: text }], key)).toBeUndefined()
  })

  test('that was exchanged in the file is damage that names it', async () => {
    await fill()
    const db = open<Record<string, unknown>, string>({
      path: folder.paths.catalog,
      encoding: 'json',
      noSubdir: false,
    })
    const source = must(
      [...db.getRange({})].find(
        ({ key, value }) => key.startsWith('source/') && value['sealed'] !== undefined,
      ),
      'a sealed source',
    )
    await db.put(source.key, { ...source.value, sealed: db.get(applicationKey(db))?.['sealed'] })
    await db.close()
    await expect(folder.open()).rejects.toMatchObject({
      name: 'Damaged',
      message: expect.stringContaining(source.key),
    })
  })
})

function applicationKey(db: { getRange(options: object): Iterable<{ key: string }> }): string {
  return must(
    [...db.getRange({})].find(({ key }) => key.startsWith('application/')),
    'an application',
  ).key
}

test('a key survives a power cut once it was made, or is not there', () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  for (let round = 0; round < 50; round++) {
    const disk = new MemoryDisk()
    disk.mkdir('/data')
    syncFolder(disk, '/')
    const key = makeSecretKey('/data/secret.key', disk)
    const after = disk.cut(random)
    expect(readSecretKey('/data/secret.key', after), `seed ${seed}`).toEqual(new Uint8Array(key))
  }
})

function makeKey(): void {
  writeFileSync(folder.paths.secretKey, randomBytes(32), { mode: 0o600 })
}

test('a store that cannot be opened is closed again', async () => {
  await fill()
  unlinkSync(folder.paths.secretKey)
  for (let time = 0; time < 3; time++)
    await expect(openStore(folder.paths.catalog)).rejects.toThrow(/secret\.key/)
})
