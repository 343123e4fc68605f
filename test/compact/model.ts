/** Manifests made by chance, and what a merge does to one. */
import type { Choice } from '../../src/compact/choose.ts'
import type { PoolSegment } from '../../src/compact/protocol.ts'
import type { GivenUpSegment } from '../../src/keys/protocol.ts'

export const DAY_US = 86_400_000_000

/** A segment of `rows` rows; anything else as given. Sequences are ten a segment, in the order of the numbers. */
export function segment(number: number, rows: number, more: Partial<PoolSegment> = {}): PoolSegment {
  return {
    segment: number,
    rows,
    bytes: (rows + (more.deletes ?? 0)) * 100,
    checksum: rows > 0 ? number : null,
    planVersion: 1,
    sequenceFrom: number * 10,
    sequenceTo: number * 10 + 9,
    receivedFromUs: 10 * DAY_US,
    receivedToUs: 11 * DAY_US,
    timestampFromUs: rows === 0 ? null : 10 * DAY_US,
    timestampToUs: rows === 0 ? null : 11 * DAY_US,
    tenant: null,
    deletes: 0,
    marked: 0,
    ...more,
  }
}

/** What is left after a merge of `choice`: rows without marks and without what expired, deletes as far as they must stay. */
export function merged(
  segments: readonly PoolSegment[],
  { inputs }: Choice,
  number: number,
  expireBeforeUs: number | undefined,
  emptied: readonly GivenUpSegment[] = [],
): PoolSegment[] {
  const rest = segments.filter(one => !inputs.includes(one))
  const first = inputs[0] as PoolSegment
  const last = inputs.at(-1) as PoolSegment
  const isOldest = [...rest, ...emptied].every(one => one.sequenceFrom > first.sequenceFrom)
  const kept = inputs.filter(
    one => expireBeforeUs === undefined || (one.timestampToUs ?? 0) >= expireBeforeUs,
  )
  const rows = kept.reduce((sum, one) => sum + one.rows - one.marked, 0)
  // Of several inputs without a visible row the deletes stay: nothing else stands for the inputs while their files go.
  const areDropped = isOldest && (rows > 0 || inputs.length === 1)
  const deletes = areDropped ? 0 : inputs.reduce((sum, one) => sum + one.deletes, 0)
  if (rows + deletes === 0) return rest
  const from = Math.min(...kept.map(one => one.timestampFromUs ?? Number.POSITIVE_INFINITY))
  const to = Math.max(...kept.map(one => one.timestampToUs ?? 0))
  const stamps =
    rows === 0
      ? { timestampFromUs: null, timestampToUs: null }
      : { timestampFromUs: Math.max(from, expireBeforeUs ?? from), timestampToUs: to }
  const bytes = inputs.reduce((sum, one) => sum + one.bytes, 0)
  const range = { sequenceFrom: first.sequenceFrom, sequenceTo: last.sequenceTo }
  return [
    ...rest,
    segment(number, rows, { ...range, ...stamps, bytes, deletes, planVersion: first.planVersion }),
  ]
}
