/** data/damaged: what repairs took out of the way. Kept until a person removes it. */
import { basename, join } from 'node:path'
import { wallMs } from '../util/clock.ts'
import { type Disk, readDamagedFile, syncFolder, writeDurably } from '../util/disk.ts'
import type { Paths } from '../util/paths.ts'

/** A folder for this repair: `data/damaged/20260131T235959123Z`. */
export function damagedFolder(paths: Paths): string {
  const moment = new Date(wallMs()).toISOString().replace(/[-:.]/g, '')
  return join(paths.damaged, moment)
}

/** Copies `file` into `folder`, durably; zeros stand for what cannot be read of it. */
export function copyAside(on: Disk, file: string, folder: string): void {
  on.mkdir(folder)
  writeDurably(on, join(folder, basename(file)), [readDamagedFile(on, file).bytes])
  syncFolder(on, folder)
}

/** Moves `file` into `folder`. */
export function moveAside(on: Disk, file: string, folder: string): void {
  on.mkdir(folder)
  on.rename(file, join(folder, basename(file)))
  syncFolder(on, folder)
}
