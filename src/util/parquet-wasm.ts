/**
 * parquet-wasm: one instance per thread, and a new one after a trap.
 *
 * A panic inside WebAssembly (damaged bytes, no memory) is a trap, after which later calls of the
 * instance may fail. The module instantiates itself when it is loaded, so a new instance needs a
 * new load. Two lists refer to a loaded module: the cache and the children of this module. An
 * instance that stays in one of them is never collected (10 MB, and 10 GiB of address space).
 */
import { createRequire } from 'node:module'
import type * as ParquetWasm from 'parquet-wasm'
import { cannotLoad } from './load-package.ts'

const require = createRequire(import.meta.url)

/**
 * The thread's instance. Each piece of work asks for it again and does not store it.
 * @throws CannotRun where the package cannot be loaded
 */
export function parquetWasm(): typeof ParquetWasm {
  try {
    return require('parquet-wasm') as typeof ParquetWasm
  } catch (error) {
    throw cannotLoad('parquet-wasm', error)
  }
}

/** True for a WebAssembly.RuntimeError, by its name: TypeScript has the class for browsers. */
export function isTrap(error: unknown): error is Error {
  return error instanceof Error && error.name === 'RuntimeError'
}

/** Drops the instance after a trap. Its objects must not even be freed. */
export function dropParquetWasm(): void {
  const path = require.resolve('parquet-wasm')
  const dropped = require.cache[path]
  delete require.cache[path]
  const user = dropped?.parent
  if (user) user.children = user.children.filter(child => child !== dropped)
}

/** Runs synchronous work. After a trap it drops the instance and rethrows. */
export function withParquetWasm<T>(work: (wasm: typeof ParquetWasm) => T): T {
  try {
    return work(parquetWasm())
  } catch (error) {
    if (isTrap(error)) dropParquetWasm()
    throw error
  }
}
