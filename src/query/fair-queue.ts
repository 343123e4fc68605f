/** A bounded queue that takes turns: one item of each key, then the next round. In a key, first in first out. */
export class FairQueue<T> {
  readonly #lanes = new Map<string, T[]>()
  readonly #max: number
  #size = 0

  /** @param max items of all keys together */
  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#size
  }

  /** False where the queue is full. */
  tryPush(key: string, item: T): boolean {
    if (this.#size >= this.#max) return false
    const lane = this.#lanes.get(key)
    if (lane === undefined) this.#lanes.set(key, [item])
    else lane.push(item)
    this.#size++
    return true
  }

  /** The next item in turn; its key goes to the end of the round. */
  tryShift(): T | undefined {
    for (const [key, lane] of this.#lanes) {
      const item = lane.shift()
      this.#lanes.delete(key)
      if (lane.length > 0) this.#lanes.set(key, lane)
      this.#size--
      return item
    }
    return undefined
  }

  /** Takes out one item that waits no longer. */
  remove(key: string, item: T): void {
    const lane = this.#lanes.get(key)
    const at = lane?.indexOf(item) ?? -1
    if (lane === undefined || at < 0) return
    lane.splice(at, 1)
    this.#size--
    if (lane.length === 0) this.#lanes.delete(key)
  }
}
