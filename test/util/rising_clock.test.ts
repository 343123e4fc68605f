import { Worker } from 'node:worker_threads'
import { afterEach, expect, test, vi } from 'vitest'
import { RisingClock, reserveUs } from '../../src/util/clock.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** Values of a clock while the wall clock shows each of `atMs`. */
function valuesAt(clock: RisingClock, ...atMs: number[]): number[] {
  const now = vi.spyOn(Date, 'now')
  return atMs.map(ms => {
    now.mockReturnValue(ms)
    return clock.next()
  })
}

test('it shows the wall clock, and one microsecond more where that stands or goes back', () => {
  const clock = new RisingClock()
  expect(valuesAt(clock, 5, 5, 6, 3, 6, 7)).toEqual([5000, 5001, 6000, 6001, 6002, 7000])
})

test('more than 1,000 values a millisecond run ahead until the wall clock is there', () => {
  const clock = new RisingClock()
  const burst = valuesAt(clock, ...Array.from({ length: 2500 }, () => 5))
  expect([burst[0], burst.at(-1)]).toEqual([5000, 7499])
  expect(valuesAt(clock, 6, 7, 8)).toEqual([7500, 7501, 8000])
})

test('it begins above what it is raised to, and is never lowered', () => {
  const clock = new RisingClock()
  clock.raise(9_000_000)
  clock.raise(1)
  expect(valuesAt(clock, 5, 9_500)).toEqual([9_000_001, 9_500_000])
})

test('it rises by whole microseconds where the wall clock is beyond what a number can count', () => {
  const clock = new RisingClock()
  const [first, second] = valuesAt(clock, 8.64e15, 8.64e15) as [number, number]
  expect([second - first, Number.isSafeInteger(second)]).toEqual([1, true])
})

test('a shared clock gives each thread values of its own, above what it was raised to', async () => {
  const clock = new RisingClock()
  clock.raise(41)
  const shared = clock.share()
  expect([reserveUs(shared, 0, 3), reserveUs(shared, 0, 1), reserveUs(shared, 100, 2)]).toEqual([42, 45, 100])
  expect([clock.share(), valuesAt(clock, 5, 5)]).toEqual([shared, [5000, 5000]])
  const rounds = 20_000
  const module = new URL('../../src/util/clock.js', import.meta.url).href
  const code = `import(${JSON.stringify(module)}).then(({ reserveUs }) => {
    const { workerData, parentPort } = require('node:worker_threads')
    const firsts = Array.from({ length: ${rounds} }, (_, n) => [reserveUs(workerData, 0, 1 + (n % 7)), 1 + (n % 7)])
    parentPort.postMessage(firsts)
  })`
  const threads = [1, 2].map(
    () =>
      new Promise<[number, number][]>((resolve, reject) => {
        const worker = new Worker(code, { eval: true, workerData: shared })
        worker.once('message', resolve)
        worker.once('error', reject)
      }),
  )
  const all = (await Promise.all(threads)).flat().sort(([a], [b]) => a - b)
  let nextUs = 102
  for (const [firstUs, count] of all) {
    expect(firstUs).toBe(nextUs)
    nextUs += count
  }
  expect(all).toHaveLength(2 * rounds)
})

test('clocks of nodes give values of their slots alone, whole steps apart', async () => {
  const slots = [3, 99]
  const all: number[] = []
  for (const slot of slots) {
    const clock = new RisingClock({ stepUs: 100, slot: () => slot })
    clock.raise(4_950)
    // At and below what it was raised to, where the wall clock stands, and where it goes back.
    const values = valuesAt(clock, 4, 5, 5, 6, 3)
    const first = slot === 3 ? 5_003 : 4_999
    expect(values).toEqual([
      first,
      ...(slot === 3 ? [5_103, 5_203] : [5_099, 5_199]),
      6_000 + slot,
      6_100 + slot,
    ])
    const shared = clock.share()
    const [from] = valuesAt(clock, 6)
    const reserved = [reserveUs(shared, from!, 3), reserveUs(shared, from!, 1), reserveUs(shared, from!, 1)]
    expect(reserved).toEqual([6_200 + slot, 6_500 + slot, 6_600 + slot])
    all.push(...values, ...reserved, clock.reserve(1))
  }
  expect(new Set(all).size).toBe(all.length)
  expect(all.every(us => slots.includes(us % 100))).toBe(true)
})

test('a clock whose slot changes rises on, and what was begun keeps the slot that it began with', () => {
  let slot = 7
  const clock = new RisingClock({ stepUs: 100, slot: () => slot })
  expect(valuesAt(clock, 5, 5)).toEqual([5_007, 5_107])
  slot = 2
  expect(valuesAt(clock, 5, 5)).toEqual([5_202, 5_302])
  const shared = clock.share()
  const [before] = valuesAt(clock, 5)
  slot = 50
  const [after] = valuesAt(clock, 5)
  const reserved = [before!, after!, before!].map(us => reserveUs(shared, us, 2))
  expect(reserved).toEqual([5_402, 5_550, 5_702])
})
