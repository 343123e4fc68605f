/**
 * The documents of one kind in memory: by id, by unique name, by the object that they belong to,
 * and in the order of their creation.
 */

interface Document {
  readonly id: string
  readonly createdAt: string
}

interface CollectionOptions<T> {
  readonly nameOf?: (document: T) => string
  /** The object whose list `of` returns. */
  readonly ownerOf?: (document: T) => string
  /** A document's position in its lists, which never changes; positions rise as strings. */
  readonly positionOf?: (document: T) => string
}

export class Collection<T extends Document> {
  readonly #byId = new Map<string, T>()
  readonly #byName = new Map<string, T>()
  readonly #byOwner = new Map<string, Sorted<T>>()
  readonly #sorted: Sorted<T>
  readonly #options: CollectionOptions<T>
  readonly positionOf: (document: T) => string

  constructor(options: CollectionOptions<T>) {
    this.#options = options
    this.positionOf = options.positionOf ?? (({ createdAt, id }) => `${createdAt}/${id}`)
    this.#sorted = new Sorted(this.positionOf)
  }

  get size(): number {
    return this.#byId.size
  }

  get(id: string): T | undefined {
    return this.#byId.get(id)
  }

  byName(uniqueName: string): T | undefined {
    return this.#byName.get(uniqueName)
  }

  /** The document of an id, else of a unique name. No name is the id of another document. */
  find(idOrName: string): T | undefined {
    return this.#byId.get(idOrName) ?? this.#byName.get(idOrName)
  }

  has(name: string): boolean {
    return this.#byName.has(name) || this.#byId.has(name)
  }

  /** Oldest first. */
  all(): readonly T[] {
    return this.#sorted.items
  }

  /** The documents of one owner, oldest first. */
  of(owner: string): readonly T[] {
    return this.#byOwner.get(owner)?.items ?? []
  }

  set(document: T): void {
    this.delete(document.id)
    this.#byId.set(document.id, document)
    const name = this.#options.nameOf?.(document)
    if (name !== undefined) this.#byName.set(name, document)
    this.#sorted.add(document)
    const owner = this.#options.ownerOf?.(document)
    if (owner === undefined) return
    const list = this.#byOwner.get(owner) ?? new Sorted(this.positionOf)
    this.#byOwner.set(owner, list)
    list.add(document)
  }

  delete(id: string): void {
    const old = this.#byId.get(id)
    if (old === undefined) return
    this.#byId.delete(id)
    const name = this.#options.nameOf?.(old)
    if (name !== undefined) this.#byName.delete(name)
    this.#sorted.remove(old)
    const owner = this.#options.ownerOf?.(old)
    if (owner === undefined) return
    const list = this.#byOwner.get(owner)
    list?.remove(old)
    if (list?.items.length === 0) this.#byOwner.delete(owner)
  }
}

/** A reader keeps the list that it got: a change makes a new one at the next read. */
class Sorted<T> {
  readonly #positionOf: (document: T) => string
  readonly #positions: string[] = []
  readonly #documents: T[] = []
  #items: readonly T[] | undefined

  constructor(positionOf: (document: T) => string) {
    this.#positionOf = positionOf
  }

  get items(): readonly T[] {
    this.#items ??= [...this.#documents]
    return this.#items
  }

  add(document: T): void {
    const position = this.#positionOf(document)
    const at = this.#indexOf(position)
    this.#positions.splice(at, 0, position)
    this.#documents.splice(at, 0, document)
    this.#items = undefined
  }

  remove(document: T): void {
    const position = this.#positionOf(document)
    const at = this.#indexOf(position)
    if (this.#positions[at] !== position) return
    this.#positions.splice(at, 1)
    this.#documents.splice(at, 1)
    this.#items = undefined
  }

  #indexOf(position: string): number {
    let low = 0
    let high = this.#positions.length
    // Documents mostly arrive in order.
    if (high === 0 || this.#positions[high - 1]! < position) return high
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#positions[middle]! < position) low = middle + 1
      else high = middle
    }
    return low
  }
}
