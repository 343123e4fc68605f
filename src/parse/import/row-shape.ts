/**
 * Where the columns of a CSV or Parquet file stand in an event. A column of the file names a
 * jsonProperty of the pool, or else a column of the pool. A dotted path becomes nested objects.
 * Other columns, and paths through arrays, keep their names as top-level properties.
 *
 *   time, id, address.city, address.zip  ►  { "time", "id", "address": { "city", "zip" } }
 *
 * A header that is the property of one column and the name of another is refused: exports name
 * columns by their names, other programs by properties, and nothing says which of them wrote it.
 *
 * A file with the column `_service_payload` is an export of a pool: the payload alone is the event.
 */

import { type ColumnType, PAYLOAD, type SchemaColumn } from '../../format/schema.ts'
import { BodyBroken } from '../../util/errors.ts'
import { getOrMake } from '../../util/get-or-make.ts'
import { plain } from '../../util/misspelt.ts'
import { comparison, type FieldComparison, isReadBelow } from './compare-fields.ts'
import { fieldFinder, type Given, type Naming, PLAIN_NAMING } from './naming.ts'

/** Columns of a CSV or Parquet file. Those beyond the pool's stand in the payload. */
export const IMPORT_COLUMNS_MAX = 20_000

/** Pairs of a header and a column that a refusal names. */
const NEAR_TOLD_MAX = 3

/** A property of an event: a value, or an object with properties. */
export interface ShapeNode {
  /** `"name":` as JSON, in UTF-8. */
  readonly key: Buffer
  /** The column of the file that gives the value; -1 where the node is an object. */
  readonly field: number
  readonly children: readonly ShapeNode[]
}

/** A column of the file. */
interface ShapeField {
  readonly name: string
  /** The type of the pool's column that it fills. If it fills none, its values are texts. */
  readonly type: ColumnType | undefined
}

export interface RowShape {
  readonly fields: readonly ShapeField[]
  readonly nodes: readonly ShapeNode[]
  /** The field that holds the whole event; -1 where the nodes make it. */
  readonly payload: number
  /** Undefined for an export, whose payloads are compared. */
  readonly compared: FieldComparison | undefined
}

/**
 * @param nested fields that hold objects or arrays
 * @throws BodyBroken a column may mean two, two fill one property, there are too many, or one is
 * near a column that nothing fills
 */
export function shapeOf(
  names: readonly string[],
  columns: readonly SchemaColumn[],
  naming: Naming = PLAIN_NAMING,
  nested: ReadonlySet<string> = new Set(),
): RowShape {
  if (names.length > IMPORT_COLUMNS_MAX)
    throw new BodyBroken(
      'bad_header',
      `a file has at most ${IMPORT_COLUMNS_MAX} columns, this one has ${names.length}`,
    )
  const targets = new Map(naming.map)
  const named = names.map(name => targets.get(name) ?? name)
  const payload = named.indexOf(PAYLOAD)
  if (payload >= 0) {
    if (named.includes(PAYLOAD, payload + 1))
      throw new BodyBroken('bad_header', sameProperty(PAYLOAD, PAYLOAD, PAYLOAD))
    checkPayloads(columns)
    return { fields: names.map(name => ({ name, type: undefined })), nodes: [], payload, compared: undefined }
  }
  const given = names.map(fieldFinder(columns, naming))
  const properties = given.map(({ column, property }) => column?.jsonProperty ?? property)
  const seen = new Map<string, string>()
  for (const [index, property] of properties.entries()) {
    const [one, other] = [seen.get(property), names[index] ?? '']
    if (one !== undefined) throw new BodyBroken('bad_header', sameProperty(property, one, other))
    seen.set(property, other)
  }
  const compared = compare(given, new Set(properties), columns, nested)
  if (!naming.ignoreUnknown) checkHeader(names, naming, compared)
  const root = new Building('')
  const paths = given.map(({ column }, index) => {
    const property = properties[index]!
    const isPlain = column !== undefined && column.from === undefined && column.path === undefined
    return isPlain ? property.split('.') : [property]
  })
  const isWhole = conflicts(paths)
  for (const [field, path] of paths.entries())
    root.add(isWhole.has(field) ? [properties[field]!] : path, field)
  return {
    fields: given.map(({ name, column }) => ({ name, type: column?.type })),
    nodes: root.nodes(),
    payload,
    compared,
  }
}

/** What the header of a file and the pool do not have in common. */
function compare(
  given: readonly Given[],
  properties: ReadonlySet<string>,
  columns: readonly SchemaColumn[],
  nested: ReadonlySet<string>,
): FieldComparison {
  // Objects that dotted headers make.
  const objects = new Set(given.flatMap(({ column }) => parentsOf(column?.jsonProperty ?? '')))
  const isUnfilled = (column: SchemaColumn) =>
    !properties.has(column.jsonProperty) &&
    !objects.has(column.jsonProperty) &&
    ![...nested].some(field => isReadBelow(field, column))
  const isRead = (name: string) => nested.has(name) && columns.some(column => isReadBelow(name, column))
  const byProperty = new Set(columns.map(({ jsonProperty }) => jsonProperty))
  const unknown = given.filter(
    ({ name, column }) => column === undefined && !byProperty.has(name) && !isRead(name),
  )
  const unfilled = columns.filter(isUnfilled)
  return comparison(new Map(unknown.map(({ name }) => [name, nested.has(name)])), unfilled)
}

