/** Which segments a merge takes: rules by example, and what must hold for every manifest. */
import { expect, test } from 'vitest'
import { bySequence, choose, debtOf, type Look, olderThan } from '../../src/compact/choose.ts'
import { isDebt } from '../../src/compact/debt.ts'
import type { PoolSegment } from '../../src/compact/protocol.ts'
import { findWindow } from '../../src/compact/windows.ts'
import { COMPACT_BYTES_MAX, COMPACT_INPUTS_MAX, COMPACT_ROWS_MAX, COMPACT_RUN_MAX } from '../../src/limits.ts'
import { randomFrom } from '../util/random.ts'
import { exhaustive } from './exhaustive.ts'
import { DAY_US, merged, segment } from './model.ts'

function look(segments: readonly PoolSegment[], more: Partial<Look> = {}): Look {
  return { segments, isBarred: () => false, expireBeforeUs: undefined, ...more }
}

/** `marked: 3 4`, or `none`. */
function chosen(segments: readonly PoolSegment[], more: Partial<Look> = {}): string {
  const choice = choose(look(segments, more))
  if (choice === undefined) return 'none'
  return `${choice.reason}: ${choice.inputs.map(one => one.segment).join(' ')}`
}

/** Segments 1, 2, … of so many rows. */
const rows = (...counts: number[]) => counts.map((count, index) => segment(index + 1, count))

test('small neighbours of a similar size are joined, the cheapest first', () => {
  expect(chosen([])).toBe('none')
  expect(chosen(rows(5000))).toBe('none')
  expect(chosen(rows(5000, 5000, 5000))).toBe('none')
  expect(chosen(rows(5000, 5000, 5000, 5000))).toBe('small: 1 2 3 4')
  expect(chosen(rows(80000, 80000, 80000, 5000, 5000, 5000, 5000))).toBe('small: 4 5 6 7')
  expect(chosen(rows(100000, 5000, 5000, 5000))).toBe('none')
  expect(chosen(rows(1, 1000, 3, 700))).toBe('small: 1 2 3 4')
})

test('what fills a segment is joined whatever the sizes, and full segments are left alone', () => {
  expect(chosen(rows(250000, 30000))).toBe('small: 1 2')
  expect(chosen(rows(300000, 30000))).toBe('none')
  expect(chosen(rows(600000, 600000, 600000, 600000))).toBe('none')
})

test('order is by sequence, not by number', () => {
  const late = segment(9, 5000, { sequenceFrom: 15, sequenceTo: 16 })
  const [a, b, c] = rows(5000, 5000, 5000) as [PoolSegment, PoolSegment, PoolSegment]
  expect(chosen([c, { ...a, sequenceTo: 14 }, late, b])).toBe('small: 1 9 2 3')
})

test('W-6, W-7: nothing is joined across a barred segment or another plan version', () => {
  const five = rows(5000, 5000, 5000, 5000, 5000)
  expect(chosen(five, { isBarred: number => number === 3 })).toBe('none')
  expect(chosen(five, { isBarred: number => number === 5 })).toBe('small: 1 2 3 4')
  const changed = five.map(one => (one.segment > 2 ? { ...one, planVersion: 2 } : one))
  expect(chosen(changed)).toBe('none')
})

test('mostly marked segments are rewritten, wholly marked ones first and together', () => {
  const marks = (...marked: number[]) => marked.map((count, i) => segment(i + 1, 100_000, { marked: count }))
  expect(chosen(marks(25_000))).toBe('none')
  expect(chosen(marks(25_001))).toBe('marked: 1')
  expect(chosen(marks(40_000, 100_000, 100_000, 0))).toBe('marked: 2 3')
  expect(chosen([segment(1, 300_000), segment(2, 300_000, { marked: 100_000 }), segment(3, 5000)])).toBe(
    'marked: 2 3',
  )
})

test('deletes go once nothing older can need them', () => {
  expect(chosen([segment(1, 0, { deletes: 10 })])).toBe('marked: 1')
  expect(chosen([segment(1, 600_000), segment(2, 0, { deletes: 10 })])).toBe('none')
  expect(chosen([segment(1, 10, { marked: 10, deletes: 1 }), segment(2, 5000)])).toBe('marked: 1')
})

