/**
 * The rules for a webhook's sender settings: accepted and refused in pairs, filled by presets,
 * changed later, and kept sealed.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Decide } from '../../src/catalog/change/change.ts'
import { createAddColumnJob, startAddColumn } from '../../src/catalog/change/change-add-column.ts'
import {
  createWebhookSource,
  keepHandedSecret,
  modifySource,
  type SourceChange,
} from '../../src/catalog/change/change-source.ts'
import type { ColumnInput, NewWebhookSource, Target } from '../../src/catalog/documents/catalog-types.ts'
import { keys, Memory } from '../../src/catalog/documents/memory.ts'
import type { DataSource } from '../../src/catalog/documents/model.ts'
import { PRESET_NAMES, PRESETS } from '../../src/catalog/presets.ts'
import { created, makeFolder } from './folder.ts'

let memory: Memory
beforeEach(() => {
  memory = new Memory()
  memory.apply({ puts: [[keys.meta, { format: 1, nextPoolNumber: 1 }]], removes: [] })
})

/** Runs a change as the catalog does, in memory. */
function change<T>(decide: Decide<T>): T | { readonly badRequest: string } {
  const decision = decide(memory, 0)
  if ('badRequest' in decision) return decision
  memory.apply(decision)
  return decision.result
}

const schemaOf = (pool: number, version: number) => memory.schema(pool, version)?.schema

function openFolder() {
  const folder = makeFolder()
  onTestFinished(() => folder.remove())
  return folder
}

const SECRET = 'a-secret-of-the-sender-1'

const create = (input: NewWebhookSource) => change(createWebhookSource(input, 'APP1'))
const made = (input: NewWebhookSource): Target => created(create(input))

function verdict(input: NewWebhookSource): string {
  const answer = create(input)
  return 'badRequest' in answer ? answer.badRequest : 'ok'
}

function modify({ id }: DataSource, input: SourceChange): DataSource | string {
  const answer = change(modifySource('WEBHOOK', { id }, input, 'APP2'))
  if (answer === null) return 'absent'
  return 'badRequest' in answer ? answer.badRequest : answer
}

const column = (jsonProperty: string, type = 'STRING', coerce?: boolean): ColumnInput => ({
  name: 'c',
  jsonProperty,
  type,
  nullable: true,
  coerce,
})

describe('columns', () => {
  const OK = /^ok$/
  const pairs: readonly [good: ColumnInput, bad: ColumnInput, message: RegExp][] = [
    [column('a.b'), column('$.a.b'), /begins with "\$\.".* no eventsPath: of the event itself write "a\.b"/],
    [column('$header.x-id'), column('$header.'), /names no header/],
    [column('$header.x-id'), column('$header.x id'), /names no header/],
    [column('$query.shop'), column('$query.'), /names no header or parameter/],
    [column('$header.x-id'), column('$header.x-id', 'JSON'), /cannot be JSON/],
    [column('$query.n', 'INT64', true), column('$query.n', 'INT64'), /coerce, or the type STRING/],
    [column('$query.n', 'DOUBLE', true), column('$query.n', 'DOUBLE', false), /coerce/],
    [column('$header.f', 'BOOLEAN', true), column('$header.f', 'BOOLEAN'), /coerce/],
    [column('$header.at', 'TIMESTAMP'), column('$header.at', 'FLOAT'), /coerce/],
    [column('a', 'STRING', true), column('a', 'JSON', true), /JSON, which coerce/],
    [column('a', 'JSON', false), column('a', 'JSON', true), /coerce/],
  ]
  test.each(pairs)('%j is taken, %j is refused', (good, bad, message) => {
    expect(verdict({ columns: [good] })).toMatch(OK)
    expect(verdict({ columns: [bad] })).toMatch(message)
  })

  test('the schema has the facts of each property, and plain columns have none', () => {
    const { pool } = made({
      columns: [
        { ...column('a.b'), name: 'plain' },
        { ...column('items[0].sku'), name: 'element' },
        { ...column('$header.X-Id'), name: 'header' },
        { ...column('price', 'DOUBLE', true), name: 'price' },
        { ...column('$path'), name: 'path', nullable: false },
      ],
    })
    const shared = { type: 'STRING', required: false }
    expect(memory.currentSchema(pool).columns).toEqual([
      { ...shared, name: 'plain', jsonProperty: 'a.b' },
      { ...shared, name: 'element', jsonProperty: 'items[0].sku', path: ['items', 0, 'sku'] },
      { ...shared, name: 'header', jsonProperty: '$header.X-Id', from: 'request' },
      { name: 'price', type: 'DOUBLE', jsonProperty: 'price', coerce: true, required: false },
      { ...shared, name: 'path', jsonProperty: '$path', from: 'request', required: true },
    ])
  })

  test('a column of an earlier version keeps its meaning, also beside an added one', () => {
    const { pool } = made({ uniqueName: 'older' })
    const columns = [{ name: 'old', jsonProperty: '$header.x', type: 'INT64', nullable: true }]
    const plan = keys.schema(pool.number, 1)
    const older = memory.documents().filter(([key]) => key === keys.pool(pool.id) || key === plan)
    expect(older).toHaveLength(2)
    memory.apply({ puts: older.map(([key, one]) => [key, { ...(one as object), columns }]), removes: [] })
    const input = { dataPool: pool.id, columnType: 'INT64' }
    const refused = change(
      createAddColumnJob({ ...input, columnName: 'n', jsonProperty: '$query.n' }, 'APP1'),
    )
    expect(refused).toMatchObject({ badRequest: expect.stringMatching(/coerce/) })
    const job = change(
      createAddColumnJob({ ...input, columnName: 'n', jsonProperty: '$query.n', coerce: true }, 'APP1'),
    )
    if (job === null || 'badRequest' in job) throw new Error(JSON.stringify(job))
    change(startAddColumn(job.id, 1))
    expect(memory.currentSchema(memory.pools.get(pool.id)!).columns).toEqual([
      { name: 'old', jsonProperty: '$header.x', type: 'INT64', required: false },
      {
        name: 'n',
        jsonProperty: '$query.n',
        type: 'INT64',
        required: false,
        from: 'request',
        coerce: true,
      },
    ])
  })
})

