/**
 * `weir applications` and `weir keys`, on a stopped folder and on a running server. Most run in the
 * process of the test; one of each way of use has a process of its own.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SCOPES } from '../../src/catalog/documents/model.ts'
import { removeLeftovers, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { weir, weirInside } from './folder.ts'

afterAll(removeLeftovers)

interface Shown {
  readonly id: string
  readonly uniqueName: string
  readonly secret?: string
  readonly scopes: readonly string[]
  readonly propeller: string
}

async function json<T>(args: readonly string[]): Promise<T> {
  const { code, out, err } = await weirInside([...args, '--json'])
  // A running server has the audit trail, a stopped folder's is printed.
  expect({ code, err: args.includes('--url') ? err : '' }).toEqual({ code: 0, err: '' })
  return JSON.parse(out) as T
}

async function tokenOf(base: string, { id, secret = '' }: Shown) {
  const answer = await fetch(`${base}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  })
  return { status: answer.status, ...((await answer.json()) as { access_token?: string; scope?: string }) }
}

async function statusWith(base: string, token: string | undefined): Promise<number> {
  const answer = await fetch(`${base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ __typename }' }),
  })
  return answer.status
}

/** The entries of the audit trail in what a process printed. */
function entriesIn(printed: string) {
  return printed
    .split('\n')
    .filter(line => line.includes('"audit"'))
    .map(line => (JSON.parse(line) as { time: string; audit: Readonly<Record<string, string>> }).audit)
}

/** Mutations of an object in the audit trail, and their outcomes. */
function auditOf(server: TestServer, id: string) {
  return entriesIn(server.output())
    .filter(({ object }) => object === id)
    .map(({ mutation, outcome }) => [mutation, outcome])
}