test('W-6: deletes stay while a rebuild would find rows before them', () => {
  const deletes = [segment(2, 0, { deletes: 10 })]
  const emptied = (number: number) => ({ ...segment(number, 100), timestampFromUs: null })
  expect(chosen(deletes, { givenUp: [emptied(1)] })).toBe('none')
  expect(chosen(deletes, { givenUp: [emptied(3)] })).toBe('marked: 2')
  expect(olderThan(20, [segment(1, 5), segment(2, 5)], [emptied(0), emptied(3)])).toEqual([
    { fromUs: 10 * DAY_US, toUs: 11 * DAY_US },
    { fromUs: null, toUs: 11 * DAY_US },
  ])
})

test('retention comes first: wholly expired segments, then partly expired ones', () => {
  const on = (number: number, from: number, to: number, more: Partial<PoolSegment> = {}) =>
    segment(number, 100_000, { timestampFromUs: from * DAY_US, timestampToUs: to * DAY_US, ...more })
  const pool = [on(1, 1, 5), on(2, 1, 2), on(3, 1, 2, { marked: 90_000 }), on(4, 3, 5, { marked: 90_000 })]
  const before = (day: number) => ({ expireBeforeUs: day * DAY_US })
  expect(chosen(pool, before(3))).toBe('expired: 2 3')
  expect(chosen(pool.slice(0, 1), before(3))).toBe('expired: 1')
  expect(chosen(pool.slice(0, 1), before(1))).toBe('none')
  expect(chosen([on(1, 3, 3)], before(3))).toBe('none')
})

const seed = Math.floor(Math.random() * 2 ** 31)

test('whatever the manifest: inputs are neighbours, of one plan, not barred, within the limits; and it ends', () => {
  const random = randomFrom(seed)
  for (let round = 0; round < 400; round++) {
    let pool = randomPool(random)
    const barred = new Set(pool.filter(() => random() < 0.1).map(one => one.segment))
    const expireBeforeUs = random() < 0.5 ? undefined : Math.floor(random() * 20) * DAY_US
    const asked = () => look(pool, { isBarred: number => barred.has(number), expireBeforeUs })
    let next = 1000
    for (let step = 0; ; step++) {
      // Each merge leaves fewer segments, or takes the marks or expired rows of one away.
      expect(step, `seed ${seed}, round ${round}`).toBeLessThan(2 * 60 + 2)
      const choice = choose(asked())
      expect(isDebt({ ...debtOf(asked(), 0), markedRows: 0 })).toBe(choice !== undefined)
      if (choice === undefined) break
      checkInputs(pool, choice.inputs, barred)
      pool = merged(pool, choice, next++, expireBeforeUs)
    }
    for (const one of pool) {
      if (barred.has(one.segment)) continue
      expect(one.marked).toBeLessThanOrEqual((one.rows + one.deletes) / 4)
      if (expireBeforeUs !== undefined && one.rows > 0)
        expect(one.timestampFromUs).toBeGreaterThanOrEqual(expireBeforeUs)
    }
  }
})

