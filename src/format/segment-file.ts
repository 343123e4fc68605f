/**
 * Reads of segments' Parquet files what the index needs: the footer, and some columns as raw Arrow buffers.
 * The format is the segment stage's (src/format/segment.md). Only the named columns are read and decoded.
 */
import type * as Arrow from 'apache-arrow'
import type { Data, RecordBatch } from 'apache-arrow'
import type { ParquetMetaData } from 'parquet-wasm'
import { must } from '../util/assert.ts'
import { Damaged } from '../util/errors.ts'
import { ROW_GROUP_ROWS } from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import { withParquet } from './parquet-file.ts'
import type { ColumnType } from './schema.ts'

/** Loaded with the first file that is read: a rebuild of a new folder's index reads none. */
const arrow = () => loadPackage('apache-arrow') as typeof Arrow

/** What a segment's file says of itself. */
export interface Footer {
  readonly pool: number
  readonly schemaVersion: number
  readonly segment: number
  readonly sequenceFrom: number
  readonly sequenceTo: number
  readonly rows: number
  /** Keys in the delete file beside it; 0: there is none. */
  readonly deletes: number
  readonly replaces: readonly number[]
}

/** Row groups read at once. */
const READ_GROUPS = 8

/** The footer of a Parquet file. Throws Damaged naming the file. */
export async function readFooter(file: string): Promise<Footer> {
  const texts = await withParquet(file, async parquet => {
    const metadata = parquet.metadata().fileMetadata()
    return metadata.keyValueMetadata() as Map<string, string>
  })
  const number = (name: string): number => {
    const value = Number(texts.get(name) ?? Number.NaN)
    if (!Number.isSafeInteger(value) || value < 0) throw new Damaged(file, 0, `its footer has no ${name}`)
    return value
  }
  if (number('weir.format') !== 1) throw new Damaged(file, 0, 'its format is not known')
  const replaces = texts.get('weir.replaces') ?? ''
  return {
    pool: number('weir.pool_number'),
    schemaVersion: number('weir.schema_version'),
    segment: number('weir.segment'),
    sequenceFrom: number('weir.sequence_from'),
    sequenceTo: number('weir.sequence_to'),
    rows: number('weir.rows'),
    deletes: number('weir.deletes'),
    replaces: replaces === '' ? [] : replaces.split(',').map(Number),
  }
}

/** Columns of all rows, as the pieces that were read: every column has as many, of the same lengths. */
export interface StoredColumns {
  readonly rows: number
  /** Throws Damaged naming the file where there is no such column of that type. */
  column(name: string, type: ColumnType): readonly Data[]
}

/**
 * Reads the named columns of all rows, a few row groups at a time: the reader's memory, which never shrinks, stays small.
 * Throws Damaged naming the file.
 */
export async function readColumns(file: string, names: readonly string[]): Promise<StoredColumns> {
  let read: readonly string[] = []
  const batches = await withParquet(file, async parquet => {
    const metadata = parquet.metadata()
    const groups = metadata.numRowGroups()
    const stored = groups > 0 ? columnNames(metadata) : []
    metadata.free()
    const canSelect = names.every(name => isSelectable(name, stored))
    read = canSelect ? stored.filter(name => names.includes(name)) : stored
    const { tableFromIPC } = arrow()
    const all: RecordBatch[] = []
    for (let from = 0; from < groups; from += READ_GROUPS) {
      const rowGroups = Array.from({ length: Math.min(READ_GROUPS, groups - from) }, (_, i) => from + i)
      const table = await parquet.read({
        ...(canSelect ? { columns: [...names] } : {}),
        rowGroups,
        batchSize: ROW_GROUP_ROWS,
      })
      all.push(...tableFromIPC(table.intoIPCStream()).batches) // consumes the table
    }
    return all
  })
  return {
    rows: batches.reduce((sum, batch) => sum + batch.numRows, 0),
    column: (name, type) =>
      batches.map(batch => {
        const data = batch.getChildAt(read.indexOf(name))?.data[0]
        if (data === undefined) throw new Damaged(file, 0, `it has no column ${name}`)
        if (!isStoredAs(data, type)) throw new Damaged(file, 0, `its column ${name} is not ${type}`)
        return data
      }),
  }
}

/**
 * Names of a file's columns, in its order, which is that of a batch's columns. Not the names in a batch: apache-arrow takes a
 * mark (U+FEFF) away from their beginning, and two columns may differ in nothing else.
 */
function columnNames(metadata: ParquetMetaData): string[] {
  const group = metadata.rowGroup(0)
  const names = Array.from({ length: group.numColumns() }, (_, index) => {
    const column = group.column(index)
    const [name] = column.columnPath()
    column.free()
    return must(name, 'the name of a column')
  })
  group.free()
  return names
}

/**
 * Can parquet-wasm select this column alone? It compares names as paths: `a` selects `a.b` too, and where a name that is not
 * ASCII begins another one (`é`, `éa`) it counts characters as bytes and traps. Then all columns are read.
 */
function isSelectable(name: string, stored: readonly string[]): boolean {
  const isAscii = /^[\0-\x7f]*$/.test(name)
  return !stored.some(one => one !== name && one.startsWith(isAscii ? `${name}.` : name))
}

/** Is that how a segment stores a type (src/format/segment.md)? */
function isStoredAs({ type }: Data, wanted: ColumnType): boolean {
  const { DataType, DateUnit, Precision, TimeUnit } = arrow()
  switch (wanted) {
    case 'BOOLEAN':
      return DataType.isBool(type)
    case 'STRING':
    case 'JSON':
      return DataType.isUtf8(type)
    case 'FLOAT':
      return DataType.isFloat(type) && type.precision === Precision.SINGLE
    case 'DOUBLE':
      return DataType.isFloat(type) && type.precision === Precision.DOUBLE
    case 'DATE':
      return DataType.isDate(type) && type.unit === DateUnit.DAY
    case 'TIMESTAMP':
      return DataType.isTimestamp(type) && type.unit === TimeUnit.MICROSECOND
    default:
      return DataType.isInt(type) && type.isSigned && type.bitWidth === Number(wanted.slice('INT'.length))
  }
}
