/**
 * Finds a schema's values in one event. The walk over the event's bytes leaves the kind and the
 * place of the value at each name of the schema's path tree. It makes no object.
 *
 * The last duplicate of a key wins at each level, as in JSON.parse: a name that comes again forgets
 * all that was found below its earlier value.
 */
import { CLOSE_ARRAY, CLOSE_OBJECT, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './characters.ts'
import { EXPECTED, FOUND } from './event-error.ts'
import type { JsonScan } from './json-scan.ts'
import type { PathNode, Paths } from './path.ts'
import { unescapeInto } from './unescape.ts'

/** A byte of a key takes at most six in the source: \u0041. */
const ESCAPE_BYTES_MAX = 6

/** The walk over one event after the other. Its arrays hold the last event's values. */
export class EventScan {
  /** By slot: the value's kind, one of FOUND; `nothing` where there is none. */
  readonly found: Uint8Array
  /** By slot: JsonScan.mark of the value. */
  readonly mark: Uint8Array
  /** By slot: the value's first byte in the scan's bytes, and the one after its last. */
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly #scan: JsonScan
  readonly #paths: Paths
  readonly #key: Uint8Array

  constructor(scan: JsonScan, paths: Paths) {
    this.#scan = scan
    this.#paths = paths
    this.found = new Uint8Array(paths.slots)
    this.mark = new Uint8Array(paths.slots)
    this.starts = new Int32Array(paths.slots)
    this.ends = new Int32Array(paths.slots)
    this.#key = new Uint8Array(ESCAPE_BYTES_MAX * paths.keyBytesMax)
  }

  /** Forgets the values of the last event. */
  clear(): void {
    this.found.fill(FOUND.nothing)
  }

  /** Walks the event whose brace is at the scan's position; false where it is refused. */
  walk(): boolean {
    this.found.fill(FOUND.nothing)
    return this.#object(this.#paths.root)
  }

  /** Recurses only along the schema's paths, and no deeper than DEPTH_MAX. */
  #object(node: PathNode): boolean {
    const scan = this.#scan
    if (!scan.enter()) return false
    if (scan.skipSpace() === CLOSE_OBJECT) {
      scan.leave()
      return true
    }
    for (;;) {
      if (scan.bytes[scan.pos] !== QUOTE) return scan.refuseGrammar(EXPECTED.key)
      const from = scan.pos + 1
      if (!scan.skipString()) return false
      const child =
        scan.mark === 0 ? node.find(scan.bytes, from, scan.pos - 1) : this.#findEscaped(node, from)
      if (!scan.skipColon()) return false
      if (!(child === null ? scan.skipValue() : this.#value(child))) return false
      const byte = scan.skipSpace()
      if (byte === CLOSE_OBJECT) {
        scan.leave()
        return true
      }
      if (byte !== COMMA) return scan.refuseGrammar(EXPECTED.brace)
      scan.pos++
      scan.skipSpace()
    }
  }

  /** As `#object`: recurses only along the schema's paths. */
  #array(node: PathNode): boolean {
    const scan = this.#scan
    if (!scan.enter()) return false
    if (scan.skipSpace() === CLOSE_ARRAY) {
      scan.leave()
      return true
    }
    for (let index = 0; ; index++) {
      const element = node.elements.get(index)
      if (!(element === undefined ? scan.skipValue() : this.#value(element))) return false
      const byte = scan.skipSpace()
      if (byte === CLOSE_ARRAY) {
        scan.leave()
        return true
      }
      if (byte !== COMMA) return scan.refuseGrammar(EXPECTED.bracket)
      scan.pos++
      scan.skipSpace()
    }
  }

  /** The child for a key with escapes that began at `from` and whose quote the scan just passed. */
  #findEscaped(node: PathNode, from: number): PathNode | null {
    const to = this.#scan.pos - 1
    if (to - from > this.#key.length) return null
    const length = unescapeInto(this.#key, 0, this.#scan.bytes, from, to)
    return node.find(this.#key, 0, length)
  }

  #value(node: PathNode): boolean {
    const scan = this.#scan
    const slot = node.index
    if (this.found[slot] !== FOUND.nothing) for (const below of node.below) this.found[below] = FOUND.nothing
    this.starts[slot] = scan.pos
    if (node.children.length > 0 && scan.bytes[scan.pos] === OPEN_OBJECT) {
      if (!this.#object(node)) return false
      scan.found = FOUND.object
    } else if (node.elements.size > 0 && scan.bytes[scan.pos] === OPEN_ARRAY) {
      if (!this.#array(node)) return false
      scan.found = FOUND.array
    } else if (!scan.skipValue()) return false
    this.found[slot] = scan.found
    this.mark[slot] = scan.mark
    this.ends[slot] = scan.pos
    return true
  }
}
