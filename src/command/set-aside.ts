/** data/damaged: what repairs took out of the way. Kept until a person removes it. */
import { basename, join } from 'node:path'
import type { Paths } from '../paths.ts'
import { wallMs } from '../util/clock.ts'
import { type Disk, syncFolder } from '../util/disk.ts'

/** Bytes copied at once. */
const PIECE_BYTES = 1024 * 1024

/** A folder for this repair: `data/damaged/20260131T235959123Z`. */
export function damagedFolder(paths: Paths): string {
  const moment = new Date(wallMs()).toISOString().replace(/[-:.]/g, '')
  return join(paths.damaged, moment)
}

/** Copies `file` into `folder`, durably. */
export function copyAside(on: Disk, file: string, folder: string): void {
  on.mkdir(folder)
  const from = on.open(file, 'r')
  try {
    const to = on.open(join(folder, basename(file)), 'w')
    try {
      const piece = new Uint8Array(PIECE_BYTES)
      for (let position = 0; ; ) {
        const read = on.read(from, piece, position)
        if (read === 0) break
        on.write(to, [piece.subarray(0, read)], position)
        position += read
      }
      on.fdatasync(to)
    } finally {
      on.close(to)
    }
  } finally {
    on.close(from)
  }
  syncFolder(on, folder)
}

/** Moves `file` into `folder`. */
export function moveAside(on: Disk, file: string, folder: string): void {
  on.mkdir(folder)
  on.rename(file, join(folder, basename(file)))
  syncFolder(on, folder)
}
