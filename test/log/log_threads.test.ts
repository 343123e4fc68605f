/** The real threads on a real disk, killed in a child process at each named point. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type OpenedLog, startLog } from '../../src/log/open-log.ts'
import { errorOf, type Found, foundIn, spanOf } from './log.ts'

const FILE_BYTES = 256 * 1024
let root = ''

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'weir-log-'))
})

afterEach(() => rmSync(root, { recursive: true }))

async function open(
  durability: 'fsync' | 'os' = 'fsync',
  flushed = 0,
): Promise<OpenedLog & { found: Found[] }> {
  const found: Found[] = []
  const options = { folder: join(root, 'log'), durability, crashAt: '', fileBytesMax: FILE_BYTES }
  const opened = await startLog(options).recover({
    flushed: new Map([[1, flushed]]),
    replay: async chunk => void found.push(...foundIn(chunk)),
  })
  return { ...opened, found }
}

test('what threads wrote comes back after a clean stop, over several files', async () => {
  const { commit, summary } = await open()
  expect(summary.lastSequence).toBe(0)
  const texts = Array.from({ length: 60 }, (_, index) => `${index}${'t'.repeat(20_000)}`)
  await Promise.all(texts.map(text => commit.append([spanOf({ text })], 1).durable))
  expect(commit.stats().files).toBeGreaterThan(3)
  await commit.stop()
  const again = await open()
  expect(again.found.map(each => each.text)).toEqual(texts)
  expect(again.summary.cleanStop).toBe(true)
  await again.commit.stop()
})

test('a replay that fails stops the start, and the next start has all of it', async () => {
  const { commit } = await open('os')
  await commit.append([spanOf({ text: 'one' })], 1).durable
  await commit.stop()
  const options = {
    folder: join(root, 'log'),
    durability: 'os',
    crashAt: '',
    fileBytesMax: FILE_BYTES,
  } as const
  const replay = async () => {
    throw new Error('cannot parse')
  }
  expect((await errorOf(startLog(options).recover({ flushed: new Map([[1, 0]]), replay }))).message).toBe(
    'cannot parse',
  )
  const damaged = await errorOf(startLog(options).recover({ flushed: new Map(), replay }))
  expect(damaged).toMatchObject({ name: 'Damaged', file: expect.stringContaining('.log'), offset: 4096 })
  const again = await open('os')
  expect(again.found.map(each => each.text)).toEqual(['one'])
  await again.commit.stop()
})

test.each([
  'log.written:3',
  'log.synced:3',
  'log.rollover',
  'log.released',
  'recover.copied',
  'recover.renamed',
])('a process killed at %s loses nothing that it acknowledged', async point => {
  const first = runChild('', 5)
  const killed = runChild(point, 40)
  expect(killed.signal).toBe('SIGKILL')
  // At `log.released` the child released everything below 20. Its own records begin with 7, after a
  // clean stop.
  const released = point === 'log.released'
  const { commit, found, summary } = await open('fsync', released ? 19 : 0)
  const acked = released ? killed.acked.slice(13) : [...first.acked, ...killed.acked]
  const texts = found.map(each => each.text.slice(0, 8))
  expect(texts.filter(text => acked.includes(text))).toEqual(acked)
  expect(new Set(texts).size).toBe(texts.length)
  expect(summary.lastSequence).toBeGreaterThanOrEqual(acked.length)
  await commit.stop()
  expect(readdirSync(join(root, 'log')).filter(name => name.endsWith('.tmp'))).toEqual([])
})

function runChild(crashAt: string, count: number): { signal: string | null; acked: string[] } {
  const child = new URL('./killed_child.js', import.meta.url).pathname
  const args = [child, join(root, 'log'), crashAt, String(count), String(FILE_BYTES)]
  const { stdout, signal, status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  if (signal === null && status !== 0) throw new Error(stderr)
  return { signal, acked: stdout.split('\n').filter(line => line !== '') }
}
