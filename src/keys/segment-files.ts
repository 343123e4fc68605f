/**
 * Reads of segments' Parquet files what the index needs: the footer, and some columns as raw Arrow buffers.
 * The format is the segment stage's (src/segment/FORMAT.md). Only the named columns are read and decoded.
 */
import type * as Arrow from 'apache-arrow'
import type { Data, RecordBatch } from 'apache-arrow'
import type { ColumnType } from '../batch/plan.ts'
import { Damaged } from '../errors.ts'
import { ROW_GROUP_ROWS } from '../limits.ts'
import { loadPackage } from '../util/load-package.ts'
import { withParquet } from './parquet-file.ts'

/** Loaded with the first file that is read: a rebuild of a new folder's index reads none. */
const arrow = () => loadPackage('apache-arrow') as typeof Arrow

/** What a segment's file says of itself. */
export interface Footer {
  readonly pool: number
  readonly planVersion: number
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
    planVersion: number('weir.plan_version'),
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
  const batches = await withParquet(file, async parquet => {
    const metadata = parquet.metadata()
    const groups = metadata.numRowGroups()
    metadata.free()
    const { tableFromIPC } = arrow()
    const all: RecordBatch[] = []
    for (let from = 0; from < groups; from += READ_GROUPS) {
      const rowGroups = Array.from({ length: Math.min(READ_GROUPS, groups - from) }, (_, i) => from + i)
      const table = await parquet.read({ columns: [...names], rowGroups, batchSize: ROW_GROUP_ROWS })
      all.push(...tableFromIPC(table.intoIPCStream()).batches) // consumes the table
    }
    return all
  })
  return {
    rows: batches.reduce((sum, batch) => sum + batch.numRows, 0),
    column: (name, type) =>
      batches.map(batch => {
        const data = batch.getChild(name)?.data[0]
        if (data === undefined) throw new Damaged(file, 0, `it has no column ${name}`)
        if (!isStoredAs(data, type)) throw new Damaged(file, 0, `its column ${name} is not ${type}`)
        return data
      }),
  }
}

/** Is that how a segment stores a type (src/segment/FORMAT.md)? */
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
