/**
 * The bytes that a value of a Parquet file takes at least as JSON, as SQL over the value. DuckDB
 * knows the length of a text without copying it, also where a dictionary holds the text once for
 * thousands of rows. So a row's weight is known before the row becomes a text.
 *
 * The weight counts 2 bytes for an element of a list, which may take 40, such as a DECIMAL. So the
 * estimate counts ESTIMATED_INNER_BYTES for it. The true length is at most 12 times the estimate: a
 * control character takes 6 bytes, a double 24.
 */
import {
  DuckDBArrayType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from '../../util/duckdb.ts'

/** The shortest value inside a list or an object, such as 0, and the comma behind it. */
const INNER_BYTES = 2
/** Bytes that an estimate counts for an element, besides those of its texts. */
export const ESTIMATED_INNER_BYTES = 4
/** Quotes, colon and comma of a property. */
const PROPERTY_BYTES = 4

/** Types without a bound on their bytes, other than those of weightSql. None is usual. */
const UNKNOWN: ReadonlySet<DuckDBTypeId> = new Set([
  DuckDBTypeId.VARIANT,
  DuckDBTypeId.GEOMETRY,
  DuckDBTypeId.BIT,
  DuckDBTypeId.BIGNUM,
  DuckDBTypeId.UNION,
  DuckDBTypeId.ANY,
])

/**
 * The bytes of a value as SQL, a number where all values of the type have the same; undefined where
 * the type does not tell.
 * @param innerBytes of an element: with more than INNER_BYTES the result is an estimate
 * @param depth lists around the value: names the variables of lambdas
 */
export function weightSql(
  value: string,
  type: DuckDBType,
  innerBytes = INNER_BYTES,
  depth = 0,
): string | number | undefined {
  if (type.typeId === DuckDBTypeId.VARCHAR) return `coalesce(strlen(${value}), 0)`
  if (type.typeId === DuckDBTypeId.BLOB) return `coalesce(octet_length(${value}), 0)`
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType)
    return elementsSql(value, type.valueType, innerBytes, innerBytes, depth)
  if (type instanceof DuckDBMapType) {
    const keys = elementsSql(`map_keys(${value})`, type.keyType, PROPERTY_BYTES, innerBytes, depth)
    const values = elementsSql(`map_values(${value})`, type.valueType, innerBytes, innerBytes, depth)
    return keys === undefined || values === undefined ? undefined : sumSql([keys, values])
  }
  if (type instanceof DuckDBStructType) return structSql(value, type, innerBytes, depth)
  return UNKNOWN.has(type.typeId) ? undefined : 0
}

/** The sum of weights. It nests like a tree, because DuckDB limits the depth of expressions. */
export function sumSql(weights: readonly (string | number)[]): string | number {
  let constant = 0
  let terms: string[] = []
  for (const weight of weights) {
    if (typeof weight === 'number') constant += weight
    else terms.push(weight)
  }
  if (terms.length === 0) return constant
  if (constant > 0) terms.push(String(constant))
  while (terms.length > 1) {
    const pairs: string[] = []
    for (let at = 0; at < terms.length; at += 2)
      pairs.push(at + 1 < terms.length ? `(${terms[at]} + ${terms[at + 1]})` : terms[at]!)
    terms = pairs
  }
  return terms[0]!
}

/** The weight of a list's elements, and `bytes` for each. */
function elementsSql(
  list: string,
  type: DuckDBType,
  bytes: number,
  innerBytes: number,
  depth: number,
): string | number | undefined {
  const element = `e${depth}`
  const weight = weightSql(element, type, innerBytes, depth + 1)
  if (weight === undefined) return undefined
  const each = sumSql([weight, bytes])
  if (typeof each === 'number') return `coalesce(len(${list}) * ${each}, 0)`
  return `coalesce(list_sum(list_transform(${list}, lambda ${element}: ${each}))::BIGINT, 0)`
}

function structSql(
  value: string,
  type: DuckDBStructType,
  innerBytes: number,
  depth: number,
): string | number | undefined {
  const weights: (string | number)[] = []
  for (const [index, field] of type.entryTypes.entries()) {
    const weight = weightSql(`struct_extract_at(${value}, ${index + 1})`, field, innerBytes, depth)
    if (weight === undefined) return undefined
    weights.push(weight, Buffer.byteLength(type.entryNames[index] ?? '') + PROPERTY_BYTES)
  }
  const all = sumSql(weights)
  return `CASE WHEN ${value} IS NULL THEN 0 ELSE ${all} END`
}
