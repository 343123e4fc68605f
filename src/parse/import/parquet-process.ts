/**
 * Reads a Parquet file as events in JSON, in the process `weir-parquet`: DuckDB reads a client's
 * file there, and a damaged file that crashes it ends one import and nothing else.
 *
 *   SELECT CASE WHEN place = 0 THEN
 *     '{' || concat_ws(',', $1 || to_json(c0), $2 || to_json(c1), …) || '}' END, place
 *   FROM (SELECT c0, c1, …, unnest(range(places of the row)) AS place FROM the file)
 *
 * Keys are bound and columns are numbered, so no name of the file enters the statement. A null has
 * no property, because `||` of it is null and concat_ws leaves nulls out.
 *
 * DuckDB makes the events of a chunk of 2,048 rows at once, and no memory limit of it counts their
 * texts. So a row takes a place in the chunk for each PARQUET_PLACE_BYTES of its estimated weight
 * (row-weight.ts): unnest() repeats the row without copying its values, and the event is made at
 * the first of its places. A row that is surely too long takes the place -1 and has no event.
 *
 *   W-9  DuckDB has PARQUET_MEMORY_BYTES and spills nothing. The events of a chunk weigh at most
 *        2,048 × PARQUET_PLACE_BYTES, or are one.
 */
import type { DuckDBConnection, DuckDBResult } from '@duckdb/node-api'
import type { SchemaColumn } from '../../format/schema.ts'
import {
  DuckDBArrayType,
  DuckDBInstance,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from '../../util/duckdb.ts'
import { isOutOfMemory } from '../../util/duckdb-errors.ts'
import { applySettings } from '../../util/duckdb-settings.ts'
import { BodyBroken, must, Unavailable } from '../../util/errors.ts'
import { IMPORT_ROW_BYTES_MAX, KiB, PARQUET_MEMORY_BYTES } from '../../util/limits.ts'
import { quoteText } from '../../util/sql.ts'
import { type CallPort, serve } from '../../util/thread-server.ts'
import { PARQUET_SMALLER, TOO_LONG } from './import-types.ts'
import type { Naming } from './naming.ts'
import { type RowShape, type ShapeNode, shapeOf } from './row-shape.ts'
import { ESTIMATED_INNER_BYTES, sumSql, weightSql } from './row-weight.ts'

/**
 * Weight of a row that takes one of the 2,048 places of a chunk (row-weight.ts), so a chunk has
 * 2 MiB. The JSON takes up to 12 times that, and DuckDB holds it about five times.
 */
const PARQUET_PLACE_BYTES = 1 * KiB

interface ParquetFile {
  /** Absolute. */
  readonly file: string
  readonly columns: readonly SchemaColumn[]
  readonly naming: Naming
  readonly skipRows: number
}

/** The events of some rows, the bytes of each or TOO_LONG. A row of an export may have none. */
interface ParquetRows {
  readonly bytes: Uint8Array
  readonly lengths: Int32Array
}

export interface ParquetCalls {
  /** The first call. `skipped`: the number of rows that are left out because of `skipRows`. */
  open(file: ParquetFile): Pick<RowShape, 'compared'> & Pick<Opened, 'skipped'>
  /** The next rows; without any at the end. */
  next(): ParquetRows
}

interface Opened extends Pick<RowShape, 'compared'> {
  /** The rows behind `skipRows`. A row of an export has its payload, which may be null. */
  readonly result: DuckDBResult
  readonly isExport: boolean
  readonly skipped: number
}

/** Serves the calls of an import's thread until it stops the process. */
export function serveParquet(port: CallPort): void {
  let opened: Opened | undefined
  let file = ''
  serve<ParquetCalls>(port, {
    open: given => {
      file = given.file
      return reading(file, async () => {
        opened = await open(await connect(file), given)
        return { skipped: opened.skipped, compared: opened.compared }
      })
    },
    next: () => reading(file, () => nextRows(must(opened, 'an open file'))),
  })
}

/** DuckDB's words for BSON. It gives no name. */
const BSON = /Unsupported converted type \(20\)$/

/** DuckDB's words for a read that the system refused. */
const READ_FAILED = /^IO Error: Could not read from file .*: Input\/output error$/

/** The answer of `work`. Throws BodyBroken with DuckDB's words, or Unavailable: the disk failed. */
async function reading<T>(file: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof BodyBroken) throw error
    const [first = ''] = (error as Error).message.split('\n', 1)
    // The file may be fine.
    if (READ_FAILED.test(first)) throw new Unavailable('tmp_failed', first)
    if (BSON.test(first))
      throw new BodyBroken('unsupported_type', 'a column of the file has BSON, which is not read: write JSON')
    const more = isOutOfMemory(error) || error instanceof RangeError ? PARQUET_SMALLER : ''
    const message = `the file cannot be read: ${first.replaceAll(file, 'the file')}${more}`
    throw new BodyBroken('broken_parquet', message)
  }
}

