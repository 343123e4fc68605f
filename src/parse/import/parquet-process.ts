/**
 * Reads a Parquet file as events in JSON, in the process `weir-parquet`: DuckDB reads a client's
 * file there, and a damaged file that crashes it ends one import and nothing else.
 *
 *   SELECT '{' || concat_ws(',', $1 || to_json(c0), $2 || to_json(c1), …) || '}' FROM the file
 *
 * Keys are bound and columns are numbered, so no name of the file enters the statement. A null has
 * no property, because `||` of it is null and concat_ws leaves nulls out.
 *
 *   W-9  DuckDB has PARQUET_MEMORY_BYTES and spills nothing. One chunk of 2,048 rows is in memory.
 */
import type { DuckDBConnection, DuckDBResult, DuckDBType } from '@duckdb/node-api'
import type { SchemaColumn } from '../../format/schema.ts'
import { must } from '../../util/assert.ts'
import { DuckDBInstance, DuckDBTypeId } from '../../util/duckdb.ts'
import { PARQUET_MEMORY_BYTES } from '../../util/limits.ts'
import { quoteText } from '../../util/sql.ts'
import { type CallPort, serve } from '../../util/thread-server.ts'
import { BodyBroken } from './import-types.ts'
import { type RowShape, type ShapeNode, shapeOf } from './row-shape.ts'

interface ParquetFile {
  /** Absolute. */
  readonly file: string
  readonly columns: readonly SchemaColumn[]
  readonly skipRows: number
}

/** What is wrong with the file. */
export interface BrokenFile {
  readonly code: string
  readonly message: string
}

/** The events of some rows: event `i` ends at `ends[i]`. */
interface ParquetRows {
  readonly bytes: Uint8Array
  readonly ends: Int32Array
}

export interface ParquetCalls {
  /** The first call. The number of rows that are left out because of `skipRows`. */
  open(file: ParquetFile): { readonly skipped: number } | { readonly broken: BrokenFile }
  /** The next rows; without any at the end. */
  next(): ParquetRows | { readonly broken: BrokenFile }
}

/** Serves the calls of an import's thread until it stops the process. */
export function serveParquet(port: CallPort): void {
  let result: DuckDBResult | undefined
  let file = ''
  serve<ParquetCalls>(port, {
    open: given => {
      file = given.file
      return orBroken(file, async () => {
        const opened = await open(await connect(file), given)
        result = opened.result
        return { skipped: opened.skipped }
      })
    },
    next: () => orBroken(file, () => nextRows(must(result, 'an open file'))),
  })
}

/** The answer of `work`, or what DuckDB says is wrong. */
async function orBroken<T>(
  file: string,
  work: () => Promise<T>,
): Promise<T | { readonly broken: BrokenFile }> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof BodyBroken) return { broken: { code: error.code, message: error.message } }
    const [first = ''] = (error as Error).message.split('\n', 1)
    const message = `the file cannot be read: ${first.replaceAll(file, 'the file')}`
    return { broken: { code: 'broken_parquet', message } }
  }
}

/** A connection that can read this file alone, and write none. */
async function connect(file: string): Promise<DuckDBConnection> {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  const settings = [
    "SET TimeZone = 'UTC'",
    "SET temp_directory = ''",
    'SET threads = 1',
    `SET memory_limit = '${Math.trunc(PARQUET_MEMORY_BYTES / 1024)}KiB'`,
    'SET enable_external_file_cache = false',
    'SET autoinstall_known_extensions = false',
    'SET autoload_known_extensions = false',
    'SET allow_community_extensions = false',
    `SET allowed_paths = [${quoteText(file)}]`,
    'SET enable_external_access = false',
    'SET lock_configuration = true',
  ]
  for (const statement of settings) await connection.run(statement)
  return connection
}

async function open(connection: DuckDBConnection, { file, columns, skipRows }: ParquetFile) {
  const source = `read_parquet([${quoteText(file)}], hive_partitioning = false)`
  const empty = await connection.run(`SELECT * FROM ${source} LIMIT 0`)
  const shape = shapeOf(empty.columnNames(), columns)
  const [count] = await (await connection.run(`SELECT count(*) FROM ${source}`)).getRows()
  const skipped = Math.min(skipRows, Number(count?.[0]))
  const { sql, keys } = rowSql(shape, empty.columnTypes())
  const names = shape.fields.map((_, index) => `c${index}`).join(', ')
  const select = `SELECT ${sql} FROM (FROM ${source} OFFSET ${skipped}) AS file_rows(${names})`
  const prepared = await connection.prepare(select)
  for (const [index, key] of keys.entries()) prepared.bindVarchar(index + 1, key)
  return { result: await prepared.stream(), skipped }
}

/** The expression of a row's event, and the keys that it is bound to. */
function rowSql({ fields, nodes, payload }: RowShape, types: readonly DuckDBType[]) {
  const keys: string[] = []
  if (payload >= 0) return { sql: `CAST(c${payload} AS VARCHAR)`, keys }
  const member = ({ key, field, children }: ShapeNode): string => {
    keys.push(key.toString())
    const name = `$${keys.length}`
    if (field >= 0) return `${name} || ${valueSql(field, fields[field]?.type === 'JSON', types)}`
    return `${name} || nullif(${object(children)}, '{}')`
  }
  const object = (members: readonly ShapeNode[]): string =>
    `'{' || concat_ws(',', ${members.map(member).join(', ')}) || '}'`
  return { sql: object(nodes), keys }
}

/**
 * The JSON text of a column's value. NaN and infinity become texts, which a number's column
 * refuses. Bytes become a text where they are UTF-8, else base64.
 */
function valueSql(field: number, isJson: boolean, types: readonly DuckDBType[]): string {
  const column = `c${field}`
  const json = (value: string) => `CAST(to_json(${value}) AS VARCHAR)`
  switch (must(types[field], 'the type of a column').typeId) {
    case DuckDBTypeId.FLOAT:
    case DuckDBTypeId.DOUBLE:
      return `CASE WHEN isfinite(${column}) THEN ${json(column)} ELSE ${json(`CAST(${column} AS VARCHAR)`)} END`
    case DuckDBTypeId.BLOB:
      return json(`coalesce(try(decode(${column})), to_base64(${column}))`)
    case DuckDBTypeId.VARCHAR: {
      const text = `CAST(${column} AS VARCHAR)`
      const asText = json(text)
      return isJson ? `CASE WHEN json_valid(${text}) THEN ${text} ELSE ${asText} END` : asText
    }
    default:
      return json(column)
  }
}

async function nextRows(result: DuckDBResult): Promise<ParquetRows> {
  const chunk = await result.fetchChunk()
  const isEnd = chunk === null || chunk.rowCount === 0
  const texts = (isEnd ? [] : chunk.getColumnValues(0)) as readonly (string | null)[]
  const bytes = Buffer.from(texts.join(''))
  const ends = new Int32Array(texts.length)
  let end = 0
  for (const [index, text] of texts.entries()) {
    end += Buffer.byteLength(text ?? '')
    ends[index] = end
  }
  return { bytes, ends }
}
