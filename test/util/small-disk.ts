/** A file system of its own size, to be filled: what a full disk does, without filling the machine's. */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'

export interface SmallDisk {
  /** Its new size, such as `64m`. */
  resize(size: string): void
  /** Open files do not keep it. */
  end(): void
}

/** Why a test that needs a small disk is skipped. */
export const NO_SMALL_DISK = 'a small file system cannot be mounted here'

/** A file system of `size` (such as `64m`) at `folder`, which is made if missing; undefined: it cannot be mounted here. */
export function mountSmall(folder: string, size: string): SmallDisk | undefined {
  mkdirSync(folder, { recursive: true })
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder]).status !== 0)
    return undefined
  return {
    resize: to => void spawnSync('mount', ['-o', `remount,size=${to}`, folder]),
    end: () => void spawnSync('umount', ['--lazy', folder]),
  }
}

/** Takes all room of the file system that `file` is on; what is there stays. It is free again when the file is removed. */
export function fillDisk(file: string): void {
  const ballast = openSync(file, 'a')
  try {
    for (let bytes = 1024 * 1024; bytes >= 4096; ) {
      try {
        writeSync(ballast, Buffer.alloc(bytes))
      } catch {
        bytes /= 2
      }
    }
  } finally {
    closeSync(ballast)
  }
}
