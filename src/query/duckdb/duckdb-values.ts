/**
 * Values and types across DuckDB's border: bound values go in, each of its column's own type, so
 * that a comparison needs no cast; values come out as the strings that the API prints.
 */
import type { DuckDBMapType, DuckDBType, DuckDBValue } from '@duckdb/node-api'
import { COLUMN_TYPE, type ColumnType } from '../../format/schema.ts'
import {
  DuckDBArrayType,
  DuckDBDateValue,
  DuckDBListType,
  DuckDBStructType,
  DuckDBTimestampMillisecondsValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampSecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
  duckdbType,
} from '../../util/duckdb.ts'
import { must, STATEMENT_FAILED, Unavailable } from '../../util/errors.ts'
import { printAnyDate, printAnyInstant, printNumber } from '../expression/print-values.ts'
import type { Bound } from '../expression/values.ts'

export function boundType(bound: Bound): DuckDBType {
  return duckdbType(COLUMN_TYPE[bound.type].duckdb)
}

export function duckdbValue({ type, value }: Bound): DuckDBValue {
  if (value === null) return null
  switch (type) {
    case 'INT64':
      return BigInt(value)
    case 'INT8':
    case 'INT16':
    case 'INT32':
      return Number(value)
    case 'DATE':
      return new DuckDBDateValue(Number(value))
    case 'TIMESTAMP':
      return new DuckDBTimestampValue(BigInt(value))
    default:
      return value
  }
}

/**
 * One value of a column of that type. NaN and infinite numbers, such as a sum beyond a double's
 * range, are null, and so are times far beyond the year 9999. Lists, structs and maps are JSON.
 */
export function printValue(value: unknown, type: DuckDBType): string | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return printNumber(value, type.typeId === DuckDBTypeId.FLOAT)
  const micros = microsOf(value)
  if (micros !== undefined) return printAnyInstant(micros)
  if (value instanceof DuckDBDateValue) return printAnyDate(value.days)
  return isNested(type) ? printNested(value, type) : String(value)
}

/** Microseconds since 1970; finer ones are cut. Undefined for what is no timestamp. */
function microsOf(value: unknown): bigint | undefined {
  if (value instanceof DuckDBTimestampValue || value instanceof DuckDBTimestampTZValue) return value.micros
  if (value instanceof DuckDBTimestampSecondsValue) return value.seconds * 1_000_000n
  if (value instanceof DuckDBTimestampMillisecondsValue) return value.millis * 1000n
  // Division of bigints rounds up below zero.
  if (value instanceof DuckDBTimestampNanosecondsValue)
    return BigInt.asIntN(64, value.nanos - mod1000(value.nanos)) / 1000n
  return undefined
}

function mod1000(nanos: bigint): bigint {
  return ((nanos % 1000n) + 1000n) % 1000n
}

/** Lists, arrays, structs and maps. */
function isNested({ typeId }: DuckDBType): boolean {
  const { LIST, ARRAY, STRUCT, MAP } = DuckDBTypeId
  return typeId === LIST || typeId === ARRAY || typeId === STRUCT || typeId === MAP
}

function hasNames(type: DuckDBType): boolean {
  if (type instanceof DuckDBStructType) {
    const names = new Set(type.entryNames)
    const isNamed = names.size === type.entryNames.length && !names.has('') && !names.has('__proto__')
    return isNamed && type.entryTypes.every(hasNames)
  }
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType) return hasNames(type.valueType)
  const { keyType, valueType } = type as Partial<DuckDBMapType>
  return [keyType, valueType].every(each => each === undefined || hasNames(each))
}

/** Plain numbers and truth values are those of JSON, all others are texts. */
function printNested(value: unknown, type: DuckDBType): string {
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType) {
    const { items } = value as { readonly items: readonly unknown[] }
    return `[${items.map(item => printJson(item, type.valueType)).join(',')}]`
  }
  if (type instanceof DuckDBStructType) {
    const { entries } = value as { readonly entries: Readonly<Record<string, unknown>> }
    const fields = type.entryNames.map(
      (name, at) =>
        `${JSON.stringify(name)}:${printJson(entries[name], must(type.entryTypes[at], 'a type'))}`,
    )
    return `{${fields.join(',')}}`
  }
  const { keyType, valueType } = type as DuckDBMapType
  const { entries } = value as {
    readonly entries: readonly { readonly key: unknown; readonly value: unknown }[]
  }
  const fields = entries.map(
    entry => `${JSON.stringify(printValue(entry.key, keyType) ?? '')}:${printJson(entry.value, valueType)}`,
  )
  return `{${fields.join(',')}}`
}

function printJson(value: unknown, type: DuckDBType): string {
  const text = printValue(value, type)
  if (text === null) return 'null'
  const isPlain = isNested(type) || isJson(type) || typeof value === 'number' || typeof value === 'bigint'
  return isPlain || typeof value === 'boolean' || type.typeId === DuckDBTypeId.DECIMAL
    ? text
    : JSON.stringify(text)
}

function isJson({ alias }: DuckDBType): boolean {
  return alias === 'JSON'
}

const COLUMN_TYPES: Partial<Record<DuckDBTypeId, ColumnType>> = {
  [DuckDBTypeId.BOOLEAN]: 'BOOLEAN',
  [DuckDBTypeId.TINYINT]: 'INT8',
  [DuckDBTypeId.SMALLINT]: 'INT16',
  [DuckDBTypeId.UTINYINT]: 'INT16',
  [DuckDBTypeId.INTEGER]: 'INT32',
  [DuckDBTypeId.USMALLINT]: 'INT32',
  [DuckDBTypeId.BIGINT]: 'INT64',
  [DuckDBTypeId.UINTEGER]: 'INT64',
  // A value beyond 64 bits is shown with all digits.
  [DuckDBTypeId.UBIGINT]: 'INT64',
  [DuckDBTypeId.HUGEINT]: 'INT64',
  [DuckDBTypeId.UHUGEINT]: 'INT64',
  [DuckDBTypeId.BIGNUM]: 'INT64',
  [DuckDBTypeId.FLOAT]: 'FLOAT',
  [DuckDBTypeId.DOUBLE]: 'DOUBLE',
  [DuckDBTypeId.DECIMAL]: 'DOUBLE',
  [DuckDBTypeId.DATE]: 'DATE',
  [DuckDBTypeId.TIMESTAMP]: 'TIMESTAMP',
  [DuckDBTypeId.TIMESTAMP_S]: 'TIMESTAMP',
  [DuckDBTypeId.TIMESTAMP_MS]: 'TIMESTAMP',
  [DuckDBTypeId.TIMESTAMP_NS]: 'TIMESTAMP',
  [DuckDBTypeId.TIMESTAMP_TZ]: 'TIMESTAMP',
}

/**
 * The type of a column of an answer. Types that no pool's column has are texts. Throws Unavailable
 * (`statement_failed`) for a row whose fields have no names of their own: the package loses them.
 */
export function columnTypeOf(type: DuckDBType): ColumnType {
  if (!hasNames(type))
    throw new Unavailable(STATEMENT_FAILED, "a row is shown with names alone: write {'a': 1, 'b': 2}")
  if (isNested(type) || isJson(type)) return 'JSON'
  return COLUMN_TYPES[type.typeId] ?? 'STRING'
}