/** `a` and `a.b` for `a.b.c`. */
function parentsOf(property: string): string[] {
  const names = property.split('.')
  return names.slice(1).map((_, index) => names.slice(0, index + 1).join('.'))
}

/**
 * Checks that the payloads of an export hold what the pool's columns read.
 * @throws BodyBroken a column reads the request, and its values would be lost
 */
export function checkPayloads(columns: readonly SchemaColumn[]): void {
  const lost = columns.find(({ from }) => from !== undefined)
  if (lost === undefined) return
  const what = `column ${JSON.stringify(lost.name)} reads ${lost.jsonProperty} of a request, which ${PAYLOAD} does not hold`
  throw new BodyBroken(
    'payload_without_request',
    `${what}: leave ${PAYLOAD} out of the file, and name the columns`,
  )
}

/**
 * Refuses a file before its first row where a header is near a column that no header fills, or the
 * map has a field that the file lacks. @throws BodyBroken with the names
 */
function checkHeader(
  names: readonly string[],
  { map }: Naming,
  { unknownFields, unfilledColumns }: FieldComparison,
): void {
  const absent = map.find(([field]) => !names.includes(field))
  if (absent !== undefined)
    throw new BodyBroken(
      'unknown_header',
      `the map has the field ${JSON.stringify(absent[0])}, which is no header of the file: correct it, or give ignoreUnknown (--ignore-unknown)`,
    )
  const near = unknownFields.filter(({ column }) => column !== null)
  const pairs = near.slice(0, NEAR_TOLD_MAX).map(({ field, column }) => `${field}=${column}`)
  const separator = names.length === 1 ? otherSeparator(names[0] ?? '', unfilledColumns) : undefined
  if (separator !== undefined)
    throw new BodyBroken(
      'unknown_header',
      `the header of the file has ${JSON.stringify(separator)} between names of columns: only the comma separates fields, so convert the file`,
    )
  if (near.length === 0) return
  const said = near.slice(0, NEAR_TOLD_MAX).map(({ field, column }) => {
    const quoted = JSON.stringify(column)
    return `the header ${JSON.stringify(field)} is no column, and nothing fills ${quoted}`
  })
  const more = near.length > NEAR_TOLD_MAX ? `, and ${near.length - NEAR_TOLD_MAX} more such pairs` : ''
  throw new BodyBroken(
    'unknown_header',
    `${said.join('; ')}${more}: give map (${pairs.map(pair => `--map ${JSON.stringify(pair)}`).join(' ')}), or ignoreUnknown (--ignore-unknown) if they are not the same`,
  )
}

/** The sign other than the comma that separates the names of a header. */
function otherSeparator(header: string, columns: readonly string[]): string | undefined {
  const known = new Set(columns.map(plain))
  return [';', '\t', '|'].find(sign => {
    const parts = header.split(sign)
    return parts.length > 1 && parts.some(part => known.has(plain(part)))
  })
}

function sameProperty(property: string, one: string, other: string): string {
  if (one === '' && other === '')
    return 'two columns of the file have no name: name them, or remove the commas at the end of the header'
  const [quotedOne, quotedOther] = [JSON.stringify(one), JSON.stringify(other)]
  return one === other
    ? `two columns of the file are named ${quotedOne}`
    : `two columns of the file fill the property ${JSON.stringify(property)}: ${quotedOne} and ${quotedOther}`
}

/** Fields such as `a.b` beside `a`: they stand under their whole text, which is read first. */
function conflicts(paths: readonly (readonly string[])[]): ReadonlySet<number> {
  const ends = new Set(paths.map(path => JSON.stringify(path)))
  const found = new Set<number>()
  for (const [field, path] of paths.entries())
    for (let length = 1; length < path.length; length += 1)
      if (ends.has(JSON.stringify(path.slice(0, length)))) found.add(field)
  return found
}

class Building {
  readonly #name: string
  #field = -1
  readonly #children = new Map<string, Building>()

  constructor(name: string) {
    this.#name = name
  }

  add([name, ...rest]: readonly string[], field: number): void {
    if (name === undefined) {
      this.#field = field
      return
    }
    getOrMake(this.#children, name, () => new Building(name)).add(rest, field)
  }

  nodes(): ShapeNode[] {
    return [...this.#children.values()].map(child => ({
      key: Buffer.from(`${JSON.stringify(child.#name)}:`),
      field: child.#field,
      children: child.nodes(),
    }))
  }
}
