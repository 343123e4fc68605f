/**
 * Raw HTTP against each HTTP library. Each line of http_corpus/cases.jsonl has the bytes to send
 * and their outcome. No event is stored that its sender did not frame as a request, and the server
 * lives on.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { nodeTransport } from '../../src/api/http/node.ts'
import { ask } from './client.ts'
import { Fake, frontEnd, start } from './fake.ts'
import { type Case, type Outcome, runCase } from './http_corpus/run.ts'

const FILE = fileURLToPath(new URL('../../../test/api/http_corpus/cases.jsonl', import.meta.url))
const CASES = readFileSync(FILE, 'utf8')
  .trim()
  .split('\n')
  .map(line => JSON.parse(line) as Case)
/** Servers that run at once, because many cases wait for a timer. */
const LANES = 16
/** The time for one outcome. A drained connection takes DRAIN_MS_MAX to close. */
const PATIENCE_MS = 30_000

test('there are at least 150 cases, each with a name of its own', () => {
  expect(CASES.length).toBeGreaterThanOrEqual(150)
  expect(new Set(CASES.map(one => one.name)).size).toBe(CASES.length)
})

test('outcomes differ only where the table in docs/http.md says so, and each of its rows has a case', () => {
  const page = readFileSync(fileURLToPath(new URL('../../../docs/http.md', import.meta.url)), 'utf8')
  const rows = [...page.matchAll(/^\| ([^|]+?) +\|/gm)].map(match => match[1]).slice(2)
  const unnamed = CASES.filter(one => ('uws' in one.expect ? !rows.includes(one.row) : one.row !== undefined))
  expect(unnamed.map(one => one.name)).toEqual([])
  expect(rows.filter(row => !CASES.some(one => one.row === row))).toEqual([])
})

describe.each([...new Set([frontEnd, nodeTransport])])('over $name', transport => {
  test('every case has its outcome', { timeout: 300_000 }, async () => {
    const queue = [...CASES]
    const wrong: unknown[] = []
    const lane = async () => {
      const fake = new Fake()
      const api = await start(fake, { transport })
      for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
        const want = 'uws' in one.expect ? one.expect[transport.name] : one.expect
        const { bodies, ...got } = await runCase(fake, api.port, one, now => isSame(now, want), PATIENCE_MS)
        if (!isSame(got, want)) wrong.push({ name: one.name, want, got })
        // No case frames a request with this event; it stands in bodies and header values only.
        if (bodies.some(body => body.includes('smuggled'))) wrong.push({ name: one.name, bodies })
        const next = await ask(api.port, '/v1/open', { body: '{"id":"next"}' })
        if (next.status !== 200) wrong.push({ name: one.name, next: next.status })
      }
      await api.stop(1000)
    }
    await Promise.all(Array.from({ length: LANES }, lane))
    expect(wrong).toEqual([])
  })
})

function isSame(got: Outcome, want: Outcome): boolean {
  return (
    got.closed === want.closed && got.stored === want.stored && got.statuses.join() === want.statuses.join()
  )
}
