/** Bytes of rejected events: a pool's share, those that wait, and what a busy ingest does. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { IngestTarget } from '../../src/api/api-types.ts'
import type { BatchSink } from '../../src/api/ingest/body-memory.ts'
import { type Answer, answerRefusal } from '../../src/api/ingest/ingest-answer.ts'
import { REJECTED_BYTES_PER_DAY, RejectedEvents } from '../../src/api/ingest/rejected-events.ts'
import { refuse } from '../../src/api/problem.ts'
import type { RejectedPiece, RejectedRows } from '../../src/parse/rejected-rows.ts'
import { BODY_BYTES_MAX, EVENTS_MAX, KiB, MiB } from '../../src/util/limits.ts'
import { setLog } from '../../src/util/say.ts'
import { targetOf } from './fake.ts'

const HOUR_MS = 3_600_000
const POOL = targetOf(1, { rejects: '"source_id":"S","data_pool_id":"P"' })
const SECOND = targetOf(2, { rejects: '"source_id":"S2","data_pool_id":"P2"' })
const BUILT_IN = targetOf(9)

const OK: Answer = { reply: { status: 200, body: '' }, accepted: 0, rejected: 0, rejectedBy: new Map() }
const refused = (status: number) => answerRefusal(refuse(status, 'busy', 'no room'))

interface Posted {
  readonly body: string
  answer(answer?: Answer): void
}

/** The number of the test: rows that a test leaves behind are never posted. */
let generation = 0
let nowMs: number
let posted: Posted[]
let counted: { kept: number; leftOut: number }
let mayPost: boolean
let target: IngestTarget | undefined
/** What submit() answers at once; undefined where the test answers. */
let atOnce: Answer | undefined
let events: RejectedEvents
let warned: string[]

beforeEach(() => {
  generation += 1
  const mine = generation
  nowMs = 1
  posted = []
  counted = { kept: 0, leftOut: 0 }
  mayPost = true
  target = BUILT_IN
  atOnce = undefined
  warned = []
  vi.spyOn(process.stderr, 'write').mockImplementation(line => {
    warned.push(String(line).replace(/^\S+ /, '').trimEnd())
    return true
  })
  events = new RejectedEvents(
    {
      target: () => target,
      mayPost: () => mine === generation && mayPost,
      submit: (_, body, sink) => submit(body, sink),
      nameOf: poolId => (poolId === 'evil' ? 'evil\u001b[2J\n\u202e' : `name of ${poolId}`),
      onRows: (kept, leftOut) => {
        counted.kept += kept
        counted.leftOut += leftOut
      },
    },
    () => nowMs,
  )
})
afterEach(() => {
  vi.restoreAllMocks()
  setLog({ format: 'text', level: 'info' })
})

function submit(body: Uint8Array, sink: BatchSink): void {
  const text = Buffer.from(body).toString()
  expect(body.byteLength).toBeLessThanOrEqual(BODY_BYTES_MAX)
  const rows = (JSON.parse(text) as unknown[]).length
  expect(rows).toBeLessThanOrEqual(EVENTS_MAX)
  const answer = (given: Answer = { ...OK, accepted: rows }) => sink.answered(given)
  posted.push({ body: text, answer })
  if (atOnce !== undefined) answer(atOnce)
}

/** A piece of about `bytes` bytes. */
const piece = (bytes: number, rows = 1): RejectedPiece => ({
  rows,
  json: Buffer.from(
    Array<string>(rows)
      .fill(JSON.stringify('x'.repeat(bytes / rows - (rows > 1 ? 3 : 2))))
      .join(),
  ),
})
const rowsOf = (...pieces: RejectedPiece[]): RejectedRows => ({ pieces, leftOut: 0 })
const turn = () => new Promise(resolve => setImmediate(resolve))

/** Answers every post, until none comes. */
async function store(): Promise<void> {
  for (let idle = 0; idle < 2; idle += 1) {
    await turn()
    for (const one of posted.splice(0)) {
      one.answer()
      idle = 0
    }
  }
}

/** Keeps pieces of 256 KiB until one has no room. Returns their bytes. */
async function fill(pool: number): Promise<number> {
  let bytes = 0
  for (;;) {
    const before = counted.leftOut
    const one = piece(256 * KiB)
    events.keep(pool, rowsOf(one))
    if (counted.leftOut > before) return bytes
    bytes += one.json.byteLength
    await store()
  }
}

