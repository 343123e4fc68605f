/** A server that an example starts for itself, and the requests that the examples share. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** Sends a document with its variables. Rejects with the first error of the answer. */
export type Graphql = (query: string, variables: unknown) => Promise<Record<string, unknown>>

/** The server's process. `base` is its address, once it listens. */
export function spawnServer(dataDir: string) {
  const main = fileURLToPath(new URL('../src/app/main.js', import.meta.url))
  const child = spawn(process.execPath, [main, '--port', '0', '--data-dir', dataDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  const base = new Promise<string>((resolve, reject) => {
    child.once('close', code => reject(new Error(`the server ended with ${code}`)))
    createInterface({ input: child.stdout }).on('line', line => {
      const match = /listening on (http:\/\/\S+)/.exec(line)
      if (match?.[1] !== undefined) resolve(match[1])
    })
  })
  let isStopping = false
  const stop = async () => {
    if (!isStopping) child.kill('SIGTERM') // a second one would end it at once
    isStopping = true
    await ended
  }
  return { base, stop }
}

/** A token of the first application. @param scope all scopes where none is given */
export async function fetchToken(base: string, dataDir: string, scope?: string): Promise<string> {
  const { clientId, clientSecret } = JSON.parse(readFileSync(join(dataDir, 'admin.json'), 'utf8')) as Record<
    string,
    string
  >
  const answer = await fetch(`${base}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}` },
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      ...(scope === undefined ? {} : { scope }),
    }),
  })
  if (answer.status !== 200) throw new Error(`no token: ${answer.status} ${await answer.text()}`)
  return ((await answer.json()) as { access_token: string }).access_token
}

/** GraphQL with a token. */
export function graphqlOf(base: string, token: string): Graphql {
  return async (query, variables) => {
    const reply = await fetch(`${base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables }),
    })
    const { data, errors } = (await reply.json()) as {
      data: Record<string, unknown>
      errors?: { message: string }[]
    }
    if (errors !== undefined) throw new Error(errors[0]?.message)
    return data
  }
}

interface Created {
  readonly connectionSettings: { readonly webhookUrl: string }
  readonly dataPools: { readonly nodes: readonly { readonly id: string }[] }
}

/**
 * Makes a pool. @param connectionSettings WebhookConnectionSettingsInput
 * @returns the pool's id and the address that takes its events
 */
export async function createPool(graphql: Graphql, uniqueName: string, connectionSettings: object) {
  const data = await graphql(
    `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource {
       connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } dataPools { nodes { id } } } } }`,
    { input: { uniqueName, connectionSettings } },
  )
  const { dataSource } = data['createWebhookDataSource'] as { readonly dataSource: Created }
  return {
    poolId: dataSource.dataPools.nodes[0]?.id ?? '',
    url: dataSource.connectionSettings.webhookUrl,
  }
}

/** Posts events. @param body JSON. Rejects unless every event was stored. */
export async function post(url: string, body: string): Promise<void> {
  const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  if (answer.status !== 200) throw new Error(`POST answered ${answer.status}: ${await answer.text()}`)
  const rejected = Number(answer.headers.get('x-events-rejected'))
  if (rejected > 0) throw new Error(`${rejected} events were rejected: ${await answer.text()}`)
  await answer.arrayBuffer()
}
