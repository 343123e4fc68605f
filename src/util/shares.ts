/**
 * Room that applications share: bytes or places. An application may have as much as others leave
 * free (dynamic thresholds, Choudhury and Hahne 1998): one alone has half of the room, k of them
 * 1/(k+1) each, and a further one finds as much free.
 *
 *   W-9  Together they never have more than the room.
 */
import { assert } from './errors.ts'

/** True where a key that has `own` may have `amount` more, of `free` room. */
export function mayTake(own: number, free: number, amount = 1): boolean {
  return own + amount <= free
}

export class Shares {
  readonly #room: number
  readonly #taken = new Map<string, number>()
  #all = 0

  constructor(room: number) {
    this.#room = room
  }

  /** What all have. */
  get all(): number {
    return this.#all
  }

  /** Takes room for a key; false where its share is used up, or the room is. */
  tryTake(key: string, amount = 1): boolean {
    const own = this.#taken.get(key) ?? 0
    if (!mayTake(own, this.#room - this.#all, amount)) return false
    this.#taken.set(key, own + amount)
    this.#all += amount
    return true
  }

  give(key: string, amount = 1): void {
    const left = (this.#taken.get(key) ?? 0) - amount
    assert(left >= 0, 'a key gives back what it took')
    if (left > 0) this.#taken.set(key, left)
    else this.#taken.delete(key)
    this.#all -= amount
  }
}
