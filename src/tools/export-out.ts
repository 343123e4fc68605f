/**
 * Writes an export to a file or to standard output.
 *
 *   W-8  A file gets its name when it is complete and synced.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { disk, syncFolder } from '../util/disk.ts'
import { CannotRun, Unavailable } from '../util/errors.ts'
import { EXPORT_PIECE_BYTES } from '../util/limits.ts'
import { unfinishedFile } from '../util/paths.ts'
import { sayBytes } from '../util/say.ts'
import { whenInterrupted } from './interrupts.ts'

/** Called before anything is replayed or read. Throws CannotRun where `out` cannot be written. */
export function checkOut({ out, force }: { readonly out: string; readonly force: boolean }): void {
  if (out === '-') return
  const folder = dirname(resolve(out))
  try {
    const found = statSync(out, { throwIfNoEntry: false })
    if (found?.isDirectory() === true)
      throw new CannotRun(
        `--out ${out} is a folder: name a file in it, as in --out ${join(out, 'rows.parquet')}`,
      )
    if (found !== undefined && !found.isFile())
      throw new CannotRun(`--out ${out} is not a plain file: name a new file, or - for standard output`)
    if (found !== undefined && !force)
      throw new CannotRun(`--out ${out} exists already: name another file, or replace it with --force`)
    accessSync(folder, constants.W_OK)
  } catch (error) {
    throw error instanceof CannotRun ? error : cannotWrite(out, folder, error as NodeJS.ErrnoException)
  }
}

function cannotWrite(out: string, folder: string, { code, message }: NodeJS.ErrnoException): CannotRun {
  if (code === 'ENOENT')
    return new CannotRun(`--out ${out}: the folder ${folder} does not exist: make it first`)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return new CannotRun(`--out ${out}: this user has no permission to write to the folder ${folder}`)
  return new CannotRun(`--out ${out} cannot be written: ${message}`)
}

/**
 * Writes a file beside `out`, syncs it and renames it. `fill` gets the path of an empty file.
 * Returns the bytes. Throws Unavailable for an error of the disk.
 * @param endWriter see inNewFile
 */
export async function publish(
  out: string,
  fill: (temporary: string) => Promise<void>,
  endWriter?: () => Promise<void>,
): Promise<number> {
  const temporary = unfinishedFile(out)
  const work = async () => {
    await fill(temporary)
    return onDisk(out, () => {
      const file = disk.open(temporary, 'r')
      try {
        disk.fdatasync(file)
      } finally {
        disk.close(file)
      }
      const size = disk.size(temporary)
      disk.rename(temporary, out)
      return size
    })
  }
  const bytes = await inNewFile(temporary, out, work, endWriter)
  onDisk(out, () => syncFolder(disk, dirname(out)))
  return bytes
}

/**
 * Runs `work` with a new, empty file. The file is removed after a failure or an interrupt.
 * @param endWriter ends another process that writes the file, which could make it again
 */
export async function inNewFile<T>(
  path: string,
  out: string,
  work: (path: string) => Promise<T>,
  endWriter = async () => {},
): Promise<T> {
  let isMade = false
  const remove = () => {
    if (isMade && disk.exists(path)) disk.unlink(path)
  }
  // Before the file is made, because a signal between the two would leave it.
  const forget = whenInterrupted(async () => {
    remove()
    await endWriter()
    remove()
  })
  try {
    onDisk(out, () => disk.close(disk.open(path, 'wx')))
    isMade = true
    return await work(path)
  } catch (error) {
    remove()
    throw error
  } finally {
    forget()
  }
}

/** Writes `chunks` to the file `path`, which `publish` made. */
export async function fillFile(path: string, out: string, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const file = disk.open(path, 'r+')
  try {
    let position = 0
    for await (const bytes of chunks) {
      onDisk(out, () => disk.write(file, [bytes], position))
      position += bytes.byteLength
    }
  } finally {
    disk.close(file)
  }
}

/** Writes to standard output, as fast as its reader reads. Returns the bytes. */
export async function print(chunks: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0
  for await (const chunk of chunks) {
    await sayBytes(chunk)
    bytes += chunk.byteLength
  }
  return bytes
}

/** Reads a file in pieces. It removes the name of the file first. */
export async function* piecesOf(path: string): AsyncGenerator<Uint8Array, void, void> {
  const file = disk.open(path, 'r')
  try {
    disk.unlink(path)
    for (let position = 0; ; ) {
      const piece = new Uint8Array(EXPORT_PIECE_BYTES)
      const read = disk.read(file, piece, position)
      if (read === 0) return
      position += read
      yield piece.subarray(0, read)
    }
  } finally {
    disk.close(file)
  }
}

function onDisk<T>(out: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new Unavailable('out_failed', `--out ${out} cannot be written: ${(error as Error).message}`)
  }
}
