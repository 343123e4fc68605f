/** `weir sources`, on a running server, on a stopped folder, and without either. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PRESET_NAMES } from '../../src/catalog/presets.ts'
import type { ShownSource } from '../../src/tools/manage-sources.ts'
import { fetchToken, removeLeftovers, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { weir } from './folder.ts'

afterAll(removeLeftovers)

const files = temporaryFolder()

function fileOf(name: string, content: string): string {
  const path = join(files, name)
  writeFileSync(path, content)
  return path
}

async function run(args: readonly string[]): Promise<string> {
  const { code, out, err } = await weir(['sources', ...args])
  expect({ code, err: args.includes('--url') ? err : '' }).toEqual({ code: 0, err: '' })
  return out
}

async function json(args: readonly string[]): Promise<ShownSource> {
  const [shown] = JSON.parse(await run([...args, '--json'])) as ShownSource[]
  return shown!
}

/** The one line of a mistake. */
async function mistake(args: readonly string[]): Promise<string> {
  const { code, out, err } = await weir(['sources', ...args])
  expect({ code, out }).toEqual({ code: 2, out: '' })
  return err
}

describe('on a running server', () => {
  let server: TestServer
  let at: readonly string[]
  beforeAll(async () => {
    server = await startServer({ env: { WEIR_PUBLIC_URL: 'https://hooks.example' } })
    at = ['--data-dir', server.dataDir, '--url', server.base]
  })

  /** The webhook's settings as GraphQL shows them. */
  async function settingsOf(name: string) {
    const { data } = await server.graphql<{ dataSourceByName: { connectionSettings: unknown } }>(
      `query ($name: String!) { dataSourceByName(uniqueName: $name) { connectionSettings {
         ... on WebhookConnectionSettings { webhookUrl accept preset eventsPath signature { scheme secrets }
           uniqueId timestamp columns { name coerce } } } } }`,
      { name },
    )
    return data.dataSourceByName.connectionSettings
  }

  test('a webhook of a preset is created, and its steps name URL and secret', async () => {
    const out = await run(['create', '--preset', 'github', '--name', 'code', ...at])
    const settings = (await settingsOf('code')) as { webhookUrl: string; signature: { secrets: string[] } }
    const [secret] = settings.signature.secrets
    expect(settings).toMatchObject({ preset: 'GITHUB', accept: ['FORM'], uniqueId: 'delivery_id' })
    expect(settings.webhookUrl).toMatch(/^https:\/\/hooks\.example\/v1\/WHK/)
    expect(out).toContain('source code created\n')
    expect(out).toContain(`Payload URL: ${settings.webhookUrl}\n`)
    expect(out).toContain(`Secret: ${secret}\n`)
    const shown = await run(['show', 'code', ...at])
    expect(shown).toContain('GITHUB, 1 secret\n')
    expect(shown).not.toContain(secret)
    expect(await run(['list', ...at])).toMatch(/ code +WEBHOOK +GITHUB +https:/)
  })

  test('secrets come from a file, and rotate', async () => {
    const file = fileOf('secrets', 'first-secret\n\nsecond-secret \n')
    const made = await json(['create', '--preset', 'stripe', '--name', 'money', '--secret-file', file, ...at])
    expect(made).toMatchObject({ secretCount: 2, secrets: ['first-secret', 'second-secret'] })
    const changed = await json(['modify', 'money', '--secret', 'third-secret', '--accept', 'put,PATH', ...at])
    expect(changed).toMatchObject({ secretCount: 1, accept: ['PUT', 'PATH'] })
    expect(changed).not.toHaveProperty('secrets')
    expect(await settingsOf('money')).toMatchObject({
      signature: { scheme: 'STRIPE', secrets: ['third-secret'] },
      accept: ['PUT', 'PATH'],
    })
    expect(server.output()).not.toMatch(/(first|second|third)-secret/)
  })

  test('a sender whose secret is not known yet needs --unsigned', async () => {
    const create = ['create', '--preset', 'linear', '--name', 'issues', ...at]
    expect(await mistake(create)).toMatch(/Linear needs a secret.*signatureEnabled: false/)
    const out = await run([...create, '--unsigned'])
    expect(out).toMatch(/unsigned requests until it has a secret: weir sources modify DSO/)
    expect(await json(['modify', 'issues', '--secret', 'a-secret-of-linear', ...at])).toMatchObject({
      scheme: 'LINEAR',
    })
    expect(await json(['modify', 'issues', '--unsigned', ...at])).toMatchObject({ scheme: null })
  })

  test('proposed columns make a webhook', async () => {
    const event = (n: number) => ({ id: `evt_${n}`, created_at: `2026-11-0${n}T00:00:00Z`, price: '1.50' })
    const samples = fileOf('samples.ndjson', [1, 2, 3].map(n => JSON.stringify(event(n))).join('\n'))
    const proposed = await run(['infer', samples, '--json'])
    const columns = fileOf('columns.json', proposed)
    const made = await json(['create', '--name', 'inferred', '--columns', columns, ...at])
    expect(made.key).toEqual(['created_at', 'id'])
    expect(made.columns).toContainEqual(expect.objectContaining({ name: 'price', coerce: true }))
    const list = fileOf('list.json', JSON.stringify(JSON.parse(proposed).columns))
    const keyed = ['--unique-id', 'id', '--events-path', 'data.items']
    expect(await json(['create', '--name', 'listed', '--columns', list, ...keyed, ...at])).toMatchObject({
      key: ['_service_received_at', 'id'],
      eventsPath: 'data.items',
    })
  })

  test('the preset of Asana opens a window for its secret', async () => {
    await run(['create', '--preset', 'asana', '--name', 'tasks', '--unsigned', ...at])
    const before = Date.now()
    const { handshakeUntil = '' } = await json(['handshake', 'tasks', ...at])
    const untilMs = Date.parse(handshakeUntil)
    expect(untilMs).toBeGreaterThanOrEqual(before + 300_000)
    expect(untilMs).toBeLessThanOrEqual(Date.now() + 300_000)
    expect(await mistake(['handshake', 'code', ...at])).toMatch(/only one with the preset ASANA/)
    await expect.poll(() => server.output()).toMatch(/"mutation":"openHandshake".*"outcome":"done"/)
  })

  test('what the server refuses is one line', async () => {
    expect(await mistake(['show', 'nobody', ...at])).toMatch(/There is no data source "nobody"/)
    expect(await mistake(['create', '--preset', 'githup', ...at])).toMatch(/GITHUB may be meant/)
    const columns = fileOf('bad.json', '[{"name":"a"}]')
    expect(await mistake(['create', '--columns', columns, ...at])).toMatch(/"columns" must be a list of/)
  })

  test('the route refuses requests of another form, and callers without admin', async () => {
    const ask = async (body: unknown, token: string) => {
      const answer = await fetch(`${server.base}/v1/admin/sources`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      return { status: answer.status, body: await answer.text() }
    }
    const token = await fetchToken(server.base, server.dataDir)
    for (const body of [
      null,
      [],
      {},
      { action: 'delete' },
      { action: 'show' },
      { action: 'list', source: 'code' },
      { action: 'create', secret: 's' },
      { action: 'create', secrets: 's' },
      { action: 'create', accept: ['form'] },
      { action: 'create', columns: [{ name: 1 }] },
      { action: 'create', columns: [{ name: 'a', jsonProperty: 'a', type: 'STRING' }] },
      { action: 'create', columns: [null] },
      { action: 'modify', source: 'code', columns: [] },
      { action: 'create', orderBy: [1] },
      { action: 'create', preset: 'constructor' },
    ])
      expect([body, (await ask(body, token)).status]).toEqual([body, 400])
    expect((await ask({ action: 'list' }, 'no-token')).status).toBe(401)
    expect((await ask({ action: 'list' }, token)).status).toBe(200)
  })
})

test('a stopped folder is read and changed too, but hears of no handshake', async () => {
  const server = await startServer()
  const here = ['--data-dir', server.dataDir]
  await server.stop()
  const made = await json(['create', '--preset', 'gitlab', '--name', 'labs', ...here])
  expect(made).toMatchObject({ scheme: 'GITLAB', webhookUrl: expect.stringMatching(/\/v1\/WHK/) })
  expect(await json(['show', 'labs', ...here])).toMatchObject({ id: made.id })
  expect(await mistake(['handshake', 'labs', ...here])).toMatch(/needs a running server/)
})

describe('without a server or a folder', () => {
  test('presets are listed and shown', async () => {
    const list = await run(['presets'])
    for (const name of PRESET_NAMES) expect(list).toMatch(new RegExp(`^${name} `, 'm'))
    const one = await run(['presets', 'microsoft-graph'])
    expect(one).toContain('MICROSOFT_GRAPH')
    expect(one).toContain('{url}')
    expect(await mistake(['presets', 'githup'])).toMatch(/GITHUB may be meant/)
  })

  test('columns are proposed with reasons', async () => {
    const samples = fileOf(
      'some.json',
      JSON.stringify([
        { id: 'a', n: 1 },
        { id: 'b', n: 2 },
      ]),
    )
    const out = await run(['infer', samples])
    expect(out).toContain('2 events\n')
    expect(out).toMatch(/^column +type +property +nullable +coerce +reason$/m)
    expect(out).toMatch(/^unique id: id\. "id" has the name of an event's id/m)
  })

  test('mistakes name the way', async () => {
    expect(await mistake(['infer'])).toMatch(/needs a file/)
    expect(await mistake(['infer', join(files, 'none')])).toMatch(/cannot be read/)
    expect(await mistake(['infer', fileOf('broken', '{')])).toMatch(/cannot be read/)
    expect(await mistake(['infer', fileOf('huge', ' '.repeat(4_200_000))])).toMatch(/more than/)
    expect(await mistake(['infer', 'x', '--preset', 'github'])).toMatch(/takes no --preset/)
    expect(await mistake(['presets', '--url', 'http://x'])).toMatch(/takes no --url/)
    expect(await mistake(['delete'])).toMatch(/takes list, show, create/)
    expect(await mistake(['list', '--accept', 'form'])).toMatch(/takes no --accept/)
    expect(await mistake(['create', '--secret', 'a', '--secret-file', 'b'])).toMatch(/not both/)
    expect(await mistake(['create', '--columns', fileOf('text', 'x')])).toMatch(/no JSON/)
    expect(await mistake(['create', '--columns', fileOf('object', '{}')])).toMatch(/has no columns/)
  })
})
