/**
 * What the fields of a file and the columns of a pool do not have in common. A field that matches
 * no column stays in the payload, and a column that nothing fills is null, so the answer of an
 * import tells both. A *field* is a header of CSV, a column of Parquet or a property of an event.
 */

import { PAYLOAD, type SchemaColumn } from '../../format/schema.ts'
import { isObject, jsonIn } from '../../util/json.ts'
import { KiB } from '../../util/limits.ts'
import { isOneEditAway, plain } from '../../util/misspelt.ts'

/** Events that are compared at the beginning of a body that has no header, and their bytes. */
const COMPARED_EVENTS_MAX = 1_000
const COMPARED_BYTES_MAX = 4_096 * KiB
/** Fields without a column that an answer lists. */
const LISTED_FIELDS_MAX = 100
/** The longest jsonProperty has as many bytes. */
const LISTED_CHARACTERS_MAX = 1_024
/** Names of a path that are compared. */
const PATH_NAMES_MAX = 16
/** Shortest name of which one with another letter is near. */
const NEAR_CHARACTERS_MIN = 4

interface UnknownField {
  readonly field: string
  /** An unfilled column whose name or property is near; null where there is none. */
  readonly column: string | null
}

export interface FieldComparison {
  /** Fields that match no column, near ones first; at most LISTED_FIELDS_MAX. */
  readonly unknownFields: readonly UnknownField[]
  /** Columns that no field fills. */
  readonly unfilledColumns: readonly string[]
}

export const NOTHING_COMPARED: FieldComparison = { unknownFields: [], unfilledColumns: [] }

type Named = Pick<SchemaColumn, 'name' | 'jsonProperty'>

/** The column of an export, which decides how a file is read. */
const EXPORTED: Named = { name: PAYLOAD, jsonProperty: PAYLOAD }

/** @param unknown fields; true for one that holds an object or an array */
export function comparison(
  unknown: ReadonlyMap<string, boolean>,
  unfilled: readonly Named[],
): FieldComparison {
  const nearest = nearestOf([...unfilled, EXPORTED])
  const fields = [...unknown].map(([field, isNested]) => ({ field, column: nearest(field, isNested) }))
  const isNear = ({ column }: UnknownField) => column !== null
  const sorted = [...fields.filter(isNear), ...fields.filter(field => !isNear(field))]
  return {
    unknownFields: sorted
      .slice(0, LISTED_FIELDS_MAX)
      .map(({ field, column }) => ({ field: field.slice(0, LISTED_CHARACTERS_MAX), column })),
    unfilledColumns: unfilled.map(({ name }) => name),
  }
}

/** The names between the dots and brackets of a path, plain; the last ones of a long path. */
function namesOf(path: string): string[] {
  const names = path.split(/[.[\]/:]+/).map(plain)
  return names.filter(name => name !== '').slice(-PATH_NAMES_MAX)
}

/** The ends of a path behind its first name, the longest first, without its dots. */
function endsOf(path: string): string[] {
  const names = namesOf(path)
  return names.slice(1).map((_, index) => names.slice(index + 1).join(''))
}

/**
 * Finds the column that a field may be meant for: another case, spaces, other signs between words,
 * one other letter, or a path on one side that ends with the other side.
 */
function nearestOf(columns: readonly Named[]) {
  const exact = new Map<string, string>()
  const roots = new Map<string, string>()
  const texts: (readonly [text: string, name: string])[] = []
  for (const { name, jsonProperty } of [...columns].reverse()) {
    roots.set(namesOf(jsonProperty)[0] ?? '', name)
    // The index of an element is no name.
    for (const end of endsOf(jsonProperty)) if (/\P{N}/u.test(end)) exact.set(end, name)
  }
  for (const { name, jsonProperty } of columns)
    for (const text of [plain(jsonProperty), plain(name)]) {
      exact.set(text, name)
      texts.push([text, name])
    }
  return (field: string, isNested: boolean): string | null => {
    const text = plain(field)
    if (text === '') return null
    const found = [text, ...endsOf(field)].map(end => exact.get(end)).find(name => name !== undefined)
    if (found !== undefined) return found
    const root = isNested ? roots.get(text) : undefined
    return root ?? texts.find(([known]) => isNearText(text, known))?.[1] ?? null
  }
}

