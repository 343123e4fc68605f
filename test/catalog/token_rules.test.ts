import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createTokens, type TokenReply, type Tokens } from '../../src/catalog/access/token.ts'
import { SCOPES } from '../../src/catalog/documents/model.ts'
import { type Folder, makeFolder } from './folder.ts'

const FORM = 'application/x-www-form-urlencoded'
const ID = 'client-1'
const SECRET = 'p%25+ss/w=rd-and-more'
const ADDRESS = '192.0.2.1'
const GRANT = { grant_type: 'client_credentials' }
const BY_FORM = { ...GRANT, client_id: ID, client_secret: SECRET }

let folder: Folder
let tokens: Tokens
beforeEach(async () => {
  folder = makeFolder()
  tokens = createTokens((await folder.open({ clientId: ID, clientSecret: SECRET })).catalog)
})
afterEach(() => folder.remove())

function basic(id: string, secret: string, scheme = 'Basic'): string {
  return `${scheme} ${Buffer.from(`${id}:${secret}`).toString('base64')}`
}

function ask(
  form: Record<string, string> | string,
  authorization?: string,
  contentType = FORM,
): Promise<TokenReply> {
  const body = Buffer.from(new URLSearchParams(form).toString())
  return tokens.token({ address: ADDRESS, authorization, contentType, body })
}

async function check(reply: Promise<TokenReply>, status: number, error?: string): Promise<TokenReply> {
  const { status: got, body, headers } = await reply
  expect([got, JSON.parse(body).error]).toEqual([status, error])
  expect(headers['Cache-Control']).toBe('no-store')
  return { status: got, body, headers }
}

async function tokenFor(form: Record<string, string>): Promise<string> {
  const { body } = await check(ask(form), 200)
  return JSON.parse(body).access_token
}

describe('a token', () => {
  test('is given for form fields, in the shape that clients read', async () => {
    const { body } = await check(ask(BY_FORM), 200)
    expect(JSON.parse(body)).toEqual({
      access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      expires_in: 3600,
      token_type: 'Bearer',
      scope: SCOPES.join(' '),
    })
  })

  test('is given for HTTP Basic, as sent or URL-encoded', async () => {
    await check(ask(GRANT, basic(ID, SECRET)), 200)
    await check(ask(GRANT, basic(ID, SECRET, 'basic')), 200)
    await check(ask(GRANT, basic(encodeURIComponent(ID), encodeURIComponent(SECRET))), 200)
    await check(ask({ ...GRANT, client_id: ID }, basic(ID, SECRET)), 200)
  })

  test('is given whatever charset the content type names', async () => {
    await check(ask(BY_FORM, undefined, `${FORM}; charset=UTF-8`), 200)
  })

  test('carries the scopes asked for, or all', async () => {
    const some = await tokenFor({ ...BY_FORM, scope: 'admin  data_pool:query admin' })
    expect(await tokens.verify(`Bearer ${some}`, ADDRESS)).toEqual({
      verifyAgain: expect.any(Function),
      applicationId: ID,
      scopes: new Set(['admin', 'data_pool:query']),
    })
    const all = await tokenFor({ ...BY_FORM, scope: '' })
    expect(await tokens.verify(`bearer ${all}`, ADDRESS)).toEqual({
      verifyAgain: expect.any(Function),
      applicationId: ID,
      scopes: new Set(SCOPES),
    })
  })
})

describe('a refusal', () => {
  test('of wrong credentials is 401 invalid_client with a challenge', async () => {
    const wrong = [
      ask({ ...BY_FORM, client_secret: 'x' }),
      ask({ ...BY_FORM, client_id: 'x' }),
      ask({ ...BY_FORM, client_id: 'constructor' }),
      ask(GRANT, basic(ID, 'x')),
      ask(GRANT, basic('x', SECRET)),
      ask(GRANT, basic('', '')),
      ask(GRANT, 'Basic'),
      ask(GRANT, 'Basic !!!'),
    ]
    for (const reply of wrong)
      expect((await check(reply, 401, 'invalid_client')).headers['WWW-Authenticate']).toMatch(/^Basic /)
  })

  test('of a broken request is 400 invalid_request', async () => {
    const { client_id, client_secret } = BY_FORM
    await check(ask({ client_id, client_secret }), 400, 'invalid_request')
    await check(ask({ ...GRANT, client_id }), 400, 'invalid_request')
    await check(ask({ ...GRANT, client_secret }), 400, 'invalid_request')
    await check(ask(GRANT), 400, 'invalid_request')
    await check(ask(GRANT, 'Bearer abc'), 400, 'invalid_request')
    await check(ask(''), 400, 'invalid_request')
    await check(ask(BY_FORM, basic(ID, SECRET)), 400, 'invalid_request')
    await check(ask({ ...GRANT, client_id: 'other' }, basic(ID, SECRET)), 400, 'invalid_request')
    await check(ask(`${new URLSearchParams(BY_FORM)}&scope=admin&scope=admin`), 400, 'invalid_request')
    await check(ask(BY_FORM, undefined, 'application/json'), 400, 'invalid_request')
    const body = Buffer.from([0x67, 0xff])
    await check(
      tokens.token({ address: ADDRESS, authorization: undefined, contentType: FORM, body }),
      400,
      'invalid_request',
    )
  })

  test('of a form that is far too large or has far too many fields comes before the form is read', async () => {
    await check(ask(`${new URLSearchParams(BY_FORM)}${'&a=b'.repeat(61)}`), 200)
    await check(ask(`${new URLSearchParams(BY_FORM)}${'&a=b'.repeat(62)}`), 400, 'invalid_request')
    await check(ask({ ...BY_FORM, other: 'x'.repeat(16_384) }), 400, 'invalid_request')
    const body = Buffer.from('a&'.repeat(500_000))
    await check(
      tokens.token({ address: ADDRESS, authorization: undefined, contentType: FORM, body }),
      400,
      'invalid_request',
    )
  })

  test('of another grant is 400 unsupported_grant_type', async () => {
    await check(ask({ ...BY_FORM, grant_type: 'password' }), 400, 'unsupported_grant_type')
  })

  test('of a scope that the application lacks is 400 invalid_scope', async () => {
    await check(ask({ ...BY_FORM, scope: 'admin root' }), 400, 'invalid_scope')
  })
})

