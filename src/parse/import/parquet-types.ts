/**
 * How the types of a Parquet file become JSON: docs/import.md has the table. DuckDB reads most of
 * them. A type of which it would give other values is refused by its name.
 */
import {
  DuckDBArrayType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from '../../util/duckdb.ts'
import { BodyBroken } from '../../util/errors.ts'
import { quoteText } from '../../util/sql.ts'

/** Digits of DuckDB's widest DECIMAL. It reads more digits as a double of the wrong bytes. */
const DECIMAL_DIGITS_MAX = 38

/** An element of a file's schema, by DuckDB's names. */
export interface ParquetElement {
  readonly name: string
  readonly children: number
  readonly converted: string | null
  readonly precision: number
  readonly logical: string | null
}

/** DuckDB takes these for plain bytes or integers where no ConvertedType stands beside them. */
const LOGICAL_ALONE: readonly (readonly [type: RegExp, name: string])[] = [
  [/^DecimalType/, 'a DECIMAL'],
  [/^DateType/, 'a DATE'],
  [/^IntType.*isSigned=0/s, 'an unsigned integer'],
]

/** @param column of the file: the element, or the one that it is nested in @throws BodyBroken */
export function checkElement({ converted, precision, logical }: ParquetElement, column: string): void {
  const refuse = (what: string, wanted: string) => {
    const message = `the column ${JSON.stringify(column)} of the file has ${what}, which is not read: ${wanted}`
    throw new BodyBroken('unsupported_type', message)
  }
  if (converted === 'DECIMAL' && precision > DECIMAL_DIGITS_MAX)
    refuse(`a DECIMAL of ${precision} digits`, `write at most ${DECIMAL_DIGITS_MAX} digits, or a text`)
  if (logical?.startsWith('BsonType')) refuse('BSON', 'write JSON')
  if (converted !== null) return
  for (const [type, name] of LOGICAL_ALONE)
    if (type.test(logical ?? ''))
      refuse(`${name} with a LogicalType alone`, 'write its ConvertedType too, as most programs do')
}

/** The JSON text of a value, as SQL; NaN stays as DuckDB writes it. @param isJson see textSql */
export function jsonSql(value: string, type: DuckDBType, isJson: boolean): string {
  const json = (of: string) => `CAST(to_json(${of}) AS VARCHAR)`
  // to_json() of JSON would write its decimals as doubles.
  if (type.typeId === DuckDBTypeId.VARIANT) return `CAST(${innerSql(value, type, 0)} AS VARCHAR)`
  const text = textSql(value, type)
  if (text === undefined) return json(innerSql(value, type, 0))
  return isJson ? `CASE WHEN ${isJsonSql(text)} THEN ${text} ELSE ${json(text)} END` : json(text)
}

/** The text of a text or of bytes, which are base64 where they are not UTF-8. */
export function textSql(value: string, { typeId }: DuckDBType): string | undefined {
  if (typeId === DuckDBTypeId.VARCHAR) return `CAST(${value} AS VARCHAR)`
  return typeId === DuckDBTypeId.BLOB ? `coalesce(try(decode(${value})), to_base64(${value}))` : undefined
}

/**
 * A value of which to_json() gives the right JSON: it would give DuckDB's display of bytes and of
 * a VARIANT.
 */
function innerSql(value: string, type: DuckDBType, depth: number): string {
  if (isPlain(type)) return value
  if (type.typeId === DuckDBTypeId.BLOB) return textSql(value, type) ?? value
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType)
    return eachSql(value, type.valueType, depth)
  const orNull = (sql: string) => `CASE WHEN ${value} IS NOT NULL THEN ${sql} END`
  if (type instanceof DuckDBStructType) {
    const fields = type.entryTypes.map((field, index) => {
      const inner = innerSql(`struct_extract_at(${value}, ${index + 1})`, field, depth)
      return `${quoteText(type.entryNames[index] ?? '')}: ${inner}`
    })
    return orNull(`{${fields.join(', ')}}`)
  }
  if (type instanceof DuckDBMapType) {
    const keys = eachSql(`map_keys(${value})`, type.keyType, depth)
    return orNull(`map(${keys}, ${eachSql(`map_values(${value})`, type.valueType, depth)})`)
  }
  return orNull(`CAST(${value} AS JSON)`)
}

function eachSql(list: string, type: DuckDBType, depth: number): string {
  if (isPlain(type)) return list
  return `list_transform(${list}, lambda i${depth}: ${innerSql(`i${depth}`, type, depth + 1)})`
}

/** True of a type that holds neither bytes nor a VARIANT. */
function isPlain(type: DuckDBType): boolean {
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType) return isPlain(type.valueType)
  if (type instanceof DuckDBMapType) return isPlain(type.keyType) && isPlain(type.valueType)
  if (type instanceof DuckDBStructType) return type.entryTypes.every(isPlain)
  return type.typeId !== DuckDBTypeId.BLOB && type.typeId !== DuckDBTypeId.VARIANT
}

/**
 * True of a text that is JSON. DuckDB takes NaN, infinity and a comma before a closing bracket for
 * JSON too. No other JSON has `na` or an `i` outside its strings.
 */
function isJsonSql(text: string): string {
  return `json_valid(${text}) AND NOT regexp_matches(regexp_replace(${text}, ${STRINGS}, '""', 'g'), '(?i)na|i|,\\s*[\\]}]')`
}

/** The pattern of a string of JSON, for DuckDB, whose regular expressions are linear. */
const STRINGS = quoteText('"(?:[^"\\\\]|\\\\.)*"')
