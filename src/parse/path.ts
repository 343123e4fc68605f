/**
 * The jsonProperty paths of a schema as one tree, so that an event's keys are each looked up once.
 *
 * A column `a.b` has two places: the path a → b through objects, and the top-level key "a.b", which
 * wins by being present. A path may go through arrays too (format/json-property.ts). Keys are
 * compared as bytes; `constructor` and `__proto__` are plain names
 * here.
 */
import type { SchemaColumn } from '../format/schema.ts'

/** A name or an index in the tree. The root stands for the event itself. */
export class PathNode {
  /** Its slot in the arrays of an EventScan. */
  readonly index: number
  readonly key: Uint8Array
  readonly children: PathNode[] = []
  /** Elements of an array that paths name, by index. */
  readonly elements = new Map<number, PathNode>()
  /** Slots of all nodes under this one. */
  below: Int32Array = new Int32Array(0)
  #buckets: PathNode[][] = []
  #mask = 0

  constructor(index: number, key: Uint8Array) {
    this.index = index
    this.key = key
  }

  /** Freezes the tree below this node: from now on `find` works, and no child may be added. */
  freeze(): void {
    const nodes = [...this.children, ...this.elements.values()]
    for (const node of nodes) node.freeze()
    this.below = Int32Array.from(nodes.flatMap(node => [node.index, ...node.below]))
    let size = 1
    while (size < 2 * this.children.length) size *= 2
    this.#mask = size - 1
    this.#buckets = Array.from({ length: size }, () => [])
    for (const child of this.children)
      this.#buckets[hash(child.key, 0, child.key.length) & this.#mask]!.push(child)
  }

  /** The child whose key is bytes [from, to), or null. */
  find(bytes: Uint8Array, from: number, to: number): PathNode | null {
    const bucket = this.#buckets[hash(bytes, from, to) & this.#mask]!
    for (let i = 0; i < bucket.length; i++) {
      const child = bucket[i]!
      if (sameBytes(child.key, bytes, from, to)) return child
    }
    return null
  }
}

/** Length, first, middle and last byte: few names of one event agree in all four. */
function hash(bytes: Uint8Array, from: number, to: number): number {
  const length = to - from
  if (length === 0) return 0
  return length + 3 * bytes[from]! + 7 * bytes[from + (length >> 1)]! + 13 * bytes[to - 1]!
}

function sameBytes(key: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean {
  if (key.length !== to - from) return false
  for (let i = 0; i < key.length; i++) if (key[i] !== bytes[from + i]) return false
  return true
}

const NO_KEY = new Uint8Array(0)

export interface Paths {
  readonly root: PathNode
  /** Slots: nodes of the tree, the root's included. */
  readonly slots: number
  /** By column: the slot of the top-level key that equals the whole jsonProperty. */
  readonly whole: Int32Array
  /** By column: the slot at the path's end; the same one where the text has no dot. */
  readonly path: Int32Array
  /** Bytes of the longest key. A longer key of an event, unescaped, is not in the tree. */
  readonly keyBytesMax: number
}

/** The tree of all columns' paths. */
export function makePaths(columns: readonly Pick<SchemaColumn, 'jsonProperty' | 'path'>[]): Paths {
  const encoder = new TextEncoder()
  let slots = 0
  let keyBytesMax = 0
  const root = new PathNode(slots++, new Uint8Array(0))
  const element = (of: PathNode, index: number): PathNode => {
    const node = of.elements.get(index) ?? new PathNode(slots++, NO_KEY)
    of.elements.set(index, node)
    return node
  }
  const child = (of: PathNode, name: string): PathNode => {
    const key = encoder.encode(name)
    keyBytesMax = Math.max(keyBytesMax, key.length)
    let node = of.children.find(have => sameBytes(have.key, key, 0, key.length))
    if (node === undefined) {
      node = new PathNode(slots++, key)
      of.children.push(node)
    }
    return node
  }
  const step = (of: PathNode, to: string | number) =>
    typeof to === 'number' ? element(of, to) : child(of, to)
  const whole = Int32Array.from(columns, ({ jsonProperty }) => child(root, jsonProperty).index)
  const path = Int32Array.from(
    columns,
    column => (column.path ?? column.jsonProperty.split('.')).reduce(step, root).index,
  )
  root.freeze()
  return { root, slots, whole, path, keyBytesMax }
}
