/**
 * Reads columns of a segment's Parquet file (segment.md) as raw Arrow buffers, with parquet-wasm.
 * Only the named columns are read and decoded.
 *
 * Damage inside a file becomes an error that names it. A damaged page may make WebAssembly trap
 * inside a task of its own: the error reaches only `uncaughtException`, and the promise that waits
 * for the page never settles. So while a file is read, a trap of this thread counts as that file's
 * damage, and the next file gets a fresh instance.
 */
import { openAsBlob } from 'node:fs'
import type * as Arrow from 'apache-arrow'
import type { Data, RecordBatch } from 'apache-arrow'
import type { ParquetFile, ParquetMetaData } from 'parquet-wasm'
import { Damaged, must } from '../util/errors.ts'
import { ROW_GROUP_ROWS } from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import { dropParquetWasm, isTrap, parquetWasm } from '../util/parquet-wasm.ts'
import { arrowType } from './arrow.ts'
import type { ColumnType } from './schema.ts'

/** Loaded with the first file that is read: a rebuild of a new folder's index reads none. */
const arrow = () => loadPackage('apache-arrow') as typeof Arrow

/** Row groups read at once. */
const READ_GROUPS = 8

/** Columns of all rows, as the pieces that were read: of each column the same lengths. */
export interface StoredColumns {
  readonly rows: number
  /** Throws Damaged naming the file where there is no such column of that type. */
  column(name: string, type: ColumnType): readonly Data[]
}

/**
 * Reads the named columns of all rows, a few row groups at a time: the reader's memory, which never
 * shrinks, stays small. Throws Damaged naming the file.
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
 * Names of a file's columns, in its order, which is that of a batch. apache-arrow removes U+FEFF
 * from the beginning of a name, which may be all in which two columns differ.
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
 * True where parquet-wasm can select this column alone. As names are paths, `a` selects `a.b` too,
 * and it traps where a name that is not ASCII begins another one (`é`, `éa`).
 */
function isSelectable(name: string, stored: readonly string[]): boolean {
  const isAscii = /^[\0-\x7f]*$/.test(name)
  return !stored.some(one => one !== name && one.startsWith(isAscii ? `${name}.` : name))
}

/** True where a segment stores the type so. The zone of a timestamp is left open. */
function isStoredAs({ type }: Data, wanted: ColumnType): boolean {
  return factsOf(type) === factsOf(arrowType(arrow(), wanted))
}

function factsOf(type: object): string {
  const { typeId, unit, precision, bitWidth, isSigned } = type as Partial<
    Record<'typeId' | 'unit' | 'precision' | 'bitWidth' | 'isSigned', unknown>
  >
  return [typeId, unit, precision, bitWidth, isSigned].join()
}

/** The reader before this one. One file is read at a time, so a trap belongs to one file. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Opens a file, calls `work` and frees the file. Every error of `work` becomes Damaged naming the
 * file. `work` must not call this function.
 * @param bytesOf reads ranges of the file
 */
export function withParquet<T>(
  file: string,
  work: (parquet: ParquetFile) => Promise<T>,
  bytesOf: (file: string) => Promise<Blob> = openAsBlob,
): Promise<T> {
  const done = last.then(() => readOne(file, work, bytesOf))
  last = done.catch(() => undefined)
  return done
}

async function readOne<T>(
  file: string,
  work: (parquet: ParquetFile) => Promise<T>,
  bytesOf: (file: string) => Promise<Blob>,
): Promise<T> {
  const opened: { parquet?: ParquetFile } = {}
  const read = async () => {
    opened.parquet = await parquetWasm().ParquetFile.fromFile(await bytesOf(file))
    return await work(opened.parquet)
  }
  let onTrap: (error: Error) => void = () => undefined
  const trapped = new Promise<never>((_, reject) => {
    onTrap = reject
  })
  const onUncaught = (error: unknown) => {
    // Any other error ends the thread, as it would without this listener.
    if (!isTrap(error)) throw error
    onTrap(error)
  }
  process.on('uncaughtException', onUncaught)
  try {
    const result = await Promise.race([read(), trapped])
    opened.parquet?.free()
    return result
  } catch (error) {
    if (isTrap(error)) dropInstance(opened.parquet)
    else opened.parquet?.free()
    if (error instanceof Damaged) throw error
    const what = error instanceof Error ? error.message : String(error)
    throw new Damaged(file, 0, isTrap(error) ? `its pages cannot be decoded: ${what}` : what)
  } finally {
    process.off('uncaughtException', onUncaught)
  }
}

/** A file that is lent to the trapped task must never be freed, not even when it is collected. */
function dropInstance(parquet: ParquetFile | undefined): void {
  ;(parquet as { __destroy_into_raw?: () => number } | undefined)?.__destroy_into_raw?.()
  dropParquetWasm()
}