describe('on a running server', () => {
  let server: TestServer
  let at: readonly string[]
  beforeAll(async () => {
    server = await startServer()
    at = ['--data-dir', server.dataDir, '--url', server.base]
  })

  test('an application is created, listed, given a new secret and deleted', async () => {
    const create = ['applications', 'create', 'dashboards', '--scopes', 'metric:query,data_pool:query']
    const [made] = await json<Shown[]>([
      ...create,
      '--propeller',
      'P1_SMALL',
      '--description',
      'of the shop',
      ...at,
    ])
    expect(made).toMatchObject({
      id: expect.stringMatching(/^APP[0-9A-Z]{26}$/),
      uniqueName: 'dashboards',
      description: 'of the shop',
      scopes: ['metric:query', 'data_pool:query'],
      propeller: 'P1_SMALL',
      secret: expect.stringMatching(/^[\w-]{40,}$/),
    })
    const first = await tokenOf(server.base, made!)
    expect(first).toMatchObject({ status: 200, scope: 'metric:query data_pool:query' })
    expect(await statusWith(server.base, first.access_token)).toBe(200)

    const listed = await json<Shown[]>(['applications', 'list', ...at])
    expect(listed.map(one => one.uniqueName)).toContain('dashboards')
    for (const one of listed) expect(one.secret).toBeUndefined()

    const [rotated] = await json<Shown[]>(['applications', 'rotate', 'dashboards', ...at])
    expect(rotated?.secret).not.toBe(made?.secret)
    expect(await statusWith(server.base, first.access_token)).toBe(401)
    expect((await tokenOf(server.base, made!)).status).toBe(401)
    const second = await tokenOf(server.base, rotated!)
    expect(second.status).toBe(200)

    const gone = await weir(['applications', 'delete', made!.id, ...at])
    expect(gone).toMatchObject({
      code: 0,
      out: 'application dashboards deleted: its tokens are refused from now on\n',
    })
    expect(await statusWith(server.base, second.access_token)).toBe(401)
    const again = await weir(['applications', 'delete', made!.id, ...at])
    expect(again.code).toBe(2)
    expect(again.err).toMatch(/There is no application/)
    await expect
      .poll(() => auditOf(server, made!.id))
      .toEqual([
        ['createApplication', 'done'],
        ['rotateApplicationSecret', 'done'],
        ['deleteApplication', 'done'],
        ['deleteApplication', 'BAD_REQUEST'],
      ])
    for (const { secret = '' } of [made!, rotated!]) expect(server.output()).not.toContain(secret)
  })

  test('a new key signs, and can end the tokens before it', async () => {
    const [made] = await json<Shown[]>(['applications', 'create', ...at])
    const before = await tokenOf(server.base, made!)
    const rotated = await json<{ kid: string; ended: number }>(['keys', 'rotate', ...at])
    expect(rotated.ended).toBe(0)
    expect(await statusWith(server.base, before.access_token)).toBe(200)
    const after = await tokenOf(server.base, made!)
    expect(JSON.parse(Buffer.from(after.access_token!.split('.')[0]!, 'base64url').toString())).toMatchObject(
      {
        kid: rotated.kid,
      },
    )
    expect(await json<{ ended: number }>(['keys', 'rotate', '--end-tokens', ...at])).toMatchObject({
      ended: 2,
    })
    for (const { access_token } of [before, after])
      expect(await statusWith(server.base, access_token)).toBe(401)
    expect((await tokenOf(server.base, made!)).status).toBe(200)
  })

  test('the routes need their scopes, and refuse what they cannot read', async () => {
    const [weak] = await json<Shown[]>(['applications', 'create', '--scopes', 'admin', ...at])
    const post = async (path: string, body: string, who: Shown | undefined) => {
      const authorization = who && `Basic ${Buffer.from(`${who.id}:${who.secret}`).toString('base64')}`
      const answer = await fetch(`${server.base}${path}`, {
        method: 'POST',
        headers: authorization === undefined ? {} : { authorization },
        body,
      })
      return { status: answer.status, ...((await answer.json()) as { code?: string; detail?: string }) }
    }
    const path = '/v1/admin/applications'
    expect(await post(path, '{"action":"list"}', undefined)).toMatchObject({ status: 401 })
    expect(await post(path, '{"action":"list"}', weak)).toMatchObject({ status: 403, code: 'forbidden' })
    expect(await post(path, '{"action":"delete","application":"ci"}', weak)).toMatchObject({ status: 403 })
    await expect.poll(() => auditOf(server, 'ci')).toEqual([['deleteApplication', 'FORBIDDEN']])
    const [managing] = await json<Shown[]>(['applications', 'create', '--scopes', 'application:admin', ...at])
    expect(await post('/v1/admin/keys', '{"action":"rotate"}', managing)).toMatchObject({ status: 403 })
    const [admin] = await json<Shown[]>(['applications', 'create', '--scopes', 'admin', ...at])
    const misspelled = await post('/v1/admin/keys', '{"action":"rotate","end_tokens":true}', admin)
    expect(misspelled).toMatchObject({ status: 400, detail: expect.stringContaining('no "end_tokens"') })
    for (const [body, detail] of [
      ['', /JSON/],
      ['null', /"action" must be/],
      ['{"action":"drop"}', /"action" must be/],
      ['{"action":"create","scopes":["root"]}', /no scope "root"/],
      ['{"action":"create","scopes":"admin"}', /must be a list/],
      ['{"action":"create","propeller":"P9"}', /no propeller "P9"/],
      ['{"action":"create","application":7}', /must be a text/],
      ['{"action":"create","application":"all","scope":["metric:query"]}', /no "scope"/],
      ['{"action":"delete"}', /id or unique name is needed/],
      ['{"action":"rotate","application":"nobody"}', /no application "nobody"/],
      [`{"action":"create","application":"${admin?.id}"}`, /is the id of another Application/],
    ] as const) {
      const answer = await post(path, body, managing)
      expect(answer, body).toMatchObject({ status: 400, code: 'bad_request' })
      expect(answer.detail).toMatch(detail)
    }
  })

  test('the first application gets a new secret, and admin.json has it', async () => {
    const adminFile = () =>
      JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as {
        clientId: string
        clientSecret: string
      }
    const [rotated] = await json<Shown[]>(['applications', 'rotate', adminFile().clientId, ...at])
    expect(adminFile()).toEqual({ clientId: rotated?.id, clientSecret: rotated?.secret })
    await json(['applications', 'list', ...at])
  })

  test('a mistake gets one line and exit code 2', async () => {
    for (const [args, message] of [
      [['applications', 'drop', ...at], /"action" must be list, create, rotate, delete/],
      [['applications', ...at], /needs <action>/],
      [['applications', 'create', 'x', '--scopes', '', ...at], /--scopes names no scope/],
      [['applications', 'create', 'x', '--scopes', ',', ...at], /--scopes names no scope/],
      [['applications', 'rotate', 'x', '--scopes', 'admin', ...at], /rotate takes no --scopes/],
      [['applications', 'list', '--propeller', 'P1_SMALL', ...at], /list takes no --propeller/],
      [['applications', 'delete', 'x', '--description', 'd', ...at], /delete takes no --description/],
      [['keys', 'delete', ...at], /weir keys takes rotate/],
      [['applications', 'list', '--data-dir', server.dataDir], /another process uses the data folder/],
      [['applications', 'list', '--data-dir', server.dataDir, '--url', 'nowhere'], /--url takes the address/],
      [['applications', 'list', '--data-dir', temporaryFolder(), '--url', server.base], /cannot be read/],
    ] as const) {
      const { code, err } = await weirInside(args)
      expect(code, args.join(' ')).toBe(2)
      expect(err).toMatch(message)
      expect(err.trim().split('\n')).toHaveLength(1)
    }
  })
})

