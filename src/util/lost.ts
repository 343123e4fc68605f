/**
 * A sector that cannot be read is damage of its file. The system's error does not name the file (`EIO: i/o error, read`), so
 * whoever knows the file says so; the rest can go on then.
 */
import { Damaged } from '../errors.ts'

/** Is `source` lost, or its disk broken? Anything else (too many open files, a full disk) says nothing about it. */
export function isLost(error: unknown, source: string): boolean {
  const { syscall, path, code } = error as NodeJS.ErrnoException
  return (
    syscall === 'read' ||
    ((syscall === 'open' || syscall === 'stat') && path === source && (code === 'ENOENT' || code === 'EIO'))
  )
}

/** What reading `file` threw: Damaged naming it where it is lost, else the error itself. */
export function asDamage(error: unknown, file: string): unknown {
  return isLost(error, file) ? new Damaged(file, 0, (error as Error).message) : error
}
