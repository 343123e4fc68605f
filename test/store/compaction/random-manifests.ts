/** Segments of made-up manifests, and the manifest after a merge. */

import type { ObsoleteSegment, PoolSegment } from '../../../src/index/index-types.ts'
import type { PickedCompaction } from '../../../src/store/compaction/pick-compaction.ts'

export const DAY_US = 86_400_000_000

/**
 * A segment of `rows` rows; `more` replaces other fields. Each segment has ten sequences, in the
 * order of the numbers.
 */
export function segment(number: number, rows: number, more: Partial<PoolSegment> = {}): PoolSegment {
  return {
    segment: number,
    rows,
    bytes: (rows + (more.deletes ?? 0)) * 100,
    checksum: rows > 0 ? number : null,
    schemaVersion: 1,
    sequenceFrom: number * 10,
    sequenceTo: number * 10 + 9,
    receivedFromUs: 10 * DAY_US,
    receivedToUs: 11 * DAY_US,
    timestampFromUs: rows === 0 ? null : 10 * DAY_US,
    timestampToUs: rows === 0 ? null : 11 * DAY_US,
    tenant: null,
    deletes: 0,
    deletedRows: 0,
    ...more,
  }
}

/** The manifest after a merge: live rows that are not expired, and the deletes that must stay. */
export function merged(
  segments: readonly PoolSegment[],
  { inputs }: Pick<PickedCompaction, 'inputs'>,
  number: number,
  expireBeforeUs: number | undefined,
  obsolete: readonly ObsoleteSegment[] = [],
  hasVersions = false,
): PoolSegment[] {
  const rest = segments.filter(one => !inputs.includes(one))
  const first = inputs[0] as PoolSegment
  const last = inputs.at(-1) as PoolSegment
  const withRows = [...rest, ...obsolete].filter(one => one.rows > 0)
  const isOldest = withRows.every(one => one.sequenceFrom > first.sequenceFrom)
  const leavesSegment = hasVersions || rest.every(one => one.sequenceTo < last.sequenceTo)
  const left = inputs.filter(
    one => expireBeforeUs === undefined || (one.timestampToUs ?? 0) >= expireBeforeUs,
  )
  const rows = left.reduce((sum, one) => sum + one.rows - one.deletedRows, 0)
  // Several inputs that leave no segment keep their deletes: nothing replaces them while their
  // files are removed.
  const areDropped = isOldest && (rows > 0 || inputs.length === 1 || leavesSegment)
  const deletes = areDropped ? 0 : inputs.reduce((sum, one) => sum + one.deletes, 0)
  if (rows + deletes === 0 && !leavesSegment) return rest
  const from = Math.min(...left.map(one => one.timestampFromUs ?? Number.POSITIVE_INFINITY))
  const to = Math.max(...left.map(one => one.timestampToUs ?? 0))
  const stamps =
    rows === 0
      ? { timestampFromUs: null, timestampToUs: null }
      : { timestampFromUs: Math.max(from, expireBeforeUs ?? from), timestampToUs: to }
  const bytes = inputs.reduce((sum, one) => sum + one.bytes, 0)
  const range = { sequenceFrom: first.sequenceFrom, sequenceTo: last.sequenceTo }
  return [
    ...rest,
    segment(number, rows, { ...range, ...stamps, bytes, deletes, schemaVersion: first.schemaVersion }),
  ]
}
