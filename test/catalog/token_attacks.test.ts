/**
 * Tokens that nobody was given, and requests for tokens that say more than they may: no attempt
 * gets through, and none is answered with an error of ours.
 */
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { POLICY_VALUES_BYTES_MAX } from '../../src/catalog/access/policy-values.ts'
import { createTokens, type Identity, type Tokens } from '../../src/catalog/access/token.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import {
  createApplication,
  deleteApplication,
  modifyApplication,
  rotateSecret,
  rotateSigningKey,
  SIGNING_KEYS_MAX,
} from '../../src/catalog/change/change-application.ts'
import type { Application, Scope, SigningKey } from '../../src/catalog/documents/model.ts'
import { must } from '../../src/util/errors.ts'
import { TOKENS_REMEMBERED_MAX } from '../../src/util/limits.ts'
import { type Folder, makeFolder } from './folder.ts'

const ADDRESS = '192.0.2.1'
const HOUR_MS = 3_600_000

let folder: Folder
let catalog: Catalog
let tokens: Tokens
let nowMs: number
let application: Application

beforeEach(async () => {
  folder = makeFolder()
  catalog = (await folder.open()).catalog
  nowMs = Date.now()
  tokens = createTokens({
    application: id => catalog.application(id),
    signingKeys: () => catalog.read.signingKeys(),
    nowMs: () => nowMs,
  })
  const made = await catalog.change(
    createApplication({ uniqueName: 'small', scopes: ['metric:query', 'data_pool:query'] }, 'system'),
  )
  if ('badRequest' in made) throw new Error(made.badRequest)
  application = made
})
afterEach(() => {
  vi.restoreAllMocks()
  return folder.remove()
})

interface Answer {
  readonly status: number
  readonly access_token?: string
  readonly error?: string
  readonly error_description?: string
  readonly scope?: string
}

async function ask(more: Record<string, string> | string): Promise<Answer> {
  const body = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: application.id,
    client_secret: application.secret,
    ...(typeof more === 'string' ? {} : more),
  })
  const text = typeof more === 'string' ? `${body}&${more}` : body.toString()
  const reply = await tokens.token({
    address: ADDRESS,
    authorization: undefined,
    contentType: 'application/x-www-form-urlencoded',
    body: Buffer.from(text),
  })
  return { status: reply.status, ...(JSON.parse(reply.body) as object) }
}

async function given(more: Record<string, string> = {}): Promise<string> {
  return must((await ask(more)).access_token, 'a token')
}

const bearer = (token: string) => tokens.verify(`Bearer ${token}`, ADDRESS)
const REFUSED = { status: 401, code: 'token_invalid' }

async function accepted(token: string): Promise<Identity> {
  const identity = await bearer(token)
  if ('status' in identity) throw new Error(identity.message)
  return identity
}

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A token of these parts, signed with HS256 and `secret` (base64url). */
function forge(header: object, claims: object, secret: string): string {
  const text = `${part(header)}.${part(claims)}`
  return `${text}.${createHmac('sha256', Buffer.from(secret, 'base64url')).update(text).digest('base64url')}`
}

const readPart = (token: string, index: number) =>
  JSON.parse(Buffer.from(token.split('.')[index]!, 'base64url').toString()) as Record<string, unknown>
const newestKey = (): SigningKey => must(catalog.read.signingKeys()[0], 'a key')

