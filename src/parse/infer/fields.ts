/**
 * Reads sample events into a tree of fields: every name on a path of at most DEPTH names, with the
 * facts of its values. It follows the rules by which a column finds its value (parse-event.ts): own
 * names, compared unescaped, and the last duplicate wins at each level.
 *
 * Work and memory are bounded: each byte is read once for every level of the tree, and at most
 * FIELDS_MAX names are kept. Later names are not read.
 */

import { JSON_PROPERTY_BYTES_MAX } from '../../util/limits.ts'
import { CLOSE_ARRAY, CLOSE_OBJECT, COMMA, OPEN_OBJECT } from '../characters.ts'
import { FOUND } from '../event-error.ts'
import type { JsonScan } from '../json-scan.ts'
import { unescapeInto } from '../unescape.ts'
import { idWorth } from './choose-keys.ts'
import { Facts } from './facts.ts'

/** Names on the longest path. `data.object.id` is one of Stripe's. */
export const DEPTH = 3
/** Names in the whole tree. */
const FIELDS_MAX = 2_000
/** Bytes of an id that is compared with others. */
const ID_BYTES_MAX = 200
/** A byte of a key takes at most six in the source: \u0041. */
const ESCAPE_BYTES_MAX = 6

/** A name with an index at its end is read as a step into an array. */
const ENDS_WITH_INDEX = /\[\d{1,4}\]$/
/** Properties that name a part of the request, and the one that is refused. */
const OF_REQUEST = /^\$(?:header\.|query\.|\.)/

/** A name at some place of the events. */
export class Field {
  readonly jsonProperty: string
  /** The names on the path, without indexes. */
  readonly names: readonly string[]
  readonly facts = new Facts()
  readonly children = new Map<string, Field>()
  /** The first element, where it is an object. */
  element: Field | undefined
  /** How surely its name is that of an event's id (choose-keys.ts); 0 where it is not. */
  readonly idWorth: number
  /** The values as ids; undefined where the name is not that of an id. */
  readonly ids: Ids | undefined
  /** Names below this one can be named by a path. */
  readonly isStep: boolean
  // The last value of this name in the event that is being read.
  event = -1
  found: number = FOUND.nothing
  mark = 0
  start = 0
  end = 0

  constructor(jsonProperty: string, names: readonly string[], worth: number, isStep: boolean) {
    this.jsonProperty = jsonProperty
    this.names = names
    this.idWorth = worth
    this.ids = worth > 0 ? new Ids() : undefined
    this.isStep = isStep
  }
}

/**
 * The values of one field as an id: whether two events of different text share one. Strings and
 * whole numbers of at most ID_BYTES_MAX bytes can be ids.
 */
class Ids {
  /** By value: the number of the text of its event. */
  readonly #texts = new Map<string, number>()
  #isOther = false
  /** A value that events of different text share; undefined where there is none. */
  repeated: string | undefined

  /** True where every value can be an id, and no two different events share one. */
  get areUnique(): boolean {
    return !this.#isOther && this.repeated === undefined && this.#texts.size > 0
  }

  /** @param text the number of the event's text; a text that comes again is an event sent again */
  add(value: Buffer, text: number): void {
    if (this.repeated !== undefined) return
    if (value.length === 0 || value.length > ID_BYTES_MAX) this.#isOther = true
    else {
      const key = value.toString('latin1')
      const before = this.#texts.get(key) ?? text
      if (before === text) this.#texts.set(key, text)
      else this.repeated = value.toString('utf8')
    }
  }

  /** A value that cannot be an id. */
  addOther(): void {
    this.#isOther = true
  }
}

/** The tree of all events that were read. */
export class Fields {
  readonly root = new Field('', [], 0, true)
  /** Events that were read. */
  events = 0
  /** True where more names came than the tree keeps. */
  isFull = false
  readonly #scan: JsonScan
  readonly #texts = new Map<string, number>()
  #fields = 0
  #text = 0

  constructor(scan: JsonScan) {
    this.#scan = scan
  }

  /** Reads the event in [start, end) of the scan's bytes, which the scan has checked. */
  read(start: number, end: number): void {
    const source = this.#scan.bytes.toString('latin1', start, end)
    this.#text = this.#texts.get(source) ?? this.#texts.size
    this.#texts.set(source, this.#text)
    this.#object(this.root, start)
    this.events++
  }

  /** The number of the text of the event that was read last. */
  get text(): number {
    return this.#text
  }

