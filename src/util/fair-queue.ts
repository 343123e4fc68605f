/**
 * A queue that serves its keys in turn, one item of each, in the order they came. Its user bounds
 * the items (W-9), by shares of their keys (shares.ts) where keys are applications.
 */
export class FairQueue<T> {
  readonly #lanes = new Map<string, T[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  push(key: string, item: T): void {
    const lane = this.#lanes.get(key)
    if (lane === undefined) this.#lanes.set(key, [item])
    else lane.push(item)
    this.#size++
  }

  /** The number of items of each key that has some. */
  sizes(): [key: string, items: number][] {
    return [...this.#lanes].map(([key, lane]) => [key, lane.length])
  }

  /**
   * Removes the next item that `mayGo`, the first one of its key. The key goes to the end of the
   * round, and a key whose first item may not go keeps its place.
   */
  tryShift(mayGo: (key: string, item: T) => boolean = () => true): T | undefined {
    for (const [key, lane] of this.#lanes) {
      const [item] = lane
      if (item === undefined || !mayGo(key, item)) continue
      lane.shift()
      this.#lanes.delete(key)
      if (lane.length > 0) this.#lanes.set(key, lane)
      this.#size--
      return item
    }
    return undefined
  }

  /** Removes an item that no longer waits. Returns false where it was not there. */
  remove(key: string, item: T): boolean {
    const lane = this.#lanes.get(key)
    const at = lane?.indexOf(item) ?? -1
    if (lane === undefined || at < 0) return false
    lane.splice(at, 1)
    this.#size--
    if (lane.length === 0) this.#lanes.delete(key)
    return true
  }
}