describe('a token', () => {
  test('of another algorithm is refused, whoever signed it', async () => {
    const token = await given()
    const [head, claims] = [readPart(token, 0), readPart(token, 1)]
    const text = (alg: string) => `${part({ ...head, alg })}.${part(claims)}`
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const rsa = sign('sha256', Buffer.from(text('RS256')), privateKey).toString('base64url')
    const key = Buffer.from(newestKey().secret, 'base64url')
    const hmac = (alg: string, hash: string) =>
      `${text(alg)}.${createHmac(hash, key).update(text(alg)).digest('base64url')}`
    for (const bad of [
      `${text('none')}.`,
      `${text('None')}.`,
      `${text('none')}.${token.split('.')[2]}`,
      `${text('RS256')}.${rsa}`,
      hmac('HS512', 'sha512'),
      hmac('HS384', 'sha384'),
      hmac('hs256', 'sha256'),
      forge({ ...head, crit: ['exp'] }, claims, newestKey().secret),
      forge({ ...head, b64: false, crit: ['b64'] }, claims, newestKey().secret),
    ])
      expect(await bearer(bad), bad).toMatchObject(REFUSED)
    expect(await bearer(forge(head, claims, newestKey().secret))).toMatchObject({
      verifyAgain: expect.any(Function),
      applicationId: application.id,
    })
  })

  test('of a key that is not ours is refused, whatever its head names', async () => {
    const token = await given()
    const claims = readPart(token, 1)
    const foreign = Buffer.alloc(32, 7).toString('base64url')
    const { kid } = newestKey()
    const jwk = { kty: 'oct', k: foreign }
    for (const head of [
      { alg: 'HS256', kid },
      { alg: 'HS256' },
      { alg: 'HS256', kid: '' },
      { alg: 'HS256', kid: '../../secret.key' },
      { alg: 'HS256', kid: '__proto__' },
      { alg: 'HS256', kid: { toString: 'x' } },
      { alg: 'HS256', kid, jwk },
      { alg: 'HS256', kid, jku: 'http://127.0.0.1:1/keys' },
    ])
      expect(await bearer(forge(head, claims, foreign)), JSON.stringify(head)).toMatchObject(REFUSED)
    expect(await bearer(forge({ alg: 'HS256', kid }, claims, ''))).toMatchObject(REFUSED)
  })

  test('that lacks a claim, or has one of another type, is refused', async () => {
    const { kid, secret } = newestKey()
    const claims = readPart(await given(), 1)
    const bad: object[] = ['sub', 'iat', 'exp', 'scope', 'secret', 'iss'].map(name => ({
      ...claims,
      [name]: undefined,
    }))
    bad.push(
      ...[
        { sub: ['a'] },
        { sub: 'nobody' },
        { sub: '__proto__' },
        { scope: ['admin'] },
        { scope: { includes: 1 } },
        { secret: '' },
        { secret: null },
        { iss: 'other' },
        { exp: 'never' },
        { iat: 'now' },
        { nbf: 9e9 },
      ].map(change => ({ ...claims, ...change })),
    )
    for (const one of bad)
      expect(await bearer(forge({ alg: 'HS256', kid }, one, secret)), JSON.stringify(one)).toMatchObject(
        REFUSED,
      )
  })

  test('ends after an hour, and one from the future is none', async () => {
    const token = await given()
    nowMs += HOUR_MS - 1_000
    await accepted(token)
    nowMs += 1_000
    expect(await bearer(token)).toMatchObject(REFUSED)
    // The clock was two hours ahead, and was set right.
    nowMs += 2 * HOUR_MS
    const ahead = await given()
    await accepted(ahead)
    nowMs -= 299_000
    await accepted(ahead) // a small step of the clock, or another node whose clock is late
    nowMs -= 2 * HOUR_MS
    expect(await bearer(ahead)).toMatchObject(REFUSED)
  })

  test('that is huge, empty or not text is refused at once', async () => {
    const token = await given()
    for (const bad of [
      `${token}${'a'.repeat(1e6)}`,
      'a'.repeat(1e6),
      '.',
      '..',
      '...',
      `${'.'.repeat(5000)}`,
      '\0',
    ])
      expect(await bearer(bad)).toMatchObject({ status: 401 })
  })

  test('ends with its application, and with its secret', async () => {
    const first = await given()
    const rotated = await catalog.change(rotateSecret({ id: application.id }, 'system'))
    expect(await bearer(first)).toMatchObject(REFUSED)
    expect(await ask({})).toMatchObject({ status: 401, error: 'invalid_client' })
    application = rotated as Application
    const second = await given()
    await accepted(second)
    await catalog.change(deleteApplication({ id: application.id }, 'system'))
    expect(await bearer(second)).toMatchObject(REFUSED)
    expect(await ask({})).toMatchObject({ status: 401, error: 'invalid_client' })
  })
})

