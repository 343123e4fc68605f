/**
 * A small file system that a test can fill, in place of the machine's disk.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'

export interface SmallDisk {
  /** Sets its size, such as `64m`. */
  resize(size: string): void
  /** Unmounts it, even with open files. */
  end(): void
}

/** The reason for skipping a test that needs a small disk. */
export const NO_SMALL_DISK = 'a small file system cannot be mounted here'

/**
 * Mounts a file system of `size` (such as `64m`) at `folder`, which is created if missing. Returns
 * undefined where nothing can be mounted.
 */
export function mountSmall(folder: string, size: string): SmallDisk | undefined {
  mkdirSync(folder, { recursive: true })
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder]).status !== 0)
    return undefined
  return {
    resize: to => void spawnSync('mount', ['-o', `remount,size=${to}`, folder]),
    end: () => void spawnSync('umount', ['--lazy', folder]),
  }
}

/**
 * Fills the file system of `file` by growing that file. Removing the file frees the space.
 */
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