/** `line1` and `line2` are two names, and not one of them misspelt. */
function isNearText(text: string, known: string): boolean {
  if (known.length < NEAR_CHARACTERS_MIN || !isOneEditAway(text, known)) return false
  return text.replaceAll(/\P{N}/gu, '') === known.replaceAll(/\P{N}/gu, '')
}

/** True where a column reads an object or an array at `field`, or `field` itself. */
export function isReadBelow(field: string, column: SchemaColumn): boolean {
  const { jsonProperty, path } = column
  if (path === undefined) return jsonProperty.startsWith(`${field}.`)
  return path[0] === field || pathAlone(column)[0] === field
}

type Path = NonNullable<SchemaColumn['path']>

/** The path in an event alone: a source that keeps the envelope has that from the body's root. */
function pathAlone({ jsonProperty, path = jsonProperty.split('.') }: SchemaColumn): Path {
  const textOf = (steps: Path) =>
    steps.map(step => (typeof step === 'number' ? `[${step}]` : `.${step}`)).join('')
  const at = path.findIndex((_, index) => textOf(path.slice(index)) === `.${jsonProperty}`)
  return path.slice(Math.max(0, at))
}

/** Compares the first events of a body. */
export class EventFields {
  /** With the paths of each: in an event with its envelope, and alone. */
  readonly #unfilled: Map<SchemaColumn, readonly Path[]>
  readonly #columns: readonly SchemaColumn[]
  readonly #unknown = new Map<string, boolean>()
  readonly #known = new Set<string>()
  #events = 0
  #bytes = 0
  /** True where events came since the last result. */
  hasNews = false

  constructor(columns: readonly SchemaColumn[]) {
    this.#columns = columns
    this.#unfilled = new Map(
      columns.map(column => {
        const alone = pathAlone(column)
        return [column, [column.path ?? alone, alone]]
      }),
    )
  }

  /** Looks at the event in bytes [from, to). */
  take(bytes: Uint8Array, from: number, to: number): void {
    if (this.#events >= COMPARED_EVENTS_MAX || this.#bytes >= COMPARED_BYTES_MAX) return
    this.hasNews = true
    this.#events += 1
    this.#bytes += to - from
    const event = parsed(Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString())
    if (event === undefined) return
    for (const [column, paths] of this.#unfilled)
      if (paths.some(path => isFilled(event, column.jsonProperty, path))) this.#unfilled.delete(column)
    for (const [field, value] of Object.entries(event)) {
      if (this.#known.has(field) || this.#unknown.has(field)) continue
      const isNested = typeof value === 'object' && value !== null
      if (this.#columns.some(column => column.jsonProperty === field || isReadBelow(field, column)))
        this.#known.add(field)
      else if (this.#unknown.size < COMPARED_EVENTS_MAX) this.#unknown.set(field, isNested)
    }
  }

  result(): FieldComparison {
    this.hasNews = false
    return comparison(this.#unknown, [...this.#unfilled.keys()])
  }
}

/** An event, or undefined: another check refuses its row. */
function parsed(text: string): Record<string, unknown> | undefined {
  const value = jsonIn(text)
  return isObject(value) ? value : undefined
}

/** True where the event has a value for a column, as the parsers look for it. */
function isFilled(event: Record<string, unknown>, property: string, path: Path): boolean {
  if (Object.hasOwn(event, property)) return event[property] !== null
  let value: unknown = event
  for (const step of path) {
    const isThere = typeof step === 'number' ? Array.isArray(value) : isObject(value)
    if (!isThere || !Object.hasOwn(value as object, step)) return false
    value = (value as Record<string | number, unknown>)[step]
  }
  return value !== null
}