describe('a token that was verified', () => {
  /** The number of signatures that are checked. */
  const checks = () => vi.spyOn(globalThis.crypto.subtle, 'verify')

  test('is not verified again, and means the same to its next request', async () => {
    const token = await given({ scope: 'metric:query', policy_values: '{"tenant":"a"}' })
    const checked = checks()
    const first = await accepted(token)
    expect(await accepted(token)).toBe(first)
    expect(first).toMatchObject({ scopes: new Set(['metric:query']), policyValues: { tenant: 'a' } })
    expect(checked).toHaveBeenCalledTimes(1)
    expect(await bearer(`${token}x`)).toMatchObject(REFUSED)
    expect(await bearer(token.slice(0, -1))).toMatchObject(REFUSED)
  })

  test('is verified once for requests that come together', async () => {
    const token = await given()
    const checked = checks()
    const together = await Promise.all(Array.from({ length: 50 }, () => accepted(token)))
    expect(new Set(together).size).toBe(1)
    expect(checked).toHaveBeenCalledTimes(1)
  })

  test('whose key ends while it is verified is refused to a request that came after', async () => {
    const token = await given()
    let keys = catalog.read.signingKeys()
    const own = createTokens({
      application: id => catalog.application(id),
      signingKeys: () => keys,
      nowMs: () => nowMs,
    })
    let go = () => {}
    const held = new Promise<void>(resolve => (go = resolve))
    const verify = globalThis.crypto.subtle.verify.bind(globalThis.crypto.subtle)
    const checked = checks().mockImplementationOnce(async (...args: Parameters<typeof verify>) => {
      await held
      return await verify(...args)
    })
    const before = own.verify(`Bearer ${token}`, ADDRESS)
    while (checked.mock.calls.length === 0) await new Promise(setImmediate)
    keys = [{ ...newestKey(), kid: 'another' }]
    const after = own.verify(`Bearer ${token}`, ADDRESS)
    go()
    expect(await after).toMatchObject(REFUSED)
    await before
    expect(await own.verify(`Bearer ${token}`, ADDRESS)).toMatchObject(REFUSED)
  })

  const change = (decide: Parameters<Catalog['change']>[0]) => catalog.change(decide)
  test.each<[string, (id: string) => unknown]>([
    ['its hour', () => (nowMs += HOUR_MS)],
    ['a clock that is set back', () => (nowMs -= 301_000)],
    ['the secret of its application', id => change(rotateSecret({ id }, 'system'))],
    ['its application', id => change(deleteApplication({ id }, 'system'))],
    ['its key', () => change(rotateSigningKey(true))],
  ])('ends with %s', async (_, end) => {
    const token = await given()
    await accepted(token)
    await accepted(token)
    await end(application.id)
    expect(await bearer(token)).toMatchObject(REFUSED)
    expect(await bearer(token)).toMatchObject(REFUSED)
  })

  test('loses and gets scopes with its application, and outlives a new key for an hour', async () => {
    const token = await given()
    expect((await accepted(token)).scopes.size).toBe(2)
    const scopes = async (...now: Scope[]) => {
      await change(modifyApplication({ id: application.id }, { scopes: now }, 'system'))
      return [...(await accepted(token)).scopes]
    }
    expect(await scopes('metric:query')).toEqual(['metric:query'])
    expect(await scopes('metric:query', 'data_pool:query')).toHaveLength(2)
    await change(rotateSigningKey(false))
    expect((await accepted(token)).applicationId).toBe(application.id)
  })

  test('is forgotten when too many others came after it', async () => {
    const made: string[] = []
    for (let seconds = 1; made.length <= TOKENS_REMEMBERED_MAX; seconds += 1)
      made.push(must(await tokens.tokenFor(application.id, 100 + seconds), 'a token'))
    const [first = '', second = '', ...others] = made
    for (const token of [second, first, ...others]) await accepted(token)
    const checked = checks()
    await accepted(first)
    expect(checked).toHaveBeenCalledTimes(0)
    await accepted(second)
    expect(checked).toHaveBeenCalledTimes(1)
  })
})

