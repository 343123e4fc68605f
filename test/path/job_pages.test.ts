/**
 * The pages of docs/how-to, docs/upgrading.md and docs/graphql-examples.md are true: each command
 * runs as it stands there and prints what the page says. One server serves all of them.
 */
import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FakeS3, PAGE_KEY } from '../tools/bucket/fake-s3.ts'
import { BASE, blocksLeftOver, blocksOf, expectShown, readPage, runPage } from '../util/run-page.ts'
import { startServer, type TestServer } from '../util/server.ts'

const FOLDER = fileURLToPath(new URL('../../../docs/how-to', import.meta.url))
const FIRST = 'docs/how-to/README.md'
/** What a reader pastes before each other page. */
const PASTE = blocksOf(readPage(FIRST).split('\n## Paste once\n')[1] ?? '').slice(0, 1)
const JOBS = readdirSync(FOLDER)
  .map(name => `docs/how-to/${name}`)
  .filter(name => name !== FIRST)
/** test/cluster runs these. */
const CLUSTER = ['docs/how-to/move-to-a-cluster.md', 'docs/how-to/repair-a-cluster.md']
const PAGES = [
  ...JOBS.filter(name => !CLUSTER.includes(name)),
  'docs/upgrading.md',
  'docs/graphql-examples.md',
]
/** Lines of a job page: what is longer belongs into the reference. */
const JOB_LINES_MAX = 160
const DAY_MS = 86_400_000
/** A page takes less. */
const MIDNIGHT_MS = 30_000

let server: TestServer
let bucket: FakeS3
beforeAll(async () => {
  bucket = await FakeS3.start()
  server = await startServer({ env: { ...bucket.environment, AWS_ACCESS_KEY_ID: PAGE_KEY } })
})
afterAll(async () => {
  bucket.stop()
  expect((await server.stop()).code).toBe(0)
})

test('there is a page for each job', () => {
  expect(JOBS.length).toBeGreaterThanOrEqual(10)
})

describe(FIRST, () => {
  const page = readPage(FIRST)
  const [start = '', shown = ''] = /^```text\n(weir: kernel [\s\S]*?)^```\n/m.exec(page) ?? []

  test('shows what a first start prints', async () => {
    await expectShown(() => server.output().replaceAll(server.base, BASE), shown)
  })

  test('its commands print what it says, and no other code is there', async () => {
    await runPage(server, page)
    expect(blocksLeftOver(page.replace(start, ''))).toEqual([])
  })
})

describe.each(PAGES)('%s', name => {
  const page = readPage(name)

  test('its commands print what it says', async () => {
    await awayFromMidnight()
    await runPage(server, page.replaceAll('https://s3.example.com', bucket.endpoint), PASTE)
  })

  test('leaves the names that were pasted as they are, for the next page in this shell', () => {
    const scripts = blocksOf(page).map(({ script }) => script)
    expect(scripts.filter(script => /^(WEIR|ID|SECRET|TOKEN)=(?!\S+ ask )/m.test(script))).toEqual([])
  })

  test('has no code that is not run, and says what to paste first', () => {
    expect(blocksLeftOver(page)).toEqual([])
    expect(page).toContain('README.md#paste-once)')
  })
})

test.each(JOBS)('%s is short, and says what can go wrong and where to read on', name => {
  const page = readPage(name)
  expect(page.split('\n').length).toBeLessThanOrEqual(JOB_LINES_MAX)
  expect(page).toContain('\n## What can go wrong\n')
  expect(page).toMatch(/\nReference: \[/)
})

test('docs/graphql-examples.md asks every question of the schema', () => {
  const schema = readPage('src/api/graphql/query.graphql')
  const questions = [...schema.matchAll(/^ {2}(\w+)\(input: \[?\w+Input!/gm)].map(([, name]) => name)
  expect(questions.length).toBeGreaterThan(10)
  const page = readPage('docs/graphql-examples.md')
  expect(questions.filter(name => !page.includes(`${name}(input`))).toEqual([])
})

/** Pages ask for the last days: no midnight (UTC) may pass between an event and its question. */
async function awayFromMidnight(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS)
  if (leftMs < MIDNIGHT_MS) await sleep(leftMs)
}
