/** Writes past the page cache, where the native module was built and the file system takes them. */
import { tryNative } from './native.ts'

type WriteDirect = (file: number, bytes: Uint8Array) => number

let native: WriteDirect | undefined

/**
 * Writes `bytes` to the beginning of a new file, without a copy in the page cache.
 * @returns how many bytes were written: a multiple of 4,096, or 0. The rest is the caller's, who so hears of a full disk
 */
export function writeDirect(file: number, bytes: Uint8Array): number {
  native ??= (tryNative()?.['writeDirect'] as WriteDirect | undefined) ?? (() => 0)
  return native(file, bytes)
}