test('a stopped folder is changed as a running server is', async () => {
  const first = await startServer()
  await first.stop()
  const at = ['--data-dir', first.dataDir]
  const format = join(first.dataDir, 'FORMAT')
  expect(readFileSync(format, 'utf8')).toBe('weir 6\n')
  writeFileSync(format, 'weir 1\n') // an earlier version left the folder
  expect((await weirInside(['inspect', ...at])).code).toBe(0)
  expect(readFileSync(format, 'utf8')).toBe('weir 1\n')
  const { code, out } = await weir(['applications', 'create', 'ci', '--scopes', 'admin', ...at])
  expect(code).toBe(0)
  expect(out).toMatch(
    /^application ci created\nclient id +APP\w{26}\nclient secret +[\w-]+\nscopes +admin\npropeller +P1_X_SMALL\n$/,
  )
  expect(readFileSync(format, 'utf8')).toBe('weir 6\n')
  const [rotated] = await json<Shown[]>(['applications', 'rotate', 'ci', ...at])
  const [made] = await json<Shown[]>(['applications', 'create', ...at])
  expect(made?.uniqueName).toBe(made?.id)
  expect(made?.scopes).toHaveLength(SCOPES.length)
  await json(['applications', 'delete', made!.id, ...at])
  expect((await weirInside(['applications', 'list', ...at])).out).toMatch(/\bci +P1_X_SMALL +admin\b/)
  const { kid } = await json<{ kid: string }>(['keys', 'rotate', ...at])
  const server = await startServer({ dataDir: first.dataDir })
  const token = await tokenOf(server.base, rotated!)
  expect(token).toMatchObject({ status: 200, scope: 'admin' })
  expect(JSON.parse(Buffer.from(token.access_token!.split('.')[0]!, 'base64url').toString())).toMatchObject({
    kid,
  })
  await server.stop()
})

test('a new secret is answered although admin.json cannot be written', async () => {
  const full = join(temporaryFolder(), 'full')
  const env = { WEIR_FAULT_AT: `write /admin.json 1 ENOSPC ${full}` }
  const server = await startServer({ env })
  const { dataDir } = server
  const file = join(dataDir, 'admin.json')
  const before = readFileSync(file, 'utf8')
  const id = (JSON.parse(before) as { clientId: string }).clientId
  const [other] = await json<Shown[]>(['applications', 'create', '--data-dir', dataDir, '--url', server.base])
  writeFileSync(full, '')
  const at = ['--data-dir', dataDir, '--url', server.base]
  await json(['applications', 'rotate', other!.id, ...at])
  expect(server.output()).not.toContain('until the next start')
  const [running] = await json<Shown[]>(['applications', 'rotate', id, ...at])
  expect((await tokenOf(server.base, running!)).status).toBe(200)
  expect(readFileSync(file, 'utf8')).toBe(before)
  await expect
    .poll(() => server.output())
    .toMatch(/admin\.json has the old secret until the next start writes it: .*ENOSPC/)
  rmSync(full)
  await server.stop()

  const list = ['applications', 'list', '--data-dir', dataDir]
  expect((await weirInside(list)).code).toBe(0) // writes the file
  expect(readFileSync(file, 'utf8')).toContain(running?.secret)
  writeFileSync(full, '')
  const stopped = await weir(['applications', 'rotate', id, '--json', '--data-dir', dataDir], env)
  expect(stopped).toMatchObject({ code: 0, err: expect.stringMatching(/until the next start writes it/) })
  const [{ secret }] = JSON.parse(stopped.out) as [Shown]
  expect(readFileSync(file, 'utf8')).not.toContain(secret)
  expect((await weirInside(list)).code).toBe(0)
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ clientId: id, clientSecret: secret })
})

test('changes of a stopped folder leave their lines of the audit trail on standard error', async () => {
  const first = await startServer()
  await first.stop()
  const at = ['--data-dir', first.dataDir]
  const created = await weir(['applications', 'create', 'ci', '--json', ...at])
  const [{ id, secret = '' }] = JSON.parse(created.out) as [Shown]
  const rotated = await weirInside(['applications', 'rotate', 'ci', ...at])
  const refused = await weirInside(['applications', 'create', 'ci', ...at])
  const deleted = await weirInside(['applications', 'delete', 'ci', ...at])
  const absent = await weirInside(['applications', 'delete', 'ci', ...at])
  const signing = await weirInside(['keys', 'rotate', '--json', ...at])
  const { kid } = JSON.parse(signing.out) as { readonly kid: string }
  const entry = (mutation: string, object: string, outcome = 'done') => [
    { mutation, applicationId: 'system', object, outcome },
  ]
  const all = [created, rotated, refused, deleted, absent, signing]
  expect(all.map(({ err }) => entriesIn(err))).toEqual([
    entry('createApplication', id),
    entry('rotateApplicationSecret', id),
    entry('createApplication', 'ci', 'BAD_REQUEST'),
    entry('deleteApplication', id),
    entry('deleteApplication', 'ci', 'BAD_REQUEST'),
    entry('rotateSigningKey', kid),
  ])
  for (const { out, err } of all) {
    expect(out).not.toContain('"audit"')
    expect(err).not.toContain(secret)
  }
  const listed = await weirInside(['applications', 'list', ...at])
  expect(listed).toMatchObject({ code: 0, err: '' })
})
