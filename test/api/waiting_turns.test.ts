/**
 * Waiting requests: pools take turns, and when nothing more can wait, the pool with the most
 * requests loses one.
 */
import { expect, test } from 'vitest'
import type { Admission } from '../../src/api/ingest/admission.ts'
import { IngestRequest, SMALL_BODY_BYTES_MAX, Waiting } from '../../src/api/ingest/body-memory.ts'
import { BODY_BYTES_MAX, WAITING_BYTES_MAX, WAITING_REQUESTS_MAX } from '../../src/util/limits.ts'

function requestOf(pool: number, bytes: number, complete = false): IngestRequest {
  const request = new IngestRequest({ target: { poolNumber: pool } } as Admission, undefined as never)
  request.complete = complete
  waiting.buffer(request, new Uint8Array(bytes), BODY_BYTES_MAX)
  waiting.add(request)
  return request
}

let waiting = new Waiting()
const anyone = () => true

function drain(line: 'small' | 'large'): number[] {
  const pools: number[] = []
  for (;;) {
    const request = waiting.next(line, anyone)
    if (request === undefined) return pools
    waiting.delete(request)
    waiting.endTurn(line, request)
    waiting.release(request)
    pools.push(request.admission.target.poolNumber)
  }
}

test('pools take turns; small complete bodies have a line of their own', () => {
  waiting = new Waiting()
  for (let count = 0; count < 5; count += 1) requestOf(1, 10)
  requestOf(2, 10)
  requestOf(3, 10)
  requestOf(1, 10, true)
  requestOf(1, SMALL_BODY_BYTES_MAX + 1, true)
  expect(waiting.next('large', one => one.admission.target.poolNumber > 1)?.admission.target.poolNumber).toBe(
    2,
  )
  expect(drain('large')).toEqual([1, 2, 3, 1, 1, 1, 1, 1])
  expect(drain('small')).toEqual([1])
  expect([waiting.length, waiting.bytes]).toEqual([0, 0])
})

test.each([
  ['requests', WAITING_REQUESTS_MAX, 1],
  ['bytes', WAITING_BYTES_MAX / BODY_BYTES_MAX - 1, BODY_BYTES_MAX],
] as const)(
  'at the limit of waiting %s the newest request of the pool with most of them is refused',
  (_, count, bytes) => {
    waiting = new Waiting()
    const first = requestOf(1, bytes)
    let newest = first
    while (waiting.length < count) newest = requestOf(1, bytes)
    const other = new IngestRequest({ target: { poolNumber: 2 } } as Admission, undefined as never)
    expect(waiting.isFull(other, BODY_BYTES_MAX)).toBe(true)
    expect(waiting.victimFor(other)).toBe(newest)
    expect(waiting.victimFor(first)).toBe(undefined)
  },
)
