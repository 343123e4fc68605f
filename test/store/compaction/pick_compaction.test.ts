/** Which segments compaction picks: the rules by example, and what must hold for every manifest. */
import { expect, test } from 'vitest'
import type { PoolSegment } from '../../../src/index/index-types.ts'
import {
  bySequence,
  COMPACT_BYTES_MAX,
  findWindow,
  inspectPool,
  olderThan,
  type PickInput,
  pickCompaction,
} from '../../../src/store/compaction/pick-compaction.ts'
import { COMPACT_INPUTS_MAX, COMPACT_ROWS_MAX, COMPACT_RUN_MAX } from '../../../src/util/limits.ts'
import { randomFrom } from '../../util/random.ts'
import { exhaustive } from './exhaustive-windows.ts'
import { DAY_US, merged, segment } from './random-manifests.ts'

function inputOf(segments: readonly PoolSegment[], more: Partial<PickInput> = {}): PickInput {
  return { segments, isExcluded: () => false, expireBeforeUs: undefined, ...more }
}

/** `deleted: 3 4`, or `none`. */
function pick(segments: readonly PoolSegment[], more: Partial<PickInput> = {}): string {
  const picked = pickCompaction(inputOf(segments, more))
  if (picked === undefined) return 'none'
  return `${picked.reason}: ${picked.inputs.map(one => one.segment).join(' ')}`
}

/** Segments 1, 2, … with these numbers of rows. */
const rows = (...counts: number[]) => counts.map((count, index) => segment(index + 1, count))

test('small neighbours of a similar size are joined, the cheapest first', () => {
  expect(pick([])).toBe('none')
  expect(pick(rows(5000))).toBe('none')
  expect(pick(rows(5000, 5000, 5000))).toBe('none')
  expect(pick(rows(5000, 5000, 5000, 5000))).toBe('small: 1 2 3 4')
  expect(pick(rows(80000, 80000, 80000, 5000, 5000, 5000, 5000))).toBe('small: 4 5 6 7')
  expect(pick(rows(100000, 5000, 5000, 5000))).toBe('none')
  expect(pick(rows(1, 1000, 3, 700))).toBe('small: 1 2 3 4')
})

test('neighbours of any size are joined where they fill a segment, and full segments are left out', () => {
  expect(pick(rows(250000, 30000))).toBe('small: 1 2')
  expect(pick(rows(300000, 30000))).toBe('none')
  expect(pick(rows(600000, 600000, 600000, 600000))).toBe('none')
})

test('segments are ordered by sequence, not by number', () => {
  const late = segment(9, 5000, { sequenceFrom: 15, sequenceTo: 16 })
  const [a, b, c] = rows(5000, 5000, 5000) as [PoolSegment, PoolSegment, PoolSegment]
  expect(pick([c, { ...a, sequenceTo: 14 }, late, b])).toBe('small: 1 9 2 3')
})

test('W-6, W-7: no merge spans an excluded segment; schema versions may differ', () => {
  const five = rows(5000, 5000, 5000, 5000, 5000)
  expect(pick(five, { isExcluded: number => number === 3 })).toBe('none')
  expect(pick(five, { isExcluded: number => number === 5 })).toBe('small: 1 2 3 4')
  const changed = five.map(one => (one.segment > 2 ? { ...one, schemaVersion: 2 } : one))
  expect(pick(changed)).toBe('small: 1 2 3 4 5')
})

test('mostly deleted segments are rewritten; those without a visible row come first, together', () => {
  const deletionVectors = (...deletedRows: number[]) =>
    deletedRows.map((count, i) => segment(i + 1, 100_000, { deletedRows: count }))
  expect(pick(deletionVectors(25_000))).toBe('none')
  expect(pick(deletionVectors(25_001))).toBe('deleted: 1')
  expect(pick(deletionVectors(40_000, 100_000, 100_000, 0))).toBe('deleted: 2 3')
  expect(pick([segment(1, 300_000), segment(2, 300_000, { deletedRows: 100_000 }), segment(3, 5000)])).toBe(
    'deleted: 2 3',
  )
})

test('deletes are dropped once no older segment can hold their keys', () => {
  expect(pick([segment(1, 0, { deletes: 10 })])).toBe('deleted: 1')
  expect(pick([segment(1, 600_000), segment(2, 0, { deletes: 10 })])).toBe('none')
  expect(pick([segment(1, 10, { deletedRows: 10, deletes: 1 }), segment(2, 5000)])).toBe('deleted: 1')
})