test('windows are found as if all were written down and compared', () => {
  const random = randomFrom(seed)
  for (let round = 0; round < 600; round++) {
    const most = 2 ** (1 + Math.floor(random() * 18))
    const part = Array.from({ length: 2 + Math.floor(random() * 100) }, () => {
      // Of few sizes or of many: equal costs, and stretches that no tier joins.
      const rows = random() < 0.5 ? most : Math.ceil(random() * most)
      const bytes = rows * (random() < 0.1 ? 5000 : 100)
      const weight = Math.max(Math.max(rows, 1024) / COMPACT_ROWS_MAX, bytes / COMPACT_BYTES_MAX)
      return { of: { bytes }, rows, weight }
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
  let planVersion = 1
  return Array.from({ length: 1 + int(60) }, (_, i) => {
    if (random() < 0.03) planVersion += 1
    const count = random() < 0.1 ? 0 : int(2 ** int(20))
    const from = int(20)
    const stamps = { timestampFromUs: from * DAY_US, timestampToUs: (from + int(3)) * DAY_US }
    const deletes = count === 0 ? 1 + int(100) : random() < 0.2 ? int(100) : 0
    const marked = random() < 0.3 ? count : random() < 0.5 ? 0 : int(count)
    return segment(i + 1, count, { ...(count === 0 ? {} : stamps), deletes, marked, planVersion })
  })
}

function checkInputs(
  pool: readonly PoolSegment[],
  inputs: readonly PoolSegment[],
  barred: ReadonlySet<number>,
) {
  const ordered = bySequence(pool)
  const from = ordered.indexOf(inputs[0] as PoolSegment)
  expect(ordered.slice(from, from + inputs.length)).toEqual(inputs)
  expect(inputs.filter(one => barred.has(one.segment))).toEqual([])
  expect(new Set(inputs.map(one => one.planVersion)).size).toBe(1)
  expect(inputs.length).toBeLessThanOrEqual(COMPACT_INPUTS_MAX)
  if (inputs.length === 1) return
  expect(inputs.reduce((sum, one) => sum + one.rows + one.deletes, 0)).toBeLessThanOrEqual(COMPACT_ROWS_MAX)
  expect(inputs.reduce((sum, one) => sum + one.bytes, 0)).toBeLessThanOrEqual(COMPACT_BYTES_MAX)
}

/** Rows that come in seals of `rowsOfSeal()`: segments left and rows written by merges, in all. */
function arrive(total: number, rowsOfSeal: () => number) {
  let pool: PoolSegment[] = []
  let [arrived, written, segmentsMost, next] = [0, 0, 0, 1]
  while (arrived < total) {
    const count = rowsOfSeal()
    const number = next++
    pool = [...pool, segment(number, count, { sequenceFrom: number * 10, sequenceTo: number * 10 + 9 })]
    arrived += count
    for (let step = 0; ; step++) {
      expect(step).toBeLessThan(20)
      const choice = choose(look(pool))
      if (choice === undefined) break
      written += choice.inputs.reduce((sum, one) => sum + one.rows, 0)
      pool = merged(pool, choice, next++, undefined)
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

test('small seals: few segments besides the full ones, and a row is written again log n times', () => {
  const random = randomFrom(seed)
  const seals: [string, number, () => number, number, number][] = [
    ['2,000 rows', 3_000_000, () => 2_000, 7, 16],
    ['131,072 rows', 30_000_000, () => 131_072, 3, 16],
    ['1 to 20,000 rows', 5_000_000, () => 1 + Math.floor(random() * 20_000), 7, 16],
    ['of any size', 5_000_000, () => Math.ceil(2 ** (random() * 17)), 7, COMPACT_RUN_MAX],
  ]
  for (const [name, total, rowsOfSeal, amplifiedMax, segmentsMax] of seals) {
    const { full, segmentsMost, amplified } = arrive(total, rowsOfSeal)
    expect(segmentsMost, `${name}, seed ${seed}`).toBeLessThanOrEqual(segmentsMax)
    expect(full).toBeLessThanOrEqual((2 * total) / COMPACT_ROWS_MAX)
    expect(amplified, `${name}, seed ${seed}`).toBeLessThanOrEqual(amplifiedMax)
  }
})

test('sizes that no tier joins are joined when they are too many', () => {
  // A ruler: each segment outweighs all between it and the next larger one.
  const ruler = (n: number): number[] => (n === 0 ? [] : [...ruler(n - 1), 1000 * 3 ** n, ...ruler(n - 1)])
  let pool = rows(...ruler(6))
  expect(pool.length).toBeGreaterThan(COMPACT_RUN_MAX)
  for (let next = 1000; ; next++) {
    const choice = choose(look(pool))
    if (choice === undefined) break
    pool = merged(pool, choice, next, undefined)
  }
  expect(pool.length).toBeLessThanOrEqual(COMPACT_RUN_MAX)
})
