/**
 * parquet-wasm, one instance a thread, and a fresh one after a trap.
 *
 * A panic inside WebAssembly (damaged bytes, no memory) is a trap: it leaves the instance's memory as it stood, and with it
 * everything that is done with that instance later. The module instantiates itself when it is loaded, so it is loaded
 * anew. What is loaded hangs in two places, the cache and the list of what was required here; a dropped instance that
 * stays in one of them is never collected (10 MB each and 10 GiB of address space).
 */
import { createRequire } from 'node:module'
import type * as ParquetWasm from 'parquet-wasm'

const require = createRequire(import.meta.url)

/** The thread's instance. To be asked for by each piece of work, and not to be kept. */
export function parquetWasm(): typeof ParquetWasm {
  return require('parquet-wasm') as typeof ParquetWasm
}

/** A WebAssembly.RuntimeError: told by its name, TypeScript knows the class in browsers alone. */
export function isTrap(error: unknown): error is Error {
  return error instanceof Error && error.name === 'RuntimeError'
}

/** After a trap. What the old instance made must not be used any more, not freed either: it would trap again. */
export function dropParquetWasm(): void {
  const path = require.resolve('parquet-wasm')
  const dropped = require.cache[path]
  delete require.cache[path]
  const user = dropped?.parent
  if (user) user.children = user.children.filter(child => child !== dropped)
}

/** Runs work that does not wait. A trap in it costs the instance, and is thrown on. */
export function withParquetWasm<T>(work: (wasm: typeof ParquetWasm) => T): T {
  try {
    return work(parquetWasm())
  } catch (error) {
    if (isTrap(error)) dropParquetWasm()
    throw error
  }
}
