/**
 * Guesses at secrets are slowed, and they lock out no client with the right secret. The clock is
 * the test's.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  GUESS_WAIT_MS_MAX,
  GUESSES_APPLICATION_FREE,
  GUESSES_FREE,
  GUESSES_KEYS_MAX,
  GuessThrottle,
} from '../../src/catalog/access/guess-throttle.ts'
import { createTokens } from '../../src/catalog/access/token.ts'
import type { Application } from '../../src/catalog/documents/model.ts'
import { networkOf } from '../../src/util/addresses.ts'
import { GUESSES_WAITING_MAX } from '../../src/util/limits.ts'

const APPLICATION = 'APP1'
const EVIL = '198.51.100.1'
const HONEST = '203.0.113.7'

let throttle: GuessThrottle
let checks: number
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  throttle = new GuessThrottle(() => Date.now())
  checks = 0
})
afterEach(() => {
  vi.useRealTimers()
})

const encoded = (letter: string) => `%${letter.charCodeAt(0).toString(16)}`
const wrong = (address: string, applicationId = APPLICATION) =>
  throttle.run({ address, applicationId }, () => {
    checks += 1
    return undefined
  })
const right = (address: string, applicationId = APPLICATION) =>
  throttle.run({ address, applicationId }, () => ({ id: applicationId }))

/**
 * Connections that send the next guess as soon as the last one is answered, or after the time that
 * a refusal names.
 */
async function guess(connections: number, ms: number, addressOf: (index: number) => string) {
  const endMs = Date.now() + ms
  const one = async (index: number) => {
    while (Date.now() < endMs) {
      const result = await wrong(addressOf(index))
      if (result !== undefined) await new Promise(resolve => setTimeout(resolve, 200))
    }
  }
  const all = Promise.all(Array.from({ length: connections }, (_, index) => one(index)))
  await vi.advanceTimersByTimeAsync(ms + GUESS_WAIT_MS_MAX + 1_000) // waiting tries end too
  await all
}

describe('guesses', () => {
  test('from one address are checked ten a second after the first ten, however many connections send them', async () => {
    await guess(80, 10_000, () => EVIL)
    expect(checks).toBeGreaterThan(GUESSES_FREE)
    expect(checks).toBeLessThanOrEqual(GUESSES_FREE + 10 * 15 + 5)
  })

  test('of one application are counted together, however its id is spelled', async () => {
    const application = {
      id: 'APP-events',
      secret: 'the-secret-of-events',
      scopes: [],
    } as unknown as Application
    const tokens = createTokens({
      application: id => (id === application.id ? application : undefined),
      signingKeys: () => [{ kid: 'k', createdAt: new Date(0).toISOString(), secret: 'x'.repeat(43) }],
      monotonicMs: () => Date.now(),
    })
    const letters = [...application.id]
    let answered = 0
    const all = Array.from({ length: 40 }, async (_, index) => {
      const id = letters.map((letter, at) => (((index >> at) & 1) === 1 ? encoded(letter) : letter)).join('')
      const authorization = `Basic ${Buffer.from(`${id}:wrong`).toString('base64')}`
      await tokens.verify(authorization, EVIL)
      answered += 1
    })
    await vi.advanceTimersByTimeAsync(0)
    expect(answered).toBe(GUESSES_FREE)
    await vi.advanceTimersByTimeAsync(GUESS_WAIT_MS_MAX)
    await Promise.all(all)
  })

  test('keep nothing of the requests that they came in', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const usedAfter = () => {
      collect()
      return process.memoryUsage().heapUsed
    }
    const before = usedAfter()
    for (let index = 0; index < 3_000; index += 1) {
      const form = `client_id=${'y'.repeat(300)}&junk=${String(index).padStart(15_000, 'z')}`
      await wrong(
        `10.0.${index >> 8}.${index & 255}`,
        `${index}${new URLSearchParams(form).get('client_id')}`,
      )
      await wrong(`10.1.${index >> 8}.${index & 255}`, form.slice(10, 310 + (index % 10)))
    }
    expect(usedAfter() - before).toBeLessThan(15_000_000) // it was 45 MB when the ids were kept
  })

  test('with ever other ids are slowed by their address', async () => {
    let id = 0
    const all = Array.from({ length: 2_000 }, () => wrong(EVIL, `id ${id++}`))
    await vi.advanceTimersByTimeAsync(GUESS_WAIT_MS_MAX)
    await Promise.all(all)
    expect(checks).toBeLessThanOrEqual(50 + GUESSES_WAITING_MAX)
  })

  test('from two hundred addresses are slowed by their application once each has failed', async () => {
    const address = (index: number) => `10.0.${index >> 8}.${index & 255}`
    await guess(200, 5_000, address)
    // The first guess of each, and then the rate of the application.
    expect(checks).toBeLessThanOrEqual(200 + GUESSES_APPLICATION_FREE + 10_000 / 10)
  })

  test('are told when to come again', async () => {
    const all: Promise<object | undefined>[] = Array.from({ length: 300 }, () => wrong(EVIL))
    await vi.advanceTimersByTimeAsync(GUESS_WAIT_MS_MAX)
    const refused = (await Promise.all(all)).filter(result => result !== undefined)
    expect(refused.length).toBe(300 - checks)
    for (const result of refused) expect(result).toMatchObject({ retrySeconds: expect.any(Number) })
  })

  test('are forgotten in a bounded table', async () => {
    for (let i = 0; i < 3 * GUESSES_KEYS_MAX; i += 1)
      await wrong(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)
    expect(await right('192.0.2.1')).toEqual({ id: APPLICATION })
  })
})

