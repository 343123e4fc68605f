/** A merge beside ingest keeps to its share of a core and of the disk, on a clock that is moved by hand. */
import { describe, expect, it } from 'vitest'
import { Pacer } from '../../src/compact/pace.ts'
import type { Pace } from '../../src/compact/protocol.ts'
import { Unavailable } from '../../src/errors.ts'
import { MERGE_BYTES_PER_S, MERGE_CPU_SHARE, MERGE_SAVED_MS_MAX } from '../../src/limits.ts'

class Hand {
  cpu = 0
  now = 0
  timer: { at: number; call: () => void } | undefined
  readonly clock = {
    cpuMs: () => this.cpu,
    nowMs: () => this.now,
    after: (ms: number, call: () => void) => {
      this.timer = { at: this.now + ms, call }
      return () => {
        this.timer = undefined
      }
    },
  }

  /** A step of work that takes `ms` of wall time. */
  work(cpuMs: number, ms = cpuMs): void {
    this.cpu += cpuMs
    this.now += ms
  }

  /** Lets a running rest end on its own; true where there was one to wait for. */
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

function begin(pace: Pace): { hand: Hand; pacer: Pacer } {
  const hand = new Hand()
  const pacer = new Pacer(hand.clock, pace)
  pacer.begin()
  return { hand, pacer }
}

describe('the pace of a merge', () => {
  it('beside ingest is its share of a core, whatever its steps', async () => {
    const { hand, pacer } = begin('beside')
    for (const ms of [400, 1, 1, 3, 0.2, 90, 2, 0, 250]) {
      hand.work(ms)
      await hand.pass(pacer.rest())
    }
    expect(hand.cpu / hand.now).toBeLessThan(MERGE_CPU_SHARE + 0.005)
    expect(hand.cpu / hand.now).toBeGreaterThan(MERGE_CPU_SHARE - 0.02)
  })

  it('beside ingest is its share of a core where nobody knows the processor time', async () => {
    const hand = new Hand()
    hand.now = 60_000
    const pacer = new Pacer({ ...hand.clock, cpuMs: undefined }, 'beside')
    hand.now += 8_000 // between two merges
    const from = hand.now
    pacer.begin()
    for (let i = 0; i < 200; i++) {
      hand.work(5)
      await hand.pass(pacer.rest())
    }
    expect(hand.cpu / (hand.now - from)).toBeLessThan(MERGE_CPU_SHARE + 0.03)
    expect(hand.cpu / (hand.now - from)).toBeGreaterThan(MERGE_CPU_SHARE - 0.03)
  })

  it('beside ingest is its bytes a second, and time spent waiting for the disk counts', async () => {
    const { hand, pacer } = begin('beside')
    for (let i = 0; i < 20; i++) {
      hand.work(2, 30)
      await hand.pass(pacer.rest(4_000_000))
    }
    expect((1000 * 80_000_000) / hand.now).toBeLessThanOrEqual(MERGE_BYTES_PER_S * 1.01)
    expect((1000 * 80_000_000) / hand.now).toBeGreaterThan(MERGE_BYTES_PER_S * 0.9)
  })

  it('does not save up time that it did not use, but for a little', async () => {
    const { hand, pacer } = begin('beside')
    hand.work(1, 60_000)
    await hand.pass(pacer.rest())
    hand.work(300)
    const before = hand.now
    await hand.pass(pacer.rest())
    expect(hand.now - before).toBeGreaterThan(690 - MERGE_SAVED_MS_MAX)
  })

  it('of small merges is its share of a core, and what they wait for syncs and swaps is no rest paid twice', async () => {
    const { hand, pacer } = begin('beside')
    let rests = 0
    for (let merge = 0; merge < 100; merge++) {
      pacer.begin()
      for (const [cpu, ms] of [
        [6, 6],
        [1, 20],
        [1, 10],
      ] as const) {
        hand.work(cpu, ms)
        const before = hand.now
        await hand.pass(pacer.rest())
        rests += hand.now - before
      }
      hand.work(1, 4) // the answer, the swap, the next job
    }
    expect(hand.cpu / hand.now).toBeLessThan(MERGE_CPU_SHARE)
    // 9 ms of work are due 30 ms, and 40 go by.
    expect(rests / 100).toBeLessThan(1)
  })

  it('of small merges that wait for nothing is its share too', async () => {
    const { hand, pacer } = begin('beside')
    for (let merge = 0; merge < 100; merge++) {
      pacer.begin()
      hand.work(8)
      await hand.pass(pacer.rest())
      hand.work(4)
    }
    expect(hand.cpu / hand.now).toBeLessThan(MERGE_CPU_SHARE + 0.01)
    expect(hand.cpu / hand.now).toBeGreaterThan(MERGE_CPU_SHARE - 0.02)
  })

  it('alone rests never, and takes messages all the same', async () => {
    const { hand, pacer } = begin('alone')
    let messages = 0
    setImmediate(() => {
      messages += 1
    })
    hand.work(1000)
    expect(await hand.pass(pacer.rest(1e9))).toBe(false)
    expect(messages).toBe(1)
  })

  it('alone ends a running rest', async () => {
    const { hand, pacer } = begin('beside')
    hand.work(1000)
    const rest = pacer.rest()
    pacer.set('alone')
    await rest
    expect(hand.timer).toBeUndefined()
    expect(hand.now).toBe(1000)
    pacer.set('beside')
    hand.work(3)
    expect(await hand.pass(pacer.rest())).toBe(true)
    expect(hand.now).toBeLessThan(1020)
  })

  it('ends with a stop: the running rest, and every later one, rejects', async () => {
    for (const pace of ['beside', 'alone'] as const) {
      const { hand, pacer } = begin(pace)
      hand.work(1000)
      const rest = pacer.rest()
      pacer.stop()
      await expect(rest).rejects.toThrow(Unavailable)
      await expect(pacer.rest()).rejects.toMatchObject({ code: 'stopping' })
    }
  })
})
