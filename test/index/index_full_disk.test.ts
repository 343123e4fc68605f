/**
 * W-4: a commit that the disk refuses answers Unavailable and changes nothing; the next one works.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../util/server.ts'
import { STORES } from './flushes.ts'

const CHILD = fileURLToPath(new URL('./full_disk_child.js', import.meta.url))

describe.each(STORES)('index over %s', name => {
  test('W-4 keeps its state when a file cannot grow', () => {
    // The files of this process end at 1 MiB. A write beyond that is an error and no signal.
    const script = `trap '' XFSZ; ulimit -f 2048; exec "$0" "$@"`
    const folder = temporaryFolder()
    const child = spawnSync('sh', ['-c', script, process.execPath, CHILD, name, folder], { encoding: 'utf8' })
    expect(child.stderr).toBe('')
    expect(JSON.parse(child.stdout)).toMatchObject({
      unavailable: true,
      code: 'index_failed',
      after: { lastCommit: 1, pools: [{ flushedSequence: 19, nextSegment: 2 }] },
      commit: 2,
    })
  })
})
