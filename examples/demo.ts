/**
 * `npm run demo`: real GitHub webhooks through a server of its own.
 *
 * Starts Weir on a temporary folder, makes a pool for GitHub's webhooks, posts the payloads of
 * @octokit/webhooks-examples in batches and singly, asks counters, prints how long each step took,
 * and removes the folder.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createProgress, isInterrupted, whenInterrupted } from '../src/tools/terminal.ts'

const ROUNDS = 20
const BATCH_EVENTS_MAX = 500
const BATCH_BYTES_MAX = 1_000_000

/** What the demo's columns read. The rest of each event stays in the payload. */
const COLUMNS = [
  { name: 'delivery', jsonProperty: 'delivery', type: 'STRING', nullable: false },
  { name: 'received', jsonProperty: 'received', type: 'TIMESTAMP', nullable: false },
  { name: 'event', jsonProperty: 'event', type: 'STRING', nullable: false },
  { name: 'action', jsonProperty: 'body.action', type: 'STRING', nullable: true },
  { name: 'sender', jsonProperty: 'body.sender.login', type: 'STRING', nullable: true },
  { name: 'repository', jsonProperty: 'body.repository.full_name', type: 'STRING', nullable: true },
]

interface Example {
  readonly name: string
  readonly examples: readonly unknown[]
}

type Graphql = (query: string, variables: unknown) => Promise<Record<string, unknown>>

const print = (line: string) => void process.stdout.write(`${line}\n`)

/** Runs a step and prints how long it took. */
async function step<T>(name: string, work: () => Promise<T>): Promise<T> {
  const begin = performance.now()
  const result = await work()
  print(`${name.padEnd(52)} ${(performance.now() - begin).toFixed(0).padStart(6)} ms`)
  return result
}

/**
 * A delivery as a small relay in front of Weir would post it: GitHub's headers beside GitHub's
 * body.
 */
function deliveries(): string[] {
  const module = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
    default?: Example[]
  } & Example[]
  const bodies = (module.default ?? module).flatMap(one =>
    one.examples.map(body => ({ event: one.name, body })),
  )
  const start = Date.UTC(2026, 10, 1)
  return Array.from({ length: ROUNDS }, (_, round) =>
    bodies.map(({ event, body }, index) => {
      const number = round * bodies.length + index
      return JSON.stringify({
        delivery: `delivery-${number}`,
        received: new Date(start + number * 1000).toISOString(),
        event,
        body,
      })
    }),
  ).flat()
}

/** Batches of at most 500 events and 1 MB. */
function batches(events: readonly string[]): string[][] {
  const made: string[][] = []
  let bytes = BATCH_BYTES_MAX
  for (const event of events) {
    const size = Buffer.byteLength(event) + 1
    const last = made.at(-1)
    if (last === undefined || last.length === BATCH_EVENTS_MAX || bytes + size > BATCH_BYTES_MAX) {
      made.push([event])
      bytes = size
    } else {
      last.push(event)
      bytes += size
    }
  }
  return made
}

/** The server's process. `base` is its address, once it listens. */
function spawnServer(dataDir: string) {
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

/** A token of the first application, and GraphQL with it. */
async function logIn(base: string, dataDir: string): Promise<Graphql> {
  const { clientId, clientSecret } = JSON.parse(readFileSync(join(dataDir, 'admin.json'), 'utf8')) as Record<
    string,
    string
  >
  const answer = await fetch(`${base}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  })
  const token = ((await answer.json()) as { access_token: string }).access_token
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

async function post(url: string, body: string): Promise<void> {
  const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  if (answer.status !== 200) throw new Error(`POST answered ${answer.status}: ${await answer.text()}`)
  const rejected = Number(answer.headers.get('x-events-rejected'))
  if (rejected > 0) throw new Error(`${rejected} events were rejected: ${await answer.text()}`)
  await answer.arrayBuffer()
}

/** Posts with a progress bar, where there is a terminal. */
async function postAll(name: string, url: string, bodies: readonly (readonly string[])[]): Promise<void> {
  const total = bodies.reduce((sum, body) => sum + body.length, 0)
  const progress = createProgress(name)
  let posted = 0
  for (const body of bodies) {
    await post(url, body.length === 1 ? (body[0] as string) : `[${body.join(',')}]`)
    posted += body.length
    progress.step(posted, total, 'events')
  }
  progress.end()
}

async function counter(graphql: Graphql, poolId: string, filters: unknown[] = []): Promise<string> {
  const data = await graphql('query ($input: CounterInput!) { counter(input: $input) { value } }', {
    input: { metric: { count: { dataPool: { id: poolId } } }, filters },
  })
  return (data['counter'] as { value: string }).value
}

/** However it ends, by Ctrl-C too, the server is stopped and its folder removed. */
async function demo(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-demo-'))
  const dataDir = join(folder, 'data')
  const server = spawnServer(dataDir)
  const cleanUp = async () => {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  const forget = whenInterrupted(cleanUp)
  try {
    const base = await step('start on a temporary folder', () => server.base)
    await feedAndCount(await logIn(base, dataDir))
  } finally {
    await step('stop: last requests answered, synced, flushed', cleanUp)
    forget()
  }
}

async function feedAndCount(graphql: Graphql): Promise<void> {
  const source = await step('make a pool for GitHub webhooks, 6 columns', async () => {
    const data = await graphql(
      `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource {
         connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } dataPools { nodes { id } } } } }`,
      {
        input: {
          uniqueName: 'github',
          connectionSettings: { columns: COLUMNS, timestamp: 'received', uniqueId: 'delivery' },
        },
      },
    )
    return (data['createWebhookDataSource'] as { dataSource: Created }).dataSource
  })
  const url = source.connectionSettings.webhookUrl
  const poolId = source.dataPools.nodes[0]?.id ?? ''
  const events = deliveries()
  const singles = events.splice(-events.length / ROUNDS)
  await step(`post ${events.length} events in batches`, () => postAll('batches', url, batches(events)))
  await step(`post ${singles.length} events one by one`, () =>
    postAll(
      'singles',
      url,
      singles.map(one => [one]),
    ),
  )
  await step('post the first batch again: updates, no new records', () =>
    post(url, `[${(batches(events)[0] as string[]).join(',')}]`),
  )
  const total = await step('count all', () => counter(graphql, poolId))
  print(`  ${total} records, ${events.length + singles.length} were posted`)
  for (const [column, value] of [
    ['event', 'push'],
    ['action', 'opened'],
    ['sender', 'Codertocat'],
  ] as const) {
    const filters = [{ column, operator: 'EQUALS', value }]
    const count = await step(`count where ${column} is ${value}`, () => counter(graphql, poolId, filters))
    print(`  ${count} records`)
  }
}

interface Created {
  readonly connectionSettings: { readonly webhookUrl: string }
  readonly dataPools: { readonly nodes: readonly { readonly id: string }[] }
}

try {
  await demo()
} catch (error) {
  if (!isInterrupted()) throw error
}