  /** Events of different text. */
  get texts(): number {
    return this.#texts.size
  }

  #object(parent: Field, start: number): void {
    const touched = this.#members(parent, start)
    for (const field of touched) this.#settle(field)
  }

  /** Finds the last value of each name of the object that begins at `start`. */
  #members(parent: Field, start: number): readonly Field[] {
    const scan = this.#scan
    const touched: Field[] = []
    scan.pos = start + 1
    let byte = scan.skipSpace()
    while (byte !== CLOSE_OBJECT) {
      const from = scan.pos + 1
      scan.skipString()
      const field = this.#child(parent, from, scan.pos - 1, scan.mark === 1)
      scan.skipColon()
      const at = scan.pos
      scan.skipValue()
      if (field !== undefined) {
        if (field.event !== this.events) touched.push(field)
        field.event = this.events
        field.found = scan.found
        field.mark = scan.mark
        field.start = at
        field.end = scan.pos
      }
      byte = scan.skipSpace()
      if (byte !== COMMA) continue
      scan.pos++
      byte = scan.skipSpace()
    }
    return touched
  }

  /** The field of the key in [from, to); undefined where no column can name it. */
  #child(parent: Field, from: number, to: number, isEscaped: boolean): Field | undefined {
    if (to === from || to - from > ESCAPE_BYTES_MAX * JSON_PROPERTY_BYTES_MAX) return undefined
    const key = textOf(this.#scan.bytes, from, to, isEscaped).toString('utf8')
    const known = parent.children.get(key)
    if (known !== undefined) return known
    const isTop = parent.names.length === 0
    const isStep = !key.includes('.') && !ENDS_WITH_INDEX.test(key)
    // Below the top a name with a dot has no path. At the top the whole text is compared first.
    if (!isTop && !isStep) return undefined
    const jsonProperty = isTop ? key : `${parent.jsonProperty}.${key}`
    if (jsonProperty === '$path' || OF_REQUEST.test(jsonProperty)) return undefined
    if (Buffer.byteLength(jsonProperty) > JSON_PROPERTY_BYTES_MAX) return undefined
    if (this.#fields === FIELDS_MAX) {
      this.isFull = true
      return undefined
    }
    this.#fields++
    const names = [...parent.names, key]
    const field = new Field(jsonProperty, names, idWorth(names), isStep)
    parent.children.set(key, field)
    return field
  }

  /** Counts the value that was found, and reads what stands below it. */
  #settle(field: Field): void {
    const { facts, found, mark, start, end } = field
    const bytes = this.#scan.bytes
    const canGoOn = field.isStep && field.names.length < DEPTH
    if (found === FOUND.string) {
      const text = textOf(bytes, start + 1, end - 1, mark === 1)
      facts.addText(text)
      field.ids?.add(text, this.#text)
      return
    }
    facts.addPlain(found, bytes, start, end, mark === 1)
    if (found === FOUND.number && mark === 0) field.ids?.add(bytes.subarray(start, end), this.#text)
    else field.ids?.addOther()
    if (found === FOUND.object && canGoOn) this.#object(field, start)
    if (found === FOUND.array) this.#array(field, start, canGoOn)
  }

  /** Counts an array's elements, and reads the first one where it is an object. */
  #array(field: Field, start: number, canGoOn: boolean): void {
    const scan = this.#scan
    scan.pos = start + 1
    let elements = 0
    let first = -1
    for (let byte = scan.skipSpace(); byte !== CLOSE_ARRAY; byte = scan.skipSpace()) {
      if (byte === COMMA) {
        scan.pos++
        continue
      }
      if (elements === 0 && byte === OPEN_OBJECT) first = scan.pos
      scan.skipValue()
      elements++
    }
    field.facts.elementsMax = Math.max(field.facts.elementsMax, elements)
    if (first < 0 || elements > 1 || !canGoOn) return
    field.element ??= new Field(`${field.jsonProperty}[0]`, field.names, 0, true)
    field.element.facts.objects++
    this.#object(field.element, first)
  }
}

/** The text of a string's bytes without escapes. */
function textOf(bytes: Buffer, from: number, to: number, isEscaped: boolean): Buffer {
  if (!isEscaped) return bytes.subarray(from, to)
  const plain = Buffer.alloc(to - from)
  return plain.subarray(0, unescapeInto(plain, 0, bytes, from, to))
}