describe('verification', () => {
  async function refused(authorization: string | undefined): Promise<void> {
    expect(await tokens.verify(authorization, ADDRESS)).toMatchObject({
      status: 401,
      headers: { 'WWW-Authenticate': expect.stringMatching(/^Bearer/) },
    })
  }

  test('takes HTTP Basic with id and secret', async () => {
    expect(await tokens.verify(basic(ID, SECRET), ADDRESS)).toEqual({
      verifyAgain: expect.any(Function),
      applicationId: ID,
      scopes: new Set(SCOPES),
    })
    await refused(basic(ID, `${SECRET}x`))
    await refused(basic('nobody', ''))
  })

  test('refuses what is no token of ours', async () => {
    const token = await tokenFor(BY_FORM)
    const [head, claims, signature] = token.split('.') as [string, string, string]
    const forged = Buffer.from(JSON.stringify({ sub: ID, scope: 'admin', iss: 'weir' })).toString('base64url')
    const none = Buffer.from(JSON.stringify({ alg: 'none', typ: 'JWT' })).toString('base64url')
    for (const bad of [
      undefined,
      '',
      'Bearer',
      'Bearer a b',
      token,
      `Bearer ${head}.${forged}.${signature}`,
      `Bearer ${none}.${claims}.`,
      `Bearer ${token}x`,
    ])
      await refused(bad)
  })

  test('refuses an expired token, after 3600 seconds', async () => {
    await folder.stop()
    const { catalog } = await folder.open()
    let nowMs = 1_700_000_000_000
    const deps = {
      application: (id: string) => catalog.application(id),
      signingKeys: () => catalog.read.signingKeys(),
      nowMs: () => nowMs,
    }
    tokens = createTokens(deps)
    const token = await tokenFor(BY_FORM)
    nowMs += 3_599_000
    expect(await tokens.verify(`Bearer ${token}`, ADDRESS)).toHaveProperty('applicationId', ID)
    nowMs += 1_000
    await refused(`Bearer ${token}`)
  })

  test('keeps tokens over a restart, and ends them with their application', async () => {
    const token = await tokenFor(BY_FORM)
    const again = await reopen({})
    expect(await again.verify(`Bearer ${token}`, ADDRESS)).toHaveProperty('applicationId', ID)
    tokens = await reopen({ clientId: 'client-2' })
    await refused(`Bearer ${token}`)
  })

  test('ends tokens with the secret that they were given for, whatever else stays', async () => {
    const token = await tokenFor(BY_FORM)
    tokens = await reopen({ clientId: ID, clientSecret: `${SECRET}2` })
    await refused(`Bearer ${token}`)
    const next = await tokenFor({ ...BY_FORM, client_secret: `${SECRET}2` })
    expect(await tokens.verify(`Bearer ${next}`, ADDRESS)).toHaveProperty('applicationId', ID)
    // Whoever holds a token can read its claims: nothing in them reveals the secret.
    const claims = Buffer.from(next.split('.')[1]!, 'base64url').toString()
    expect(claims).not.toContain(SECRET)
    tokens = await reopen({ clientId: ID, clientSecret: SECRET })
    await refused(`Bearer ${next}`)
    expect(await tokens.verify(`Bearer ${token}`, ADDRESS)).toHaveProperty('applicationId', ID)
  })

  test('refuses a token of another folder', async () => {
    const token = await tokenFor(BY_FORM)
    const other = makeFolder()
    try {
      tokens = createTokens((await other.open({ clientId: ID, clientSecret: SECRET })).catalog)
      await refused(`Bearer ${token}`)
    } finally {
      await other.remove()
    }
  })
})

async function reopen(options: object): Promise<Tokens> {
  await folder.stop()
  return createTokens((await folder.open(options)).catalog)
}