describe('eventsPath', () => {
  test.each([
    ['records', '.records'],
    ['data.items', 'data..items'],
    ['data.items', 'data.items.'],
    ['a', '$.a'],
    ['a[b]', 'a[0]'],
    ['a.b', 'a[].b'],
    ['x'.repeat(1024), 'x'.repeat(1025)],
    ['a', 'a\u0000'],
    ['a', 'a\ud800'],
  ])('%j is taken, %j is refused', (good, bad) => {
    expect(verdict({ eventsPath: good })).toBe('ok')
    expect(verdict({ eventsPath: bad })).toMatch(/eventsPath/)
  })

  test('belongs to the schema, also after a column was added, and cannot be changed', () => {
    const { pool, source } = made({ eventsPath: 'data.items' })
    const plain = made({ eventsPath: '' })
    expect(schemaOf(plain.pool.number, 1)).not.toHaveProperty('eventsPath')
    expect(schemaOf(pool.number, 1)?.eventsPath).toBe('data.items')
    const input = { dataPool: pool.id, columnName: 'n', columnType: 'INT64', jsonProperty: 'n' }
    const job = change(createAddColumnJob(input, 'APP1'))
    if (job === null || 'badRequest' in job) throw new Error(JSON.stringify(job))
    change(startAddColumn(job.id, 1))
    expect(schemaOf(pool.number, 2)?.eventsPath).toBe('data.items')
    expect(modify(source, { eventsPath: 'data.items', description: 'same' })).toHaveProperty('id')
    expect(modify(source, { eventsPath: 'other' })).toMatch(/cannot be changed from "data.items"/)
    expect(modify(plain.source, { eventsPath: 'other' })).toMatch(/cannot be changed/)
  })
})