describe('the right secret', () => {
  /** The time that `work` takes, by the test's clock. */
  async function msOf(judged: Promise<unknown>): Promise<number> {
    const begin = Date.now()
    let ms = -1
    void judged.then(result => {
      expect(result).toEqual({ id: APPLICATION })
      ms = Date.now() - begin
    })
    await vi.advanceTimersByTimeAsync(GUESS_WAIT_MS_MAX + 1_000)
    return ms
  }

  test('is checked at once from another address, new or known, while others guess', async () => {
    await right(HONEST)
    void guess(80, 20_000, () => EVIL)
    for (let index = 0; index < 1_000; index += 1) {
      void wrong(`10.1.${index >> 8}.${index & 255}`)
      void wrong(`10.1.${index >> 8}.${index & 255}`)
    }
    expect(await msOf(right(HONEST))).toBe(0)
    expect(await msOf(right('203.0.113.8'))).toBe(0)
  })

  test('gets its turn from the same address while sixteen connections guess there', async () => {
    void guess(16, 30_000, () => EVIL)
    await vi.advanceTimersByTimeAsync(5_000)
    const ms = await msOf(right(EVIL))
    expect(ms).toBeGreaterThan(0)
    expect(ms).toBeLessThan(GUESS_WAIT_MS_MAX)
  })

  test('never waits for itself', async () => {
    const all = Array.from({ length: 1_000 }, () => right(HONEST))
    expect(await Promise.all(all)).toHaveLength(1_000)
    for (let i = 0; i < GUESSES_FREE - 1; i += 1) await wrong(HONEST)
    expect(await msOf(right(HONEST))).toBe(0)
  })
})

test('an address of IPv6 counts by its network, IPv4 within IPv6 as itself', () => {
  expect(networkOf('192.0.2.1')).toBe('192.0.2.1')
  expect(networkOf('::ffff:192.0.2.1')).toBe('192.0.2.1')
  const network = '2001:db8:0:7::/64'
  for (const address of ['2001:db8:0:7::1', '2001:0db8:0000:0007:ffff:ffff:ffff:ffff', '2001:DB8:0:7:1::'])
    expect(networkOf(address)).toBe(network)
  expect(networkOf('2001:db8:0:8::1')).not.toBe(network)
  expect(networkOf('::1')).toBe('0:0:0:0::/64')
  expect(networkOf('')).toBe('')
})
