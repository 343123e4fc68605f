/**
 * O_DIRECT is used where the file system has it. A writer that fell back to the page cache would
 * pass every test of the bytes. The test is skipped without such a file system or without the
 * native module.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DIRECT_WRITE_BYTES_MIN, disk, writeDirect, writeDurably } from '../../src/util/disk.ts'
import { tryNative } from '../../src/util/native.ts'

/** A folder beside the build, because /tmp is often a tmpfs, which is only page cache. */
const DIST = fileURLToPath(new URL('../..', import.meta.url))
/** File systems with O_DIRECT, by the type of statfs(2). */
const TAKES_DIRECT = new Map([
  [0xef53, 'ext4'],
  [0x58465342, 'xfs'],
  [0x9123683e, 'btrfs'],
])
const BLOCK = 4096
/** The value of the flag differs between machines. */
const { O_DIRECT } = constants

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(DIST, 'direct-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The reason why O_DIRECT cannot be observed here, or undefined. */
function whyNot(): string | undefined {
  if (tryNative() === undefined) return 'the native module is not built'
  const type = statfsSync(folder).type
  return TAKES_DIRECT.has(type)
    ? undefined
    : `the file system (0x${type.toString(16)}) is not known to take O_DIRECT`
}

/** Bytes of the file that are in the page cache, by fincore(1) of util-linux. */
function cachedBytes(path: string): number {
  const { status, stdout, error } = spawnSync('fincore', ['--bytes', '--noheadings', '--output', 'RES', path])
  if (status !== 0) throw error ?? new Error('fincore failed')
  return Number(stdout.toString())
}

test('a large buffer is written past the cache, in whole blocks, and its file stays an ordinary one', context => {
  const why = whyNot()
  if (why !== undefined) return context.skip(why)
  const path = join(folder, 'direct')
  const file = openSync(path, 'wx')
  try {
    expect(writeDirect(file, new Uint8Array(DIRECT_WRITE_BYTES_MIN + 5).fill(7))).toBe(
      DIRECT_WRITE_BYTES_MIN - (DIRECT_WRITE_BYTES_MIN % BLOCK),
    )
    const flags = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${file}`, 'utf8'))?.[1]
    // The last bytes are no whole block: a write with the flag would fail.
    expect(Number.parseInt(flags ?? '', 8) & O_DIRECT).toBe(0)
    expect(cachedBytes(path)).toBe(0)
  } finally {
    closeSync(file)
  }
})

test('a segment-sized file leaves at most its last blocks in the cache; a small one is written through it', context => {
  const why = whyNot()
  if (why !== undefined) return context.skip(why)
  const [large, small] = [join(folder, 'large'), join(folder, 'small')]
  writeDurably(disk, large, [new Uint8Array(4 * DIRECT_WRITE_BYTES_MIN + 5).fill(7)], 'the cache')
  // The page of the last five bytes, and perhaps a few around it.
  expect(cachedBytes(large)).toBeLessThanOrEqual(64 * 1024)
  writeDurably(disk, small, [new Uint8Array(DIRECT_WRITE_BYTES_MIN - 1).fill(7)], 'the cache')
  expect(cachedBytes(small)).toBeGreaterThanOrEqual(DIRECT_WRITE_BYTES_MIN - BLOCK)
})
