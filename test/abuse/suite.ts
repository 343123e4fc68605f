/**
 * Makes a test of each attack over each HTTP library, with the limits that a well-behaved producer
 * relies on.
 */
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import type { Attack } from './attack.ts'
import { AttackServer, choosing, type FrontEnd, frontEndsOf } from './run.ts'

/** No ack of the producer is later during an attack, on a machine that is otherwise idle. */
const ACK_MS_MAX = 1_000
/**
 * On a loaded machine acks are late without an attack too. During one they are at most this many
 * times as late.
 */
const CALM_FACTOR = 10
/**
 * V8 collects garbage late: attacks on a server that took others before grew by 1 to 345 MiB, the
 * same one each time by another figure. What is kept without a limit grows by far more.
 */
const GROWTH_MIB_MAX = 500
/** What an attack does to a server shows at once, or it names a time of its own. */
const ATTACK_SECONDS = 2
const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))

/**
 * One test for each attack, over the HTTP library that a server would choose; in `npm
 * run test:long` one for each library. Attacks with equal settings share a server.
 */
export function abuse(attacks: readonly Attack[]): void {
  const frontEnds = frontEndsOf(MAIN)
  const tested = process.env['WEIR_TEST_LONG'] === '1' ? frontEnds : frontEnds.slice(0, 1)
  const servers = new Servers(frontEnds)
  afterAll(() => servers.end())
  describe.each(tested)('over %s', frontEnd => {
    test.each(attacks)('$name', async attack => {
      const server = await servers.of(attack, frontEnd)
      const outcome = await server.run(attack, attack.seconds ?? ATTACK_SECONDS)
      const { worstMs, calmMs, growthMiB, ...rest } = outcome
      expect(rest, JSON.stringify(outcome)).toMatchObject({ probesFailed: [], ended: undefined })
      expect(rest.failed, JSON.stringify(outcome)).toEqual({})
      expect(outcome.requests).toBeGreaterThan(0)
      expect(growthMiB, JSON.stringify(outcome)).toBeLessThan(GROWTH_MIB_MAX)
      expect(worstMs, JSON.stringify(outcome)).toBeLessThan(Math.max(ACK_MS_MAX, CALM_FACTOR * calmMs))
    })
  })
}

/** The server of the last attack. */
class Servers {
  readonly #frontEnds: readonly FrontEnd[]
  #last: { readonly settings: string; readonly server: AttackServer } | undefined

  constructor(frontEnds: readonly FrontEnd[]) {
    this.#frontEnds = frontEnds
  }

  /** The same server as before, where it runs and has the settings that this attack needs. */
  async of({ args, descriptorsMax }: Attack, frontEnd: FrontEnd): Promise<AttackServer> {
    const settings = JSON.stringify([args, descriptorsMax, frontEnd])
    if (this.#last?.settings === settings && !this.#last.server.hasEnded) return this.#last.server
    await this.end()
    const options = { args: choosing(frontEnd, this.#frontEnds) }
    const server = await AttackServer.start(
      { ...(args && { args }), ...(descriptorsMax && { descriptorsMax }) },
      options,
    )
    this.#last = { settings, server }
    return server
  }

  /** No request of a producer is without an answer at the end. */
  async end(): Promise<void> {
    const last = this.#last
    this.#last = undefined
    if (last !== undefined) expect(await last.server.kill()).toEqual({})
  }
}
