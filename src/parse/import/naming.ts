/**
 * How the fields of a file name the columns of the pool: the parameters `by`, `map` and
 * `ignoreUnknown` of an import.
 */
import { PAYLOAD, type SchemaColumn } from '../../format/schema.ts'
import { BodyBroken } from '../../util/errors.ts'

export const NAMED_BY = ['column', 'property'] as const

export interface Naming {
  /** Without it CSV and Parquet take both, and the fields of NDJSON are properties. */
  readonly by?: (typeof NAMED_BY)[number]
  /** Fields of the file, and the column or property that each stands for. */
  readonly map: readonly (readonly [field: string, name: string])[]
  /** A field near the name of an unfilled column is no mistake. */
  readonly ignoreUnknown: boolean
}

export const PLAIN_NAMING: Naming = { map: [], ignoreUnknown: false }

/** True where the rows of NDJSON are no events yet. */
export function renames({ by, map }: Naming): boolean {
  return by === 'column' || map.length > 0
}

/** A field of the file: what it is called, and the column that it fills. */
export interface Given {
  readonly name: string
  readonly column: SchemaColumn | undefined
  /** Its place in an event where it fills no column. */
  readonly property: string
}

/** Finds what a field fills. It throws BodyBroken where that could be two columns. */
export function fieldFinder(columns: readonly SchemaColumn[], { by, map }: Naming) {
  const byProperty = new Map(columns.map(column => [column.jsonProperty, column]))
  const byName = new Map(columns.map(column => [column.name, column]))
  const targets = new Map(map)
  const isAmbiguous = (field: string) =>
    byProperty.has(field) && (byName.get(field)?.jsonProperty ?? field) !== field
  const named = (field: string): SchemaColumn | undefined => {
    const [read, other] = [byProperty.get(field), byName.get(field)]
    if (by === 'column') return other
    if (by === 'property') return read
    if (read === undefined || other === undefined || !isAmbiguous(field)) return read ?? other
    const renamed = [
      { to: read.name, column: read },
      { to: other.jsonProperty, column: other },
    ].filter(({ to }) => !isAmbiguous(to))
    throw new BodyBroken('bad_header', twoMeanings(field, read, other, renamed))
  }
  return (name: string): Given => {
    const target = targets.get(name)
    if (target === undefined) return { name, column: named(name), property: name }
    return { name, column: byName.get(target) ?? byProperty.get(target), property: target }
  }
}

/** The first target of the map that the pool lacks. */
export function unknownTarget({ map }: Naming, columns: readonly SchemaColumn[]): string | undefined {
  const names = new Set([PAYLOAD, ...columns.flatMap(({ name, jsonProperty }) => [name, jsonProperty])])
  return map.map(([, name]) => name).find(name => !names.has(name))
}

function twoMeanings(
  field: string,
  read: SchemaColumn,
  named: SchemaColumn,
  renamed: readonly { readonly to: string; readonly column: SchemaColumn }[],
): string {
  const quoted = JSON.stringify
  const ways = [
    ...renamed.map(({ to, column }) => `rename it to ${quoted(to)} for column ${quoted(column.name)}`),
    'give by=column or by=property',
    'send NDJSON or a file with _service_payload',
  ]
  return `the header ${quoted(field)} is the property of column ${quoted(read.name)} and the name of another column, with the property ${quoted(named.jsonProperty)}: ${ways.join(', or ')}`
}