/** A connection that can read this file alone, and write none. */
async function connect(file: string): Promise<DuckDBConnection> {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  const allowed = { by: 'allowed_paths', names: [file] } as const
  await applySettings(connection, { memoryBytes: PARQUET_MEMORY_BYTES, threads: 1, spillFolder: '', allowed })
  return connection
}

async function open(connection: DuckDBConnection, given: ParquetFile): Promise<Opened> {
  const { file, columns, naming, skipRows } = given
  const source = `read_parquet([${quoteText(file)}], hive_partitioning = false)`
  const empty = await connection.run(`SELECT * FROM ${source} LIMIT 0`)
  const { names, nested } = await namesIn(connection, file, empty.columnCount)
  const shape = shapeOf(names, columns, naming, nested)
  const [count] = await (await connection.run(`SELECT count(*) FROM ${source}`)).getRows()
  const skipped = Math.min(skipRows, Number(count?.[0]))
  const { select, keys } = eventsSql(shape, empty.columnTypes(), `FROM ${source} OFFSET ${skipped}`)
  const prepared = await connection.prepare(select)
  for (const [index, key] of keys.entries()) prepared.bindVarchar(index + 1, key)
  const { compared, payload } = shape
  return { result: await prepared.stream(), isExport: payload >= 0, skipped, compared }
}

/** The names in the file. DuckDB renames a column that differs from another in case alone. */
async function namesIn(connection: DuckDBConnection, file: string, columnCount: number) {
  const columns = 'name, coalesce(num_children, 0)::INTEGER AS children, converted_type AS converted'
  const sql = `SELECT ${columns}, coalesce(precision, 0)::INTEGER AS precision, logical_type AS logical FROM parquet_schema([${quoteText(file)}])`
  // The root, then each column with all that is nested in it.
  const [, ...elements] = await (await connection.run(sql)).getRowObjects()
  const names: string[] = []
  const nested = new Set<string>()
  let inner = 0
  for (const element of elements as unknown as ParquetElement[]) {
    if (inner > 0) inner -= 1
    else {
      names.push(element.name)
      if (element.children > 0) nested.add(element.name)
    }
    inner += element.children
    checkElement(element, names.at(-1) ?? '')
  }
  if (names.length === columnCount) return { names, nested }
  throw new BodyBroken('broken_parquet', 'the file cannot be read: its schema does not fit its columns')
}

/** The statement of this file's head, over the rows of `from`, and its bound keys. */
function eventsSql(shape: RowShape, types: readonly DuckDBType[], from: string) {
  const { fields, payload } = shape
  const { sql, keys } = rowSql(shape, types)
  const read = payload >= 0 ? [payload] : [...fields.keys()]
  const weigh = (innerBytes?: number) => {
    const type = (field: number) => must(types[field], 'the type of a column')
    return read.map(field => weightSql(`c${field}`, type(field), innerBytes)).filter(one => one !== undefined)
  }
  const known = weigh()
  const bytes = sumSql(known)
  const estimate = sumSql(weigh(ESTIMATED_INNER_BYTES))
  const keyBytes = keys.reduce((sum, key) => sum + Buffer.byteLength(key), 0)
  // A row with a value of unknown size is given all the places that a row may take.
  const more = known.length === read.length ? keyBytes : keyBytes + IMPORT_ROW_BYTES_MAX
  // A row that is not refused takes the places of the heaviest one at most.
  const places = `1 + (least(estimate, ${IMPORT_ROW_BYTES_MAX}) + ${more}) // ${PARQUET_PLACE_BYTES}`
  const given = fields.map((_, index) => `c${index}`).join(', ')
  const columns = read.map(field => `c${field}`).join(', ')
  const weighed = `SELECT ${columns}, ${bytes} AS weight, ${estimate} AS estimate FROM (${from}) AS file_rows(${given})`
  const placed = `SELECT ${columns}, unnest(CASE WHEN weight > ${IMPORT_ROW_BYTES_MAX} THEN [-1::BIGINT] ELSE range(${places}) END)::INTEGER AS place FROM (${weighed})`
  return { select: `SELECT CASE WHEN place = 0 THEN ${sql} END, place FROM (${placed})`, keys }
}

