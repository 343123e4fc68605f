/**
 * The deletes that a merge keeps.
 *
 *   W-6  A delete goes only when nothing that a rebuild reads could bring its record back: a live row of the key in the
 *        new segment has a higher sequence, or no older segment can hold the key. An expired delete is no exception:
 *        the older segment may not have been through retention yet. What counts as older: `olderThan` in choose.ts, and
 *        `olderOf` in merge-survey.ts.
 */
import { keyTimeUs } from '../batch/key.ts'
import type { Plan } from '../batch/plan.ts'
import { compareKey, type RunParts } from './merge-runs.ts'
import type { TimeSpan } from './protocol.ts'

/** Deletes, sorted by key, one a key. */
export interface Deletes {
  readonly keys: readonly Uint8Array[]
  /** Parallel to `keys`. */
  readonly sequences: Float64Array
}

/** One of each key, that with the highest sequence. */
export function mergeDeletes(parts: readonly Deletes[]): Deletes {
  if (parts.length === 1) return parts[0] as Deletes
  const all: { key: Uint8Array; sequence: number }[] = []
  for (const { keys, sequences } of parts)
    for (const [i, key] of keys.entries()) all.push({ key, sequence: sequences[i] as number })
  all.sort((a, b) => Buffer.compare(a.key, b.key) || b.sequence - a.sequence)
  const first = all.filter((one, i) => i === 0 || Buffer.compare(one.key, all[i - 1]!.key) !== 0)
  return { keys: first.map(one => one.key), sequences: Float64Array.from(first, one => one.sequence) }
}

/** Without those whose key no older segment can hold. */
export function dropUnneeded(deletes: Deletes, plan: Plan, older: readonly TimeSpan[]): Deletes {
  return pick(deletes, i => canHold(plan, older, deletes.keys[i] as Uint8Array))
}

function canHold(plan: Plan, older: readonly TimeSpan[], key: Uint8Array): boolean {
  if (older.length === 0) return false
  const time = keyTimeUs(plan, key)
  return older.some(
    ({ fromUs, toUs }) =>
      time === null || fromUs === null || toUs === null || (fromUs <= time && time <= toUs),
  )
}

/**
 * Without those that a live row of a higher sequence follows.
 * @param run of one input's rows
 * @param sequences by row
 * @param isLive by row: it goes into the new segment
 */
export function dropFollowed(
  deletes: Deletes,
  run: RunParts,
  sequences: Float64Array,
  isLive: (row: number) => boolean,
): Deletes {
  let at = 0
  return pick(deletes, i => {
    const key = deletes.keys[i] as Uint8Array
    while (at < run.count && compareKey(run, at, key) < 0) at += 1
    if (at >= run.count || compareKey(run, at, key) !== 0) return true
    const row = run.rows[at] as number
    return !isLive(row) || (sequences[row] as number) < (deletes.sequences[i] as number)
  })
}

function pick({ keys, sequences }: Deletes, keeps: (index: number) => boolean): Deletes {
  const kept: number[] = []
  for (let i = 0; i < keys.length; i++) if (keeps(i)) kept.push(i)
  return {
    keys: kept.map(i => keys[i] as Uint8Array),
    sequences: Float64Array.from(kept, i => sequences[i] as number),
  }
}
