/**
 * Where an export goes: a file, or standard output.
 *
 *   W-8  A file has its name only when all of it is there and synced.
 */
import { dirname } from 'node:path'
import { EXPORT_PIECE_BYTES } from '../limits.ts'
import { type Disk, syncFolder } from '../util/disk.ts'
import { sayBytes } from '../util/say.ts'

/** Writes beside `out`, then syncs and renames. `fill` writes to a file that is there and empty. Returns the bytes. */
export async function publish(
  on: Disk,
  out: string,
  fill: (temporary: string) => Promise<void>,
): Promise<number> {
  const temporary = `${out}.tmp-${process.pid}`
  const bytes = await inNewFile(on, temporary, async () => {
    await fill(temporary)
    const file = on.open(temporary, 'r')
    try {
      on.fdatasync(file)
    } finally {
      on.close(file)
    }
    const size = on.size(temporary)
    on.rename(temporary, out)
    return size
  })
  syncFolder(on, dirname(out))
  return bytes
}

/** Runs `work` with a new, empty file; what stands at its name after a failure is removed. */
export async function inNewFile<T>(on: Disk, path: string, work: (path: string) => Promise<T>): Promise<T> {
  on.close(on.open(path, 'wx'))
  try {
    return await work(path)
  } catch (error) {
    if (on.exists(path)) on.unlink(path)
    throw error
  }
}

/** Fills a file with chunks, one behind the other. */
export function into(on: Disk, chunks: AsyncIterable<Uint8Array>): (path: string) => Promise<void> {
  return async path => {
    const file = on.open(path, 'r+')
    try {
      let position = 0
      for await (const bytes of chunks) {
        on.write(file, [bytes], position)
        position += bytes.byteLength
      }
    } finally {
      on.close(file)
    }
  }
}

/** To standard output, as fast as it is read. Returns the bytes. */
export async function print(chunks: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0
  for await (const chunk of chunks) {
    await sayBytes(chunk)
    bytes += chunk.byteLength
  }
  return bytes
}

/** A file in pieces. It loses its name at once. */
export async function* piecesOf(on: Disk, path: string): AsyncGenerator<Uint8Array, void, void> {
  const file = on.open(path, 'r')
  try {
    on.unlink(path)
    for (let position = 0; ; ) {
      const piece = new Uint8Array(EXPORT_PIECE_BYTES)
      const read = on.read(file, piece, position)
      if (read === 0) return
      position += read
      yield piece.subarray(0, read)
    }
  } finally {
    on.close(file)
  }
}
