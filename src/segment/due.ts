/**
 * When a tail is sealed though it is not full and nobody asks. Main thread.
 *
 * Readers seal what they read, so age bounds only what a start replays and how much log is held back. A tail is
 * due when its oldest row has been there for SEAL_AGE_MS, or LOG_UNSEALED_BYTES of log were written since, which is
 * much sooner under load; and the largest are sealed early while all tails together hold more than
 * TAIL_WAITING_BYTES_MAX. Few seals with many rows, instead of many with few (docs/decisions/0015).
 *
 * Each pool's bounds are its own share of these, between a half and all: thousands of pools that began together do
 * not come due together.
 */
import { LOG_UNSEALED_BYTES, SEAL_AGE_MS, TAIL_WAITING_BYTES_MAX } from '../limits.ts'
import type { PoolState } from './seal.ts'

/** The fractional part of the golden ratio: its multiples spread evenly, however many there are. */
const GOLDEN = 0.6180339887498949

/** A pool's share of the bounds: in [0.5, 1), spread evenly over neighbouring numbers. */
export function shareOf(pool: number): number {
  return 0.5 + 0.5 * ((pool * GOLDEN) % 1)
}

/** Time, and the log's length: how old a row is in both. */
export interface Moment {
  /** Monotonic. */
  readonly ms: number
  /** Bytes written to the log since the start. */
  readonly logBytes: number
}

/** Is the oldest row of the tail at one of its pool's bounds? */
export function isDue(state: PoolState, now: Moment): boolean {
  const { since } = state.tail
  if (since === undefined) return false
  const share = shareOf(state.of.pool)
  return (
    now.ms - since.ms >= share * SEAL_AGE_MS || now.logBytes - since.logBytes >= share * LOG_UNSEALED_BYTES
  )
}

/** The largest tails, as few as bring all together below TAIL_WAITING_BYTES_MAX. */
export function tooLarge(states: Iterable<PoolState>): PoolState[] {
  let bytes = 0
  for (const { tail } of states) bytes += tail.bytes
  if (bytes <= TAIL_WAITING_BYTES_MAX) return []
  const bySize = [...states].sort((a, b) => b.tail.bytes - a.tail.bytes)
  let count = 0
  for (; bytes > TAIL_WAITING_BYTES_MAX; count++) bytes -= bySize[count]!.tail.bytes
  return bySize.slice(0, count)
}