describe('signatures', () => {
  const github = { scheme: 'GITHUB', secrets: [SECRET] } as const
  const generic = { scheme: 'GENERIC_HMAC', secrets: [SECRET], header: 'X-Sig' } as const
  const pairs: readonly [NewWebhookSource['signature'], NewWebhookSource['signature'], RegExp][] = [
    [github, { ...github, secrets: [] }, /needs a secret/],
    [github, { ...github, secrets: [''] }, /secrets\[0\] is empty/],
    [github, { ...github, secrets: ['a', 'b', 'c', 'd', 'e', 'f'] }, /1 to 5/],
    [github, { secrets: [SECRET] }, /scheme is missing/],
    [github, { ...github, header: 'x-sig' }, /signature\.header is for GENERIC_HMAC/],
    [github, { ...github, toleranceSeconds: 60 }, /signs no time/],
    [generic, { ...generic, header: '' }, /header is missing/],
    [generic, { ...generic, header: 'x sig' }, /signature\.header is no name/],
    [generic, { ...generic, signed: '{timestamp}' }, /signature\.signed does not hold \{body\}/],
    [
      { ...generic, signed: '{timestamp}.{body}', timestampHeader: 'X-Time', toleranceSeconds: 60 },
      { ...generic, signed: '{timestamp}.{body}' },
      /timestampHeader is not given/,
    ],
  ]
  test.each(pairs)('%j is taken, %j is refused', (good, bad, message) => {
    expect(verdict({ signature: good })).toBe('ok')
    const refusal = verdict({ signature: bad })
    expect(refusal).toMatch(message)
    expect(refusal).not.toContain(SECRET)
  })

  test('GENERIC_HMAC has defaults, and names of headers have no case', () => {
    const { source } = made({ signature: generic })
    expect(source.sender?.signature).toEqual({
      scheme: 'GENERIC_HMAC',
      secrets: [SECRET],
      toleranceSeconds: null,
      generic: {
        header: 'x-sig',
        algorithm: 'SHA256',
        encoding: 'HEX',
        prefix: '',
        signed: '{body}',
        timestampHeader: null,
        idHeader: null,
      },
    })
  })
})

test('a webhook without such settings has a document as before', () => {
  for (const input of [{}, { accept: [], preset: '', verifyToken: '', eventsPath: '' }]) {
    const { source, pool } = made(input)
    expect(source).not.toHaveProperty('sender')
    expect(pool).not.toHaveProperty('eventsPath')
    expect(modify(source, { accept: [], preset: '' })).toEqual(source)
  }
})

describe('changes', () => {
  test('each part is changed alone, kept by null, and cleared', () => {
    const { source } = made({
      accept: ['FORM', 'PUT', 'FORM'],
      verifyToken: 'token',
      signature: { scheme: 'GITHUB', secrets: [SECRET] },
    })
    expect(source.sender?.accept).toEqual(['FORM', 'PUT'])
    const sender = (input: SourceChange) => {
      const changed = modify(source, input)
      if (typeof changed === 'string') throw new Error(changed)
      return changed.sender
    }
    expect(sender({ accept: null, signature: null, description: 'x' })).toEqual(source.sender)
    expect(sender({ accept: ['TEXT'] })).toMatchObject({ accept: ['TEXT'], verifyToken: 'token' })
    expect(sender({ signature: { secrets: ['next', SECRET] } })).toMatchObject({
      signature: { scheme: 'GITHUB', secrets: ['next', SECRET] },
    })
    expect(modify(source, { signature: { scheme: 'STRIPE' } })).toMatch(/STRIPE needs a secret/)
    expect(modify(source, { preset: 'GITHUP' })).toMatch(/no preset "GITHUP"\. GITHUB may be meant/)
    expect(sender({ preset: 'SLACK' })).toMatchObject({ preset: 'SLACK', signature: { scheme: 'GITHUB' } })
    expect(sender({ signatureEnabled: false })).toMatchObject({ signature: null })
    expect(sender({ accept: [], preset: '', verifyToken: '' })).toBe(null)
  })

  test('a generic signature keeps the parameters that a change leaves out', () => {
    const signature = { scheme: 'GENERIC_HMAC', secrets: [SECRET], header: 'x-sig', prefix: 'v1=' } as const
    const { source } = made({ signature })
    const changed = modify(source, { signature: { secrets: ['next'], encoding: 'BASE64' } })
    expect(changed).toMatchObject({
      sender: { signature: { generic: { header: 'x-sig', prefix: 'v1=', encoding: 'BASE64' } } },
    })
  })

  test('the secret that a sender hands over is the newest of at most five', () => {
    const { source } = made({ preset: 'ASANA', signatureEnabled: false })
    expect(source.sender?.signature).toBe(null)
    for (const secret of ['s1', 's2', 's3', 's4', 's5', 's6', 's2'])
      change(keepHandedSecret(source.id, secret, 'system'))
    expect(memory.sources.get(source.id)?.sender?.signature).toMatchObject({
      secrets: ['s2', 's6', 's5', 's4', 's3'],
      generic: { header: 'x-hook-signature' },
    })
    const plain = made({})
    expect(change(keepHandedSecret(plain.source.id, 's', 'system'))).toBe(null)
  })
})

