/**
 * Opens a segment's Parquet file with parquet-wasm, so that damage inside it is an error that names it.
 *
 * A damaged page may make the WebAssembly code trap inside a task of its own: the error then reaches nobody but
 * `uncaughtException`, the promise that waits for the page never settles, and the instance cannot be used any more. So
 * while a file is read, a trap of this thread is that file's damage, and the next file gets a fresh instance.
 */
import { openAsBlob } from 'node:fs'
import type { ParquetFile } from 'parquet-wasm'
import { Damaged } from '../util/errors.ts'
import { dropParquetWasm, isTrap, parquetWasm } from '../util/parquet-wasm.ts'

/** The reader before this one: one file at a time, or a trap could not be told to belong to one of two. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Opens, reads and frees. Whatever `work` throws becomes Damaged naming the file. Not to be called within `work`.
 */
export function withParquet<T>(file: string, work: (parquet: ParquetFile) => Promise<T>): Promise<T> {
  const done = last.then(() => readOne(file, work))
  last = done.catch(() => undefined)
  return done
}

async function readOne<T>(file: string, work: (parquet: ParquetFile) => Promise<T>): Promise<T> {
  const opened: { parquet?: ParquetFile } = {}
  let onTrap: (error: Error) => void = () => undefined
  const trapped = new Promise<never>((_, reject) => {
    onTrap = reject
  })
  const onUncaught = (error: unknown) => {
    if (!isTrap(error)) throw error // not ours: it ends the thread, as without us
    onTrap(error)
  }
  process.on('uncaughtException', onUncaught)
  try {
    const result = await Promise.race([read(file, work, opened), trapped])
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

async function read<T>(
  file: string,
  work: (parquet: ParquetFile) => Promise<T>,
  opened: { parquet?: ParquetFile },
): Promise<T> {
  opened.parquet = await parquetWasm().ParquetFile.fromFile(await openAsBlob(file))
  return await work(opened.parquet)
}

/** A file that is lent to the trapped task must not be freed, neither now nor when it is collected. */
function dropInstance(parquet: ParquetFile | undefined): void {
  ;(parquet as { __destroy_into_raw?: () => number } | undefined)?.__destroy_into_raw?.()
  dropParquetWasm()
}