test('W-6: deletes stay while a rebuild would find older rows', () => {
  const deletes = [segment(2, 0, { deletes: 10 })]
  const obsolete = (number: number) => ({ ...segment(number, 100), timestampFromUs: null })
  expect(pick(deletes, { obsolete: [obsolete(1)] })).toBe('none')
  expect(pick(deletes, { obsolete: [obsolete(3)] })).toBe('deleted: 2')
  expect(olderThan(20, [segment(1, 5), segment(2, 5)], [obsolete(0), obsolete(3)])).toEqual([
    { fromUs: 10 * DAY_US, toUs: 11 * DAY_US },
    { fromUs: null, toUs: 11 * DAY_US },
  ])
})

test('expired segments come first: wholly expired ones, then partly expired ones', () => {
  const on = (number: number, from: number, to: number, more: Partial<PoolSegment> = {}) =>
    segment(number, 100_000, { timestampFromUs: from * DAY_US, timestampToUs: to * DAY_US, ...more })
  const pool = [
    on(1, 1, 5),
    on(2, 1, 2),
    on(3, 1, 2, { deletedRows: 90_000 }),
    on(4, 3, 5, { deletedRows: 90_000 }),
  ]
  const before = (day: number) => ({ expireBeforeUs: day * DAY_US })
  expect(pick(pool, before(3))).toBe('expired: 2 3')
  expect(pick(pool.slice(0, 1), before(3))).toBe('expired: 1')
  expect(pick(pool.slice(0, 1), before(1))).toBe('none')
  expect(pick([on(1, 3, 3)], before(3))).toBe('none')
})

const seed = Math.floor(Math.random() * 2 ** 31)

test('for every manifest: inputs are neighbours of one schema version, not excluded, within the limits; and merging ends', () => {
  const random = randomFrom(seed)
  for (let round = 0; round < 400; round++) {
    let pool = randomPool(random)
    const excluded = new Set(pool.filter(() => random() < 0.1).map(one => one.segment))
    const expireBeforeUs = random() < 0.5 ? undefined : Math.floor(random() * 20) * DAY_US
    const input = () => inputOf(pool, { isExcluded: number => excluded.has(number), expireBeforeUs })
    let next = 1000
    for (let step = 0; ; step++) {
      // Each merge leaves fewer segments, or removes the deleted or expired rows of one.
      expect(step, `seed ${seed}, round ${round}`).toBeLessThan(2 * 60 + 2)
      const { picked, debt } = inspectPool(input(), 0)
      expect(debt.smallSegments + debt.bytesToMerge > 0).toBe(picked !== undefined)
      if (picked === undefined) break
      checkInputs(pool, picked.inputs, excluded)
      pool = merged(pool, picked, next++, expireBeforeUs)
    }
    for (const one of pool) {
      if (excluded.has(one.segment)) continue
      expect(one.deletedRows).toBeLessThanOrEqual((one.rows + one.deletes) / 4)
      if (expireBeforeUs !== undefined && one.rows > 0)
        expect(one.timestampFromUs).toBeGreaterThanOrEqual(expireBeforeUs)
    }
  }
})

test('the cheapest window is the one that a comparison of all windows finds', () => {
  const random = randomFrom(seed)
  for (let round = 0; round < 600; round++) {
    const most = 2 ** (1 + Math.floor(random() * 18))
    const part = Array.from({ length: 2 + Math.floor(random() * 100) }, () => {
      // Few sizes give equal costs; many sizes give parts without a window that is worth a merge.
      const rows = random() < 0.5 ? most : Math.ceil(random() * most)
      const bytes = rows * (random() < 0.1 ? 5000 : 100)
      const weight = Math.max(Math.max(rows, 1024) / COMPACT_ROWS_MAX, bytes / COMPACT_BYTES_MAX)
      return { segment: { bytes }, rows, weight }
    })
    const covered = new Uint8Array(part.length)
    const found = findWindow(part, COMPACT_ROWS_MAX, covered)
    const want = exhaustive(part)
    const what = `seed ${seed}, round ${round}`
    expect(found && { from: found.from, to: found.to, cost: found.cost }, what).toEqual(want.best)
    expect(
      [...covered.keys()].filter(at => covered[at] === 1),
      what,
    ).toEqual([...want.covered].sort((a, b) => a - b))
  }
})

function randomPool(random: () => number): PoolSegment[] {
  const int = (below: number) => Math.floor(random() * below)
  let schemaVersion = 1
  return Array.from({ length: 1 + int(60) }, (_, i) => {
    if (random() < 0.03) schemaVersion += 1
    const count = random() < 0.1 ? 0 : int(2 ** int(20))
    const from = int(20)
    const stamps = { timestampFromUs: from * DAY_US, timestampToUs: (from + int(3)) * DAY_US }
    const deletes = count === 0 ? 1 + int(100) : random() < 0.2 ? int(100) : 0
    const deletedRows = random() < 0.3 ? count : random() < 0.5 ? 0 : int(count)
    return segment(i + 1, count, { ...(count === 0 ? {} : stamps), deletes, deletedRows, schemaVersion })
  })
}

