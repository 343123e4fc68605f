/**
 * W-4 under `kill -9`: an answered commit is there, and a transaction is there whole or not at all.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { openIndex } from '../../src/index/index-client.ts'
import { temporaryFolder } from '../util/server.ts'

const CHILD = fileURLToPath(new URL('./crash_child.js', import.meta.url))

/**
 * Kills a child at its nth passing of `point`. Returns the number of answered commits, and the
 * index on disk.
 */
async function killAt(point: string, kernel: 'native' | 'js', nth = 4) {
  const root = temporaryFolder()
  mkdirSync(join(root, 'segment'))
  const crashAt = point === '' ? '' : `${point}:${nth}`
  const child = spawnSync(process.execPath, [CHILD, root, crashAt, kernel], { encoding: 'utf8' })
  const { opened, index } = await openIndex({
    folder: join(root, 'index'),
    segmentFolder: join(root, 'segment'),
    identity: 'here',
    pools: [],
    kernel: kernel === 'native' ? 'js' : 'native', // the other store reads it
    crashAt: '',
    nice: undefined,
  })
  const { deletionVectors } = await index.readDeletionVectors(1)
  await index.stop()
  const told = (child.stdout.match(/committed/g) ?? []).length
  const segments = opened.pools[0]?.segments.map(({ segment, deletedRows }) => [segment, deletedRows])
  return {
    signal: child.signal,
    told,
    opened,
    segments,
    deletionVectors,
    output: child.stdout + child.stderr,
  }
}

describe.each(['native', 'js'] as const)('index killed, %s key loop', kernel => {
  test('W-4 before the commit: the fourth flush is not there', async () => {
    const { signal, told, opened, segments, deletionVectors } = await killAt('index.before-commit', kernel)
    expect([signal, told, opened.lastCommit, opened.rebuilt]).toEqual(['SIGKILL', 3, 3, false])
    expect(segments).toEqual([
      [1, 1000],
      [2, 1000],
      [3, 0],
    ])
    expect(deletionVectors.map(({ segment, rows }) => [segment, rows.length])).toEqual([
      [1, 1000],
      [2, 1000],
    ])
  })

  test.each(['index.committed', 'index.answered'])('W-4 at %s: the fourth flush is there', async point => {
    const { signal, told, opened, segments } = await killAt(point, kernel)
    expect([signal, opened.lastCommit, opened.rebuilt]).toEqual(['SIGKILL', 4, false])
    expect(told).toBeGreaterThanOrEqual(3)
    expect(segments).toEqual([
      [1, 1000],
      [2, 1000],
      [3, 1000],
      [4, 0],
    ])
  })

  test('ends by itself when stopped, everything there', async () => {
    const { signal, told, opened, output } = await killAt('', kernel)
    expect([signal, told, opened.lastCommit], output).toEqual([null, 5, 6])
    expect(output).toContain('stopped')
  })

  const before = [
    [1, 1000],
    [2, 1000],
    [3, 1000],
    [4, 1000],
    [5, 0],
  ]
  // Keys from 3000 on pointed into segment 3 by then, so the copies of their rows are in the
  // deletion vector.
  const after = [
    [3, 1000],
    [4, 1000],
    [5, 0],
    [6, 1000],
  ]
  test.each([
    ['index.before-compaction-commit', 5, before],
    ['index.compaction-committed', 6, after],
    ['index.compaction-answered', 6, after],
  ] as const)(
    'W-4 at %s: the compaction commit is there whole or not at all',
    async (point, commit, want) => {
      const { signal, told, opened, segments, deletionVectors } = await killAt(point, kernel, 1)
      expect([signal, told, opened.lastCommit, opened.rebuilt]).toEqual(['SIGKILL', 5, commit, false])
      expect(segments).toEqual(want)
      expect(deletionVectors.map(({ segment, rows }) => [segment, rows.length])).toEqual(
        want.filter(one => one[1]! > 0),
      )
    },
  )
})
