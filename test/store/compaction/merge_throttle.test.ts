/** A throttled merge stays within its share of a core and of the disk. The test moves the clock. */
import { describe, expect, test } from 'vitest'
import type { MergeSpeed } from '../../../src/store/compaction/compaction-types.ts'
import {
  MERGE_BYTES_PER_S,
  MERGE_CPU_SHARE,
  MERGE_CREDIT_MS_MAX,
  MergeThrottle,
} from '../../../src/store/compaction/merge-throttle.ts'
import { Unavailable } from '../../../src/util/errors.ts'

class TestClock {
  cpu = 0
  now = 0
  timer: { at: number; call: () => void } | undefined
  readonly asDeps = {
    cpuMs: () => this.cpu,
    nowMs: () => this.now,
    after: (ms: number, call: () => void) => {
      this.timer = { at: this.now + ms, call }
      return () => {
        this.timer = undefined
      }
    },
  }

  /** A step of work of `cpuMs` that takes `ms` of wall time. */
  work(cpuMs: number, ms = cpuMs): void {
    this.cpu += cpuMs
    this.now += ms
  }

  /** Lets a running rest end. Resolves with true where there was one. */
  async pass(rest: Promise<void>): Promise<boolean> {
    const timer = this.timer
    this.timer = undefined
    if (timer !== undefined) {
      this.now = timer.at
      timer.call()
    }
    await rest
    return timer !== undefined
  }
}

function begin(speed: MergeSpeed): { clock: TestClock; throttle: MergeThrottle } {
  const clock = new TestClock()
  const throttle = new MergeThrottle(clock.asDeps, speed)
  throttle.begin()
  return { clock, throttle }
}

describe('a throttled merge', () => {
  test('uses its share of a core, whatever its steps', async () => {
    const { clock, throttle } = begin('throttled')
    for (const ms of [400, 1, 1, 3, 0.2, 90, 2, 0, 250]) {
      clock.work(ms)
      await clock.pass(throttle.rest())
    }
    expect(clock.cpu / clock.now).toBeLessThan(MERGE_CPU_SHARE + 0.005)
    expect(clock.cpu / clock.now).toBeGreaterThan(MERGE_CPU_SHARE - 0.02)
  })

  test('uses its share of a core where the processor time is not measurable', async () => {
    const clock = new TestClock()
    clock.now = 60_000
    const throttle = new MergeThrottle({ ...clock.asDeps, cpuMs: undefined }, 'throttled')
    clock.now += 8_000 // between two merges
    const from = clock.now
    throttle.begin()
    for (let i = 0; i < 200; i++) {
      clock.work(5)
      await clock.pass(throttle.rest())
    }
    expect(clock.cpu / (clock.now - from)).toBeLessThan(MERGE_CPU_SHARE + 0.03)
    expect(clock.cpu / (clock.now - from)).toBeGreaterThan(MERGE_CPU_SHARE - 0.03)
  })

  test('reads and writes its bytes a second; waits for the disk count as rests', async () => {
    const { clock, throttle } = begin('throttled')
    for (let i = 0; i < 20; i++) {
      clock.work(2, 30)
      await clock.pass(throttle.rest(4_000_000))
    }
    expect((1000 * 80_000_000) / clock.now).toBeLessThanOrEqual(MERGE_BYTES_PER_S * 1.01)
    expect((1000 * 80_000_000) / clock.now).toBeGreaterThan(MERGE_BYTES_PER_S * 0.9)
  })

  test('gains little credit from unused time', async () => {
    const { clock, throttle } = begin('throttled')
    clock.work(1, 60_000)
    await clock.pass(throttle.rest())
    clock.work(300)
    const before = clock.now
    await clock.pass(throttle.rest())
    expect(clock.now - before).toBeGreaterThan(690 - MERGE_CREDIT_MS_MAX)
  })

  test('in many small merges uses its share of a core; waits for syncs and commits count as rests', async () => {
    const { clock, throttle } = begin('throttled')
    let rests = 0
    for (let merge = 0; merge < 100; merge++) {
      throttle.begin()
      for (const [cpu, ms] of [
        [6, 6],
        [1, 20],
        [1, 10],
      ] as const) {
        clock.work(cpu, ms)
        const before = clock.now
        await clock.pass(throttle.rest())
        rests += clock.now - before
      }
      clock.work(1, 4) // the answer, the commit, the next task
    }
    expect(clock.cpu / clock.now).toBeLessThan(MERGE_CPU_SHARE)
    // 9 ms of work require 30 ms, and 40 ms pass.
    expect(rests / 100).toBeLessThan(1)
  })

  test('in small merges without waits uses its share too', async () => {
    const { clock, throttle } = begin('throttled')
    for (let merge = 0; merge < 100; merge++) {
      throttle.begin()
      clock.work(8)
      await clock.pass(throttle.rest())
      clock.work(4)
    }
    expect(clock.cpu / clock.now).toBeLessThan(MERGE_CPU_SHARE + 0.01)
    expect(clock.cpu / clock.now).toBeGreaterThan(MERGE_CPU_SHARE - 0.02)
  })

  test('at full speed never rests, and still takes messages', async () => {
    const { clock, throttle } = begin('full')
    let messages = 0
    setImmediate(() => {
      messages += 1
    })
    clock.work(1000)
    expect(await clock.pass(throttle.rest(1e9))).toBe(false)
    expect(messages).toBe(1)
  })

  test('ends its rest when it is set to full speed', async () => {
    const { clock, throttle } = begin('throttled')
    clock.work(1000)
    const rest = throttle.rest()
    throttle.set('full')
    await rest
    expect(clock.timer).toBeUndefined()
    expect(clock.now).toBe(1000)
    throttle.set('throttled')
    clock.work(3)
    expect(await clock.pass(throttle.rest())).toBe(true)
    expect(clock.now).toBeLessThan(1020)
  })

  test('rejects the running rest and every later one after a stop', async () => {
    for (const speed of ['throttled', 'full'] as const) {
      const { clock, throttle } = begin(speed)
      clock.work(1000)
      const rest = throttle.rest()
      throttle.stop()
      await expect(rest).rejects.toThrow(Unavailable)
      await expect(throttle.rest()).rejects.toMatchObject({ code: 'stopping' })
    }
  })
})
