import { createHash } from 'node:crypto'
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { send, spawnServer, startServer, type TestPool, temporaryFolder } from '../util/server.ts'
import { events, flipBit, KEYED, readBytes, readStoppedLog, writeBytes } from './damage.ts'

const ARGS = ['--log-file-bytes', String(4 * 1024 * 1024)]
const REQUESTS = 12
const EVENTS = 10

interface Killed {
  readonly dataDir: string
  readonly pool: TestPool
}
let killed: Promise<Killed> | undefined

/**
 * A copy of a folder that was killed with acknowledged requests in its log, none of them flushed.
 */
async function killedFolder(): Promise<Killed> {
  killed ??= fillAndKill()
  const { dataDir, pool } = await killed
  const copy = join(temporaryFolder(), 'data')
  cpSync(dataDir, copy, { recursive: true })
  return { dataDir: copy, pool }
}

async function fillAndKill(): Promise<Killed> {
  const server = await startServer({ args: ARGS })
  const pool = await server.createPool(KEYED)
  for (let request = 0; request < REQUESTS; request++) {
    const sent = await send(pool.url, events(request * EVENTS, (request + 1) * EVENTS))
    expect(sent.status).toBe(200)
  }
  await server.kill()
  return { dataDir: server.dataDir, pool }
}

function requestsOf(dataDir: string) {
  const { records, end } = readStoppedLog(dataDir)
  const posts = records.filter(record => record.kind === 'post')
  expect(posts.length).toBe(REQUESTS)
  return { posts, end }
}

/**
 * Starts, counts, posts, and counts again after one more kill: removed records stay removed, and
 * new ones stay.
 */
async function serves(dataDir: string, pool: TestPool, rows: number): Promise<string> {
  const first = await startServer({ dataDir, args: ARGS })
  const said = first.output()
  expect(await first.count(pool.poolId)).toBe(String(rows))
  const url = `${first.base}${new URL(pool.url).pathname}`
  expect((await send(url, events(1000, 1005))).status).toBe(200)
  await first.kill()
  const second = await startServer({ dataDir, args: ARGS })
  expect(await second.count(pool.poolId)).toBe(String(rows + 5))
  expect((await second.stop()).code).toBe(0)
  return said
}

function hashOfLog(dataDir: string): string {
  const hash = createHash('sha256')
  for (const name of readdirSync(join(dataDir, 'log')).sort())
    hash.update(name).update(readFileSync(join(dataDir, 'log', name)))
  return hash.digest('hex')
}

test('bytes after the last record are no record: everything acknowledged is there', async () => {
  const { dataDir, pool } = await killedFolder()
  const { end } = requestsOf(dataDir)
  writeBytes(
    end.file,
    end.fileOffset,
    Uint8Array.from({ length: 3000 }, (_, i) => (i * 7919) >>> 3),
  )
  await serves(dataDir, pool, REQUESTS * EVENTS)
})

test('a half-written record at the end is removed, and everything acknowledged before it is there', async () => {
  const { dataDir, pool } = await killedFolder()
  const { posts } = requestsOf(dataDir)
  const last = must(posts.at(-1), 'the last request')
  // As after a power cut during its write: its header is on disk, its end is not.
  const half = last.fileOffset + Math.floor(last.recordBytes / 2)
  writeBytes(last.file, half, new Uint8Array(last.fileOffset + last.recordBytes - half))
  const said = await serves(dataDir, pool, (REQUESTS - 1) * EVENTS)
  expect(said).toContain(`removed from ${last.file} at byte ${last.fileOffset}`)
})

test('a record with a torn header is removed in the same way', async () => {
  const { dataDir, pool } = await killedFolder()
  const { posts } = requestsOf(dataDir)
  const last = must(posts.at(-1), 'the last request')
  writeBytes(last.file, last.fileOffset, new Uint8Array(last.recordBytes))
  await serves(dataDir, pool, (REQUESTS - 1) * EVENTS)
})

test('a copy of an older record behind the end is not taken for a new one', async () => {
  const { dataDir, pool } = await killedFolder()
  const { posts, end } = requestsOf(dataDir)
  const first = must(posts[0], 'the first request')
  writeBytes(end.file, end.fileOffset, readBytes(first.file, first.fileOffset, first.recordBytes))
  // The record is whole and valid, with a sequence that was used: that is no torn tail, so the
  // start stops.
  const { child, ended } = spawnServer({ dataDir, args: ARGS })
  const { code, output } = await ended
  child.kill()
  expect(code).toBe(1)
  expect(output).toContain(`${end.file} is damaged at byte ${end.fileOffset}`)
  expect(pool.poolId).not.toBe('')
})

for (const where of ['head', 'body'] as const) {
  test(`a flipped bit in the ${where} of a record in the middle: exit 1 names file and offset`, async () => {
    const { dataDir } = await killedFolder()
    const { posts } = requestsOf(dataDir)
    const middle = must(posts[REQUESTS / 2], 'a request in the middle')
    flipBit(middle.file, middle.fileOffset + (where === 'head' ? 41 : 64 + Math.floor(middle.bodyBytes / 2)))
    const before = hashOfLog(dataDir)
    for (let time = 0; time < 2; time++) {
      const { code, output } = await spawnServer({ dataDir, args: ARGS }).ended
      expect(code).toBe(1)
      expect(output).toContain(`${middle.file} is damaged at byte ${middle.fileOffset}`)
      expect(output).not.toContain('listening')
    }
    expect(hashOfLog(dataDir)).toBe(before)
  })
}
