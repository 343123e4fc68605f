/** A first-in, first-out list with cheap removal at its head. Its users bound its length. */

const DEAD_MAX = 1024

export class Fifo<T> {
  #items: (T | undefined)[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  /** The oldest item, which stays. */
  peek(): T | undefined {
    return this.#items[this.#head]
  }

  /** Takes the oldest item. */
  shift(): T | undefined {
    if (this.length === 0) return undefined
    const item = this.#items[this.#head]
    this.#items[this.#head] = undefined
    this.#head += 1
    if (this.#head === this.#items.length) {
      this.#items = []
      this.#head = 0
    } else if (this.#head >= DEAD_MAX && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }
}