function checkInputs(
  pool: readonly PoolSegment[],
  inputs: readonly PoolSegment[],
  excluded: ReadonlySet<number>,
) {
  const ordered = bySequence(pool)
  const from = ordered.indexOf(inputs[0] as PoolSegment)
  expect(ordered.slice(from, from + inputs.length)).toEqual(inputs)
  expect(inputs.filter(one => excluded.has(one.segment))).toEqual([])
  expect(inputs.length).toBeLessThanOrEqual(COMPACT_INPUTS_MAX)
  if (inputs.length === 1) return
  expect(inputs.reduce((sum, one) => sum + one.rows + one.deletes, 0)).toBeLessThanOrEqual(COMPACT_ROWS_MAX)
  expect(inputs.reduce((sum, one) => sum + one.bytes, 0)).toBeLessThanOrEqual(COMPACT_BYTES_MAX)
}

/** Flushes `total` rows in segments of `rowsOfFlush()`, with all merges in between. */
function arrive(total: number, rowsOfFlush: () => number) {
  let pool: PoolSegment[] = []
  let [arrived, written, segmentsMost, next] = [0, 0, 0, 1]
  while (arrived < total) {
    const count = rowsOfFlush()
    const number = next++
    pool = [...pool, segment(number, count, { sequenceFrom: number * 10, sequenceTo: number * 10 + 9 })]
    arrived += count
    for (let step = 0; ; step++) {
      expect(step).toBeLessThan(20)
      const picked = pickCompaction(inputOf(pool))
      if (picked === undefined) break
      written += picked.inputs.reduce((sum, one) => sum + one.rows, 0)
      pool = merged(pool, picked, next++, undefined)
    }
    const full = pool.filter(one => one.rows >= COMPACT_ROWS_MAX / 2).length
    segmentsMost = Math.max(segmentsMost, pool.length - full)
  }
  return {
    full: pool.filter(one => one.rows >= COMPACT_ROWS_MAX / 2).length,
    segmentsMost,
    amplified: written / arrived,
  }
}

test('after small flushes there are few segments besides the full ones, and a row is written log n times', () => {
  const random = randomFrom(seed)
  const flushes: [string, number, () => number, number, number][] = [
    ['2,000 rows', 3_000_000, () => 2_000, 7, 16],
    ['131,072 rows', 30_000_000, () => 131_072, 3, 16],
    ['1 to 20,000 rows', 5_000_000, () => 1 + Math.floor(random() * 20_000), 7, 16],
    ['of any size', 5_000_000, () => Math.ceil(2 ** (random() * 17)), 7, COMPACT_RUN_MAX],
  ]
  for (const [name, total, rowsOfFlush, amplifiedMax, segmentsMax] of flushes) {
    const { full, segmentsMost, amplified } = arrive(total, rowsOfFlush)
    expect(segmentsMost, `${name}, seed ${seed}`).toBeLessThanOrEqual(segmentsMax)
    expect(full).toBeLessThanOrEqual((2 * total) / COMPACT_ROWS_MAX)
    expect(amplified, `${name}, seed ${seed}`).toBeLessThanOrEqual(amplifiedMax)
  }
})

test('where no window is worth a merge, segments are merged when there are too many', () => {
  // Like the marks of a ruler: each segment outweighs all between it and the next larger one.
  const ruler = (n: number): number[] => (n === 0 ? [] : [...ruler(n - 1), 1000 * 3 ** n, ...ruler(n - 1)])
  let pool = rows(...ruler(6))
  expect(pool.length).toBeGreaterThan(COMPACT_RUN_MAX)
  for (let next = 1000; ; next++) {
    const picked = pickCompaction(inputOf(pool))
    if (picked === undefined) break
    pool = merged(pool, picked, next, undefined)
  }
  expect(pool.length).toBeLessThanOrEqual(COMPACT_RUN_MAX)
})

test('deletes behind segments without rows are removable: no older row needs them', () => {
  const deletes = (number: number, count: number) => segment(number, 0, { deletes: count })
  const many = [deletes(2, 1_000_000), deletes(3, 1_000_000)]
  expect(pick([segment(1, 0), ...many])).toBe('deleted: 2')
  expect(pick([deletes(1, 5), ...many])).toBe('deleted: 1')
  expect(pick([segment(1, 600_000), ...many])).toBe('none')
  expect(pick([segment(1, 0), ...many], { obsolete: [segment(1, 100)] })).toBe('none')
})
