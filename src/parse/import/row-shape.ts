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

/** Columns of a CSV or Parquet file. Those beyond the pool's stand in the payload. */
export const IMPORT_COLUMNS_MAX = 20_000

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
}

/** @throws BodyBroken a column may mean two, two fill one property, or there are too many */
export function shapeOf(names: readonly string[], columns: readonly SchemaColumn[]): RowShape {
  if (names.length > IMPORT_COLUMNS_MAX)
    throw new BodyBroken(
      'bad_header',
      `a file has at most ${IMPORT_COLUMNS_MAX} columns, this one has ${names.length}`,
    )
  const payload = names.indexOf(PAYLOAD)
  if (payload >= 0) {
    if (names.includes(PAYLOAD, payload + 1))
      throw new BodyBroken('bad_header', sameProperty(PAYLOAD, PAYLOAD, PAYLOAD))
    checkPayloads(columns)
    return { fields: names.map(name => ({ name, type: undefined })), nodes: [], payload }
  }
  const columnOf = columnFinder(columns)
  const given = names.map(name => ({ name, column: columnOf(name) }))
  const properties = given.map(({ name, column }) => column?.jsonProperty ?? name)
  const seen = new Map<string, string>()
  for (const [index, property] of properties.entries()) {
    const [one, other] = [seen.get(property), names[index] ?? '']
    if (one !== undefined) throw new BodyBroken('bad_header', sameProperty(property, one, other))
    seen.set(property, other)
  }
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
  }
}

/**
 * Checks that the payloads of an export hold what the pool's columns read.
 * @throws BodyBroken a column reads the request, and its values would be lost
 */
export function checkPayloads(columns: readonly SchemaColumn[]): void {
  const lost = columns.find(({ from }) => from === 'request')
  if (lost === undefined) return
  const what = `column ${JSON.stringify(lost.name)} reads ${lost.jsonProperty} of a request, which ${PAYLOAD} does not hold`
  throw new BodyBroken(
    'payload_without_request',
    `${what}: leave ${PAYLOAD} out of the file, and name the columns`,
  )
}

/** Finds the column that a header names. It throws BodyBroken where the header names two. */
function columnFinder(columns: readonly SchemaColumn[]) {
  const byProperty = new Map(columns.map(column => [column.jsonProperty, column]))
  const byName = new Map(columns.map(column => [column.name, column]))
  const isAmbiguous = (header: string) =>
    byProperty.has(header) && (byName.get(header)?.jsonProperty ?? header) !== header
  return (header: string): SchemaColumn | undefined => {
    const [read, named] = [byProperty.get(header), byName.get(header)]
    if (read === undefined || named === undefined || !isAmbiguous(header)) return read ?? named
    const renames = [
      { to: read.name, column: read },
      { to: named.jsonProperty, column: named },
    ].filter(({ to }) => !isAmbiguous(to))
    throw new BodyBroken('bad_header', twoMeanings(header, read, named, renames))
  }
}

function twoMeanings(
  header: string,
  read: SchemaColumn,
  named: SchemaColumn,
  renames: readonly { readonly to: string; readonly column: SchemaColumn }[],
): string {
  const quoted = JSON.stringify
  const ways = [
    ...renames.map(({ to, column }) => `rename it to ${quoted(to)} for column ${quoted(column.name)}`),
    'send NDJSON or a file with _service_payload',
  ]
  return `the header ${quoted(header)} is the property of column ${quoted(read.name)} and the name of another column, with the property ${quoted(named.jsonProperty)}: ${ways.join(', or ')}`
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
    let child = this.#children.get(name)
    if (child === undefined) {
      child = new Building(name)
      this.#children.set(name, child)
    }
    child.add(rest, field)
  }

  nodes(): ShapeNode[] {
    return [...this.#children.values()].map(child => ({
      key: Buffer.from(`${JSON.stringify(child.#name)}:`),
      field: child.#field,
      children: child.nodes(),
    }))
  }
}
