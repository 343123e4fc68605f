/**
 * The curl commands of the documents run as written: only address, ids and secret are filled in.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { fetchToken, startServer } from '../util/server.ts'

const document = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../../${name}`, import.meta.url)), 'utf8')
const README = document('README.md')
const run = promisify(execFile)

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