describe('presets', () => {
  test.each(PRESET_NAMES)('%s fills the settings, with a secret of the operator or of the server', name => {
    const preset = PRESETS[name]
    if (preset.secret === 'SHOWN') {
      expect(verdict({ preset: name })).toMatch(/needs a secret.*signatureEnabled: false/)
    } else {
      const { source } = made({ preset: name })
      const secrets = source.sender?.signature?.secrets ?? []
      expect(secrets.length).toBe(preset.secret === 'OWN' ? 1 : 0)
      if (preset.secret === 'OWN') expect(secrets[0]).toMatch(/^[\w-]{43}$/)
    }
    const { source, pool } = made({ preset: name, signatureEnabled: false })
    expect(source.sender).toMatchObject({ preset: name, accept: preset.accept, signature: null })
    expect(pool.eventsPath ?? null).toBe(preset.eventsPath)
    expect(pool.columns.map(each => each.name)).toEqual(preset.columns.map(each => each.name))
    expect([pool.timestamp, pool.uniqueIdColumn]).toEqual([preset.timestamp, preset.uniqueId])
    expect(pool.key?.columns ?? null).toEqual(preset.orderBy)
    expect(source.sender?.verifyToken !== null).toBe(preset.handshakes.includes('META'))
  })

  test('what the caller gives is kept', () => {
    const secrets = [SECRET]
    const { source, pool } = made({
      preset: 'GITHUB',
      accept: ['PUT'],
      eventsPath: 'records',
      columns: [column('id')],
      uniqueId: 'c',
      signature: { secrets },
      verifyToken: 'token',
    })
    expect(source.sender).toEqual({
      accept: ['PUT'],
      preset: 'GITHUB',
      verifyToken: 'token',
      signature: { scheme: 'GITHUB', secrets, toleranceSeconds: null, generic: null },
    })
    expect(pool).toMatchObject({ eventsPath: 'records', uniqueIdColumn: 'c' })
    expect(pool.columns).toHaveLength(1)
    expect(pool).not.toHaveProperty('key')
  })

  test('another key goes with the columns of the preset', () => {
    const { pool } = made({ preset: 'GITHUB', uniqueId: 'hook_id' })
    expect(pool).toMatchObject({ uniqueIdColumn: 'hook_id', timestamp: null })
    expect(pool).not.toHaveProperty('key')
    expect(pool.columns).toHaveLength(PRESETS.GITHUB.columns.length)
  })

  test('a source whose preset a later version lacks can still be changed', () => {
    const { source } = made({ preset: 'DATADOG' })
    const older = { ...source, sender: { ...source.sender!, preset: 'GONE' } }
    memory.apply({ puts: [[keys.source(source.id), older]], removes: [] })
    expect(modify(source, { accept: ['PUT'] })).toMatchObject({ sender: { preset: 'GONE', accept: ['PUT'] } })
    expect(modify(source, { preset: 'OTHER' })).toMatch(/no preset "OTHER"/)
  })

  test('there are no others', () => {
    for (const preset of ['github', 'constructor', 'NOPE'])
      expect(verdict({ preset })).toMatch(/There is no preset/)
  })
})

test('no secret of a sender is plain on disk, and all are there after a restart', async () => {
  const folder = openFolder()
  const { catalog } = await folder.open()
  const input = {
    uniqueName: 'signed',
    verifyToken: 'token-of-a-sender',
    signature: { scheme: 'GITHUB', secrets: ['first-secret-of-a-sender', 'second-secret-of-a-sender'] },
  } as const
  const { source } = created(await catalog.change(createWebhookSource(input, 'APP1')))
  await folder.stop()
  const bytes = readFileSync(join(folder.paths.catalog, 'data.mdb'))
  expect(['signed', 'of-a-sender'].map(text => bytes.includes(text))).toEqual([true, false])
  const again = (await folder.open()).catalog
  expect(again.read.sources.get(source.id)).toEqual(source)
})