describe('W-9: a pool keeps its share', () => {
  test('half of a day at once, the rest evenly; other pools have theirs', async () => {
    const half = REJECTED_BYTES_PER_DAY / 2
    expect(events.room(POOL)).toBe(4 * MiB)
    const first = await fill(1)
    expect(first).toBeGreaterThan(half - 256 * KiB)
    expect(first).toBeLessThanOrEqual(half)
    expect(events.room(POOL)).toBeLessThan(256 * KiB)
    expect(events.room(SECOND)).toBe(4 * MiB)
    nowMs += 6 * HOUR_MS
    const second = await fill(1)
    expect(Math.abs(second - half / 4)).toBeLessThan(512 * KiB)
    nowMs += 1000 * HOUR_MS
    const third = await fill(1)
    expect(third).toBeGreaterThan(half - 512 * KiB)
    expect(third).toBeLessThanOrEqual(half)
    expect(await fill(2)).toBeGreaterThan(half - 256 * KiB)
  })

  test('in a day of garbage a pool keeps at most its bytes, and half a day more at the beginning', async () => {
    let bytes = 0
    for (let hour = 0; hour < 24; hour += 1) {
      bytes += await fill(1)
      nowMs += HOUR_MS
    }
    expect(bytes).toBeLessThanOrEqual(REJECTED_BYTES_PER_DAY)
    expect(bytes).toBeGreaterThan(0.9 * REJECTED_BYTES_PER_DAY)
  })

  test('all pools together keep four times as much; what has no room is counted', async () => {
    let bytes = 0
    for (let pool = 1; pool <= 6; pool += 1) bytes += await fill(pool)
    expect(bytes).toBeLessThanOrEqual(2 * REJECTED_BYTES_PER_DAY)
    expect(bytes).toBeGreaterThan(2 * REJECTED_BYTES_PER_DAY - 6 * 256 * KiB)
    expect(events.room(targetOf(77, { rejects: '"a":1' }))).toBeLessThan(512 * KiB)
    expect(counted.leftOut).toBe(6)
    // 1,000 pools with a little each are forgotten when they are full again.
    nowMs += 100 * HOUR_MS
    for (let pool = 100; pool < 2_100; pool += 1) events.keep(pool, rowsOf(piece(100)))
    await store()
    expect(counted.leftOut).toBe(6)
  })

  test('a grant is given without room too, so that what is refused is counted', async () => {
    const grant = events.grant(POOL)
    expect(grant).toEqual({
      properties: POOL.rejects,
      pool: 1,
      atUs: expect.any(Number) as number,
      bytesMax: 4 * MiB,
    })
    await fill(1)
    events.keep(1, rowsOf({ rows: 1, json: Buffer.alloc(events.room(POOL), '7') }))
    expect(events.grant(POOL)!.bytesMax).toBe(0)
    const before = counted.leftOut
    const request = { request: 0, index: null, code: 'c', column: null, message: 'm', contentType: null }
    events.keepRequest(POOL, { ...request, text: undefined, context: new Uint8Array(0) })
    expect(counted.leftOut).toBe(before + 1)
    expect(events.grant(BUILT_IN)).toBeUndefined()
    events.keepRequest(BUILT_IN, { ...request, text: undefined, context: new Uint8Array(0) })
    expect([events.room(BUILT_IN), counted.leftOut]).toEqual([0, before + 1])
  })

  test('rows of many tasks at once stay within what may wait', () => {
    mayPost = false
    for (let task = 0; task < 100; task += 1) events.keep(1 + (task % 4), rowsOf(piece(MiB)))
    expect(100 - counted.leftOut).toBe(16)
    expect(events.room(POOL)).toBeLessThan(MiB)
  })
})