describe('signing keys', () => {
  const rotate = async (endTokens = false) => {
    const rotated = await catalog.change(rotateSigningKey(endTokens))
    if ('badRequest' in rotated) throw new Error(rotated.badRequest)
    return rotated
  }
  /** The catalog's clock is the wall clock, so keys are made at its time. */
  const wait = (ms: number) => {
    nowMs += ms
  }

  test('the newest signs, and an older one verifies until its last token has expired', async () => {
    const old = newestKey()
    const before = await given()
    const { kid } = await rotate()
    expect(readPart(before, 0)['kid']).toBe(old.kid)
    const after = await given()
    expect(readPart(after, 0)['kid']).toBe(kid)
    await accepted(before)
    wait(HOUR_MS - 60_000)
    await accepted(before)
    wait(120_000)
    const now = Math.floor(nowMs / 1000)
    const claims = { ...readPart(before, 1), iat: now, exp: now + 3600 }
    // Whoever has copied the old key makes tokens with dates of their own.
    expect(await bearer(forge({ alg: 'HS256', kid: old.kid }, claims, old.secret))).toMatchObject(REFUSED)
    expect(await bearer(forge({ alg: 'HS256', kid }, claims, old.secret))).toMatchObject(REFUSED)
    await accepted(await given())
  })

  test('can end all tokens at once', async () => {
    const before = await given()
    expect(await rotate(true)).toMatchObject({ ended: 1 })
    expect(await bearer(before)).toMatchObject(REFUSED)
    expect(catalog.read.signingKeys()).toHaveLength(1)
    await accepted(await given())
  })

  test('stay after a restart, and are bounded', async () => {
    const before = await given()
    for (let made = 1; made < SIGNING_KEYS_MAX; made++) await rotate()
    const refused = await catalog.change(rotateSigningKey(false))
    expect(refused).toEqual({ badRequest: expect.stringMatching(/which is the limit/) })
    const known = catalog.read.signingKeys()
    expect(new Set(known.map(key => key.createdAt)).size).toBe(SIGNING_KEYS_MAX)
    await folder.stop()
    catalog = (await folder.open()).catalog
    expect(catalog.read.signingKeys()).toEqual(known)
    await accepted(before)
    expect(await rotate(true)).toMatchObject({ ended: SIGNING_KEYS_MAX })
  })

  test('a key of an earlier version has no name, and still verifies', async () => {
    const { secret } = newestKey()
    const old: SigningKey = { kid: '', secret, createdAt: new Date(0).toISOString() }
    const both = createTokens({
      application: id => catalog.application(id),
      signingKeys: () => [old],
      nowMs: () => nowMs,
    })
    const claims = readPart(await given(), 1)
    const token = forge({ alg: 'HS256', typ: 'JWT' }, claims, secret)
    expect(await both.verify(`Bearer ${token}`, ADDRESS)).toMatchObject({ applicationId: application.id })
  })
})

describe('scopes', () => {
  test('are those of the application, whatever the request says', async () => {
    expect((await ask({})).scope).toBe('metric:query data_pool:query')
    for (const scope of [
      'admin',
      'metric:query admin',
      'METRIC:QUERY',
      'metric:query\tadmin',
      'metric:*',
      'constructor',
    ])
      expect(await ask({ scope }), scope).toMatchObject({ status: 400, error: 'invalid_scope' })
    expect(await ask('scope=metric:query&scope=admin')).toMatchObject({
      status: 400,
      error: 'invalid_request',
    })
    expect((await ask({ scope: ' metric:query  metric:query ' })).scope).toBe('metric:query')
  })

  test('shrink with the application, and never grow in a token', async () => {
    const one = await given({ scope: 'metric:query' })
    const all = await given()
    await catalog.change(
      modifyApplication({ id: application.id }, { scopes: ['metric:query', 'admin'] }, 'system'),
    )
    expect((await accepted(one)).scopes).toEqual(new Set(['metric:query']))
    expect((await accepted(all)).scopes).toEqual(new Set(['metric:query']))
  })
})

