/**
 * `npm run demo`: real GitHub webhooks through a server of its own.
 *
 * Starts Weir on a temporary folder, makes a pool for GitHub's webhooks, posts the payloads of
 * @octokit/webhooks-examples in batches and singly, asks counters, prints how long each step took,
 * and removes the folder.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isInterrupted, whenInterrupted } from '../src/tools/interrupts.ts'
import { createProgress } from '../src/tools/progress.ts'
import { createPool, fetchToken, type Graphql, graphqlOf, post, spawnServer } from './own-server.ts'

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
    await feedAndCount(graphqlOf(base, await fetchToken(base, dataDir)))
  } finally {
    await step('stop: last requests answered, synced, flushed', cleanUp)
    forget()
  }
}

async function feedAndCount(graphql: Graphql): Promise<void> {
  const { poolId, url } = await step('make a pool for GitHub webhooks, 6 columns', () =>
    createPool(graphql, 'github', { columns: COLUMNS, timestamp: 'received', uniqueId: 'delivery' }),
  )
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

try {
  await demo()
} catch (error) {
  if (!isInterrupted()) throw error
}