describe('posts', () => {
  test('rows that come together share requests within the limits of every body', async () => {
    for (let n = 0; n < 5; n += 1) events.keep(1, rowsOf(piece(1_000), piece(50_000, 300), piece(400_000)))
    await store()
    expect(counted).toEqual({ kept: 5 * 302, leftOut: 0 })
  })

  test('at most two requests are under way', async () => {
    for (let n = 0; n < 10; n += 1) events.keep(1, rowsOf(piece(700_000)))
    await turn()
    expect(posted.length).toBe(2)
    posted.shift()!.answer()
    await turn()
    expect(posted.length).toBe(2)
    await store()
    expect(counted.kept).toBe(10)
  })

  test('a 429 is tried again, and loses nothing', async () => {
    events.keep(1, rowsOf(piece(700_000), piece(700_000)))
    await turn()
    posted.shift()!.answer(refused(429))
    expect(counted).toEqual({ kept: 0, leftOut: 0 })
    await vi.waitFor(() => expect(posted.length).toBe(2))
    await store()
    expect([counted, warned]).toEqual([{ kept: 2, leftOut: 0 }, []])
  })

  test('a 429 at once holds nobody up, and is tried again later', async () => {
    atOnce = refused(429)
    events.keep(1, rowsOf(piece(700_000), piece(700_000)))
    await turn()
    await turn()
    expect(posted.length).toBe(1)
    await vi.waitFor(() => expect(posted.length).toBe(2))
    atOnce = undefined
    posted.length = 0
    await vi.waitFor(() => expect(posted.length).toBe(2))
    await store()
    expect(counted).toEqual({ kept: 2, leftOut: 0 })
  })

  test('while senders wait nothing is posted', async () => {
    mayPost = false
    events.keep(1, rowsOf(piece(1_000)))
    await new Promise(resolve => setTimeout(resolve, 250))
    expect(posted.length).toBe(0)
    mayPost = true
    await vi.waitFor(() => expect(posted.length).toBe(1))
  })

  test('rows that are refused are errors and counted, the others of their request are kept', async () => {
    setLog({ format: 'text', level: 'error' })
    events.keep(1, rowsOf(piece(1_000, 10)))
    await turn()
    const errors = [{ index: 0, code: 'x', column: null, message: 'no \u001b row' }]
    posted.shift()!.answer({ ...OK, accepted: 9, rejected: 1, errors })
    expect([counted, warned]).toEqual([
      { kept: 9, leftOut: 1 },
      ['1 rejected events are not kept: no \\u001b row'],
    ])
    events.keep(1, rowsOf(piece(1_000, 10)))
    await turn()
    posted.shift()!.answer(refused(503))
    target = undefined
    events.keep(1, rowsOf(piece(1_000, 10)))
    await turn()
    expect(counted).toEqual({ kept: 9, leftOut: 21 })
    expect(warned.slice(1)).toEqual([
      '10 rejected events are not kept: no room',
      '10 rejected events are not kept: their pool is not there',
    ])
  })

  test('a stop waits for rows that wait, and not longer than it may', async () => {
    setLog({ format: 'text', level: 'error' })
    await events.stop(1_000)
    events.keep(1, rowsOf(piece(1_000)))
    let isOver = false
    const stopped = events.stop(60_000).then(() => {
      isOver = true
    })
    await turn()
    posted.shift()!.answer(refused(429))
    await vi.waitFor(() => expect(posted.length).toBe(1))
    expect(isOver).toBe(false)
    await store()
    await stopped
    expect(counted).toEqual({ kept: 1, leftOut: 0 })
    events.keep(1, rowsOf(piece(1_000)))
    await events.stop(10)
    expect(warned).toEqual([
      'rejected events of the last moments are not kept: the server stops before they are stored',
    ])
  })
})

describe('once a minute', () => {
  const answer = (status: number, code: string, message: string): Answer =>
    answerRefusal(refuse(status, code, message))
  const some = (rejectedBy: readonly (readonly [string, number])[], message: string): Answer => ({
    ...OK,
    rejected: rejectedBy.reduce((sum, [, count]) => sum + count, 0),
    rejectedBy: new Map(rejectedBy),
    errors: [{ index: 0, code: rejectedBy[0]![0], column: null, message }],
  })

  test('a line for each pool has its counts and the first message', () => {
    events.tick(0)
    events.note(POOL, OK)
    events.note(POOL, some([['wrong_type', 2]], 'the first one'))
    events.note(
      POOL,
      some(
        [
          ['missing_value', 1],
          ['wrong_type', 7],
        ],
        'another',
      ),
    )
    events.note(POOL, answer(400, 'not_json', 'broken'))
    events.note(SECOND, answer(401, 'signature_mismatch', 'signed wrongly'))
    for (const status of [408, 404, 429, 500, 503]) events.note(POOL, answer(status, 'busy', 'comes again'))
    events.tick(59_999)
    expect(warned).toEqual([])
    events.tick(60_000)
    expect(warned).toEqual([
      'refused in a minute, Data Pool name of DPO1: wrong_type 9, missing_value 1, not_json 1; the first: the first one',
      'refused in a minute, Data Pool name of DPO2: signature_mismatch 1; the first: signed wrongly',
    ])
    events.tick(180_000)
    expect(warned.length).toBe(2)
  })

  test('at most 20 pools have a line; hostile names and messages are printable and short', () => {
    const hostile = `\u001b]0;x\u0007\n${'\ud83d\ude00'.repeat(2_000)}`
    events.note(targetOf(1, { poolId: 'evil' }), answer(400, 'not_json', hostile))
    for (let pool = 2; pool < 31; pool += 1) events.note(targetOf(pool), answer(400, 'not_json', hostile))
    events.tick(0)
    expect(warned.length).toBe(21)
    expect(warned[20]).toBe('refused in a minute: events of 10 more Data Pools')
    for (const line of warned)
      expect([line.length < 1_000, /[\p{Cc}\p{Cf}\p{Cs}]/u.test(line)]).toEqual([true, false])
    expect(warned[0]).toContain('evil\\u001b[2J\\u000a\\u202e: not_json 1; the first: \\u001b]0;x')
  })

  test('rows beyond the limit are said', () => {
    events.keep(1, { pieces: [], leftOut: 3 })
    events.keep(1, rowsOf(piece(33 * MiB, 4)))
    events.tick(0)
    expect(warned).toEqual(['refused in a minute, and not kept because the limit is reached: 7 events'])
    events.tick(60_000)
    expect(warned.length).toBe(1)
  })
})