describe('policy values', () => {
  const askValues = (text: string) => ask({ policy_values: text })

  test('are carried to the caller as they were given', async () => {
    const values = {
      tenant_id: "1' OR 1=1 --",
      count: -2.5,
      flag: false,
      empty: '',
      'a"b': '{{ other }}',
      größe: '\u{1F600}\0',
    }
    const identity = await accepted(await given({ policy_values: JSON.stringify(values) }))
    expect({ ...identity.policyValues }).toEqual(values)
    expect((await accepted(await given())).policyValues).toBeUndefined()
    expect((await accepted(await given({ policy_values: '' }))).policyValues).toBeUndefined()
    expect((await accepted(await given({ policy_values: '{}' }))).policyValues).toEqual({})
  })

  test('have no prototype, so a name is there or not', async () => {
    const text = '{"__proto__":"p","constructor":"c","toString":"t"}'
    const values = must((await accepted(await given({ policy_values: text }))).policyValues, 'values')
    expect(Object.entries(values)).toEqual([
      ['__proto__', 'p'],
      ['constructor', 'c'],
      ['toString', 't'],
    ])
    const none = must((await accepted(await given({ policy_values: '{}' }))).policyValues, 'values')
    for (const name of ['__proto__', 'constructor', 'hasOwnProperty']) expect(none[name]).toBeUndefined()
    expect(Object.isFrozen(none)).toBe(true)
  })

  test.each([
    ['null', /must be a JSON object/],
    ['[]', /must be a JSON object/],
    ['"a"', /must be a JSON object/],
    ['1', /must be a JSON object/],
    ['{', /not JSON/],
    ['{"a":"b"} x', /not JSON/],
    ['{"a":{"b":"c"}}', /must be a text, a number/],
    ['{"a":["b"]}', /must be a text, a number/],
    ['{"a":null}', /must be a text, a number/],
    ['{"":"b"}', /1 to 128 characters/],
    [`{"${'n'.repeat(129)}":1}`, /1 to 128 characters/],
    [`{"a":"${'v'.repeat(513)}"}`, /more than 512 characters/],
    ['{"a":9007199254740993}', /send it as a text/],
    ['{"a":12345678901234567890}', /send it as a text/],
    ['{"a":1e999}', /send it as a text/],
    ['{"tenant":"mine","tenant":"other"}', /same name twice/],
    ['{"tenant":"mine","t\\u0065nant":"other"}', /same name twice/],
    ['{"a":"\\"","b":":","a":"\\\\"}', /same name twice/],
    ['{"a":"\\ud800"}', /surrogate/],
    [
      JSON.stringify(Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`n${i}`, i]))),
      /more than 32 values/,
    ],
    [JSON.stringify({ a: 'é'.repeat(POLICY_VALUES_BYTES_MAX / 2) }), /more than 1024 bytes/],
    [`${'['.repeat(500)}${']'.repeat(500)}`, /must be a JSON object/],
  ])('are refused: %s', async (text, message) => {
    const answer = await askValues(text)
    expect(answer).toMatchObject({ status: 400, error: 'invalid_request' })
    expect(answer.error_description).toMatch(message)
  })

  test('are taken where quotes, colons and escapes stand in texts', async () => {
    const text = '{ "a\\"b:" : ":\\\\" , "c" : "}{\\"", "d":9007199254740991 }'
    const { policyValues } = await accepted(await given({ policy_values: text }))
    expect({ ...policyValues }).toEqual({ 'a"b:': ':\\', c: '}{"', d: 9007199254740991 })
  })

  test('given twice are refused, and the largest fit into a header', async () => {
    expect(await ask('policy_values=%7B%7D&policy_values=%7B%7D')).toMatchObject({ status: 400 })
    const text = JSON.stringify({ a: 'x'.repeat(500), b: 'y'.repeat(POLICY_VALUES_BYTES_MAX - 516) })
    expect(text.length).toBeLessThanOrEqual(POLICY_VALUES_BYTES_MAX)
    await accepted(await given({ policy_values: text }))
  })

  test('cannot be changed in a token', async () => {
    const token = await given({ policy_values: '{"tenant":"mine"}' })
    const [head, , signature] = token.split('.')
    const claims = { ...readPart(token, 1), policy_values: { tenant: 'other' } }
    expect(await bearer(`${head}.${part(claims)}.${signature}`)).toMatchObject(REFUSED)
  })
})
