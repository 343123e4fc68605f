/**
 * The curl commands of the documents run as written: only address, ids and secret are filled in.
 */
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { PRESETS } from '../../src/catalog/presets.ts'
import { fetchToken, startServer } from '../util/server.ts'

const document = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../../${name}`, import.meta.url)), 'utf8')
const README = document('README.md')
const run = promisify(execFile)
const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))

test('every curl command of the README answers', async () => {
  const server = await startServer()
  const admin = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as Record<string, string>
  const { data } = await server.graphql<{ dataSourceByName: Source }>(
    '{ dataSourceByName(uniqueName: "events") { connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } } }',
  )
  const webhook = data.dataSourceByName.connectionSettings.webhookUrl.split('/').at(-1) ?? ''
  const blocks = [...README.matchAll(/```sh\n([\s\S]*?)```/g)]
    .map(match => match[1] ?? '')
    .filter(text => text.includes('curl'))
  expect(blocks.length).toBeGreaterThanOrEqual(3)
  const env = { ...process.env, TOKEN: await fetchToken(server.base, server.dataDir) }
  for (const block of blocks) {
    const script = block
      .replaceAll('http://127.0.0.1:8420', server.base)
      .replaceAll('WHK…', webhook)
      .replaceAll('APP…:…', `${admin['clientId']}:${admin['clientSecret']}`)
    expect(script).not.toContain('…')
    const { stdout } = await run('bash', ['-c', `set -eu\n${script}`], { env })
    expect(stdout).not.toMatch(/"errors"|statusCode":400/)
    expect(stdout).toMatch(/"value":"1"|"webhookUrl":"http|"dataRetentionInDays":30/)
    const [answer] = /\{"data":\{"counter".*/.exec(stdout) ?? []
    if (answer) expect([answer, README.includes(`\`${answer}\``)]).toEqual([answer, true])
  }
  expect((await server.stop()).code).toBe(0)
})

test('the curl commands of docs/query.md answer on the pool that Weir makes', async () => {
  const server = await startServer()
  const { data } = await server.graphql<{ dataSourceByName: Source }>(
    '{ dataSourceByName(uniqueName: "events") { connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } } }',
  )
  await fetch(data.dataSourceByName.connectionSettings.webhookUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"hello":"weir"}',
  })
  const admin = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as Record<string, string>
  const env = { ...process.env, ID: admin['clientId'], SECRET: admin['clientSecret'] }
  const [, block = ''] = /```sh\n(curl[^`]*)```/.exec(document('docs/query.md')) ?? []
  const script = block.replaceAll('http://127.0.0.1:8420', server.base)
  const { stdout } = await run('bash', ['-c', `set -eu\n${script}`], { env })
  expect(stdout).toMatch(/^hello,events\r\nweir,1\r\ntime,value\r\n(\S+,[01]\r\n){7,8}$/)
  expect((await server.stop()).code).toBe(0)
})

test('the README makes a source by a preset, and names presets that there are', async () => {
  const server = await startServer()
  const [, command = ''] = /^npm start -- (sources create .*)$/m.exec(README) ?? []
  const args = command.replace('http://127.0.0.1:8420', server.base).split(' ')
  const { stdout } = await run(process.execPath, [MAIN, ...args, '--data-dir', server.dataDir])
  const url = /http\S+\/v1\/WHK\w+/.exec(stdout)?.[0] ?? ''
  const body = JSON.stringify({ zen: 'Keep it logically awesome.' })
  const signature = createHmac('sha256', /^secret +(\S+)$/m.exec(stdout)?.[1] ?? '').update(body)
  const signed = { 'x-hub-signature-256': `sha256=${signature.digest('hex')}` }
  for (const [status, more] of [
    [200, signed],
    [200, signed],
    [401, {}],
  ] as const) {
    const headers = { 'content-type': 'application/json', 'x-github-delivery': '1', 'x-github-event': 'ping' }
    expect((await fetch(url, { method: 'POST', headers: { ...headers, ...more }, body })).status).toBe(status)
  }
  const { data } = await server.graphql<{ dataPoolByName: { id: string } }>(
    '{ dataPoolByName(uniqueName: "github") { id } }',
  )
  expect(await server.count(data.dataPoolByName.id)).toBe('1')
  const titles = Object.values(PRESETS).map(({ title }) => title)
  for (const name of ['Stripe', 'Shopify', 'Slack', 'GitLab', 'Zoom', 'Twilio', 'Linear', 'Sentry'])
    expect([name, README.includes(name), titles.some(title => title.startsWith(name))]).toEqual([
      name,
      true,
      true,
    ])
  expect((await server.stop()).code).toBe(0)
})

test('the Terraform example makes no source that the README has made', () => {
  const names = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name]) => name)
  const made = names(README, /createWebhookDataSource\(input: \{uniqueName: \\"(\w+)/g)
  const example = names(
    document('examples/terraform/main.tf'),
    /"propel_data_source"[^\n]*\n *unique_name = "(\w+)"/g,
  )
  expect([made, example]).toEqual([['orders'], ['shop_orders']])
})

interface Source {
  readonly connectionSettings: { readonly webhookUrl: string }
}
