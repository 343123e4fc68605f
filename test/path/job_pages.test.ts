/**
 * The pages of docs/how-to, docs/upgrading.md and docs/graphql-examples.md are true: each command
 * runs as it stands there and prints what the page says. One server serves all of them.
 */
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { blocksLeftOver, blocksOf, readPage, runPage } from '../util/run-page.ts'
import { startServer, type TestServer } from '../util/server.ts'

const FOLDER = fileURLToPath(new URL('../../../docs/how-to', import.meta.url))
const FIRST = 'docs/how-to/README.md'
const JOBS = readdirSync(FOLDER)
  .map(name => `docs/how-to/${name}`)
  .filter(name => name !== FIRST)
const PAGES = [...JOBS, 'docs/upgrading.md', 'docs/graphql-examples.md']
/** Lines of a job page: what is longer belongs into the reference. */
const JOB_LINES_MAX = 160

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

test('there is a page for each job', () => {
  expect(JOBS.length).toBeGreaterThanOrEqual(10)
})

describe.each(PAGES)('%s', name => {
  const page = readPage(name)

  test('its commands print what it says', async () => {
    await runPage(server, page, blocksOf(readPage(FIRST)))
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
