/**
 * What the keys of one transaction take: compaction moves no more of them at once than seals can wait for
 * (compact/swap-costs.ts).
 */
import { KEY_COST_KEYS_MIN } from '../limits.ts'
import { monotonicMs } from '../util/clock.ts'
import type { KeyRun, SealCommitted } from './protocol.ts'

/** Made where the transaction begins. */
export class KeyCost {
  readonly #beginMs = monotonicMs()
  /** Of each seal or swap, in order. */
  readonly #parts: { readonly keys: number; readonly ms: number }[] = []

  /** Runs the part of one seal or swap. */
  of<T>({ keys }: { readonly keys: KeyRun | undefined }, work: () => T): T {
    const beginMs = monotonicMs()
    const result = work()
    const count = keys === undefined ? 0 : new Int32Array(keys, 0, 1)[0]!
    this.#parts.push({ keys: count, ms: monotonicMs() - beginMs })
    return result
  }

  /**
   * Once the transaction is flushed: each answer with what the keys of its part took: their own time, and their share of all
   * else by the number of keys. A part without keys stays without; one with fewer than KEY_COST_KEYS_MIN tells nothing of a key.
   */
  tell(committed: SealCommitted[]): SealCommitted[] {
    const own = this.#parts.reduce((sum, { ms }) => sum + ms, 0)
    const keysOfAll = this.#parts.reduce((sum, part) => sum + part.keys, 0)
    const shared = (monotonicMs() - this.#beginMs - own) / keysOfAll
    return committed.map((one, at) => {
      const { keys, ms } = this.#parts[at]!
      if (keys === 0) return one
      const keysMs = ms + keys * shared
      return keys < KEY_COST_KEYS_MIN
        ? { ...one, keysMs }
        : { ...one, keysMs, usPerKey: (1000 * keysMs) / keys }
    })
  }
}