/** The SQL of a row's event, and the keys that are bound as its parameters. */
function rowSql({ fields, nodes, payload }: RowShape, types: readonly DuckDBType[]) {
  const keys: string[] = []
  const typeOf = (field: number) => must(types[field], 'the type of a column')
  if (payload >= 0)
    return { sql: textSql(`c${payload}`, typeOf(payload)) ?? `CAST(c${payload} AS VARCHAR)`, keys }
  const member = ({ key, field, children }: ShapeNode): string => {
    keys.push(key.toString())
    const name = `$${keys.length}`
    if (field >= 0) return `${name} || ${jsonSql(`c${field}`, typeOf(field), fields[field]?.type === 'JSON')}`
    return `${name} || nullif(${object(children)}, '{}')`
  }
  const object = (members: readonly ShapeNode[]): string =>
    `'{' || concat_ws(',', ${members.map(member).join(', ')}) || '}'`
  return { sql: object(nodes), keys }
}

/** Numbers that JSON has not, as DuckDB's to_json writes them, and as a cast does. */
const NOT_FINITE: Readonly<Record<string, string>> = {
  NaN: '"nan"',
  Infinity: '"inf"',
  '-Infinity': '"-inf"',
}

/**
 * The event with texts for NaN and infinity, also inside arrays and objects. An event that is too
 * long stays as it is, because it is refused.
 */
function withoutNaN(event: string): string {
  if (event.length > IMPORT_ROW_BYTES_MAX) return event
  if (!event.includes('NaN') && !event.includes('Infinity')) return event
  const parts = event.split('"')
  let isInString = false
  for (const [index, part] of parts.entries()) {
    if (isInString) isInString = endsEscaped(part)
    else {
      parts[index] = part.replace(/NaN|-?Infinity/g, found => NOT_FINITE[found] ?? found)
      isInString = true
    }
  }
  return parts.join('"')
}

/** True where the quote behind the part of a string belongs to it. */
function endsEscaped(part: string): boolean {
  let at = part.length
  while (part[at - 1] === '\\') at -= 1
  return (part.length - at) % 2 === 1
}

/** The rows of the next chunk with any. */
async function nextRows({ result, isExport }: Opened): Promise<ParquetRows> {
  for (;;) {
    const chunk = await result.fetchChunk()
    if (chunk === null || chunk.rowCount === 0) return rowsOf([], [], isExport)
    const events = chunk.getColumnValues(0) as readonly (string | null)[]
    const rows = rowsOf(events, chunk.getColumnValues(1) as readonly number[], isExport)
    if (rows.lengths.length > 0) return rows
  }
}

/** @param places of each event in the chunk, as in the head of this file */
function rowsOf(
  events: readonly (string | null)[],
  places: readonly number[],
  isExport: boolean,
): ParquetRows {
  const texts: string[] = []
  const lengths: number[] = []
  for (const [index, place] of places.entries()) {
    if (place > 0) continue
    const event = events[index] ?? null
    const text = isExport || place < 0 ? (event ?? '') : withoutNaN(must(event, 'an event'))
    const length = place < 0 ? TOO_LONG : Buffer.byteLength(text)
    const isLong = length > IMPORT_ROW_BYTES_MAX
    lengths.push(isLong ? TOO_LONG : length)
    if (length > 0 && !isLong) texts.push(text)
  }
  const bytes = Buffer.allocUnsafeSlow(lengths.reduce((sum, length) => sum + Math.max(0, length), 0))
  let end = 0
  for (const text of texts) end += bytes.write(text, end)
  return { bytes, lengths: Int32Array.from(lengths) }
}

// ── How the types of a file become JSON: docs/import.md has the table ───────────────────────────

/** Digits of DuckDB's widest DECIMAL. It reads more digits as a double of the wrong bytes. */
const DECIMAL_DIGITS_MAX = 38

/** An element of a file's schema, by DuckDB's names. */
interface ParquetElement {
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
function checkElement({ converted, precision, logical }: ParquetElement, column: string): void {
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
function jsonSql(value: string, type: DuckDBType, isJson: boolean): string {
  const json = (of: string) => `CAST(to_json(${of}) AS VARCHAR)`
  // to_json() of JSON would write its decimals as doubles.
  if (type.typeId === DuckDBTypeId.VARIANT) return `CAST(${innerSql(value, type, 0)} AS VARCHAR)`
  const text = textSql(value, type)
  if (text === undefined) return json(innerSql(value, type, 0))
  return isJson ? `CASE WHEN ${isJsonSql(text)} THEN ${text} ELSE ${json(text)} END` : json(text)
}

/** The text of a text or of bytes, which are base64 where they are not UTF-8. */
function textSql(value: string, { typeId }: DuckDBType): string | undefined {
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
