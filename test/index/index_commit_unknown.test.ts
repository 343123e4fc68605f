/**
 * W-4: a commit whose outcome is unknown ends the process before anything follows it. A full disk
 * does not.
 */
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import type { KeyStore } from '../../src/index/index-store.ts'
import { OutcomeUnknown } from '../../src/index/index-store.ts'
import { Index } from '../../src/index/key-index.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { temporaryFolder } from '../util/server.ts'
import { flushOf, MAP_BYTES, STORES } from './flushes.ts'

const CHILD = fileURLToPath(new URL('./broken_meta_child.js', import.meta.url))

describe.each([
  ['native', 'native'],
  ['js', 'lmdb-js'],
] as const)('the index thread over %s', (kernel, store) => {
  /** The output and the end of the child, and the index that it left. */
  function run(which: 'meta' | 'data') {
    const folder = temporaryFolder()
    const child = spawnSync(process.execPath, [CHILD, kernel, which, folder], { encoding: 'utf8' })
    const seen = child.stdout
      .split('\n')
      .filter(line => line !== '')
      .map(line => JSON.parse(line) as object)
    const [, open] = STORES.find(([name]) => name === store)!
    const index = new Index(open({ folder: pathsOf(folder).index, mapBytes: MAP_BYTES }), 'here')
    return { seen, end: child.signal ?? child.status, index, stderr: child.stderr }
  }

  test('W-4: ends its process where a meta page cannot be written: no answer to that commit, nor to the next', () => {
    const { seen, end, index, stderr } = run('meta')
    const failed = expect.stringMatching(
      /a commit of the index failed at its last write.*it is unknown whether/,
    ) as string
    expect([end, seen], stderr).toEqual(['SIGKILL', [{ commit: 1 }, { failed }]])
    const { lastCommit } = index.state()
    expect([1, 2]).toContain(lastCommit)
    expect(index.commit([flushOf(1, 4, { d: 0 })])[0]?.commit).toBe(lastCommit + 1)
    index.close()
  })

  test('W-4: goes on where a data page cannot be written: nothing of that commit is there', () => {
    const { seen, end, index, stderr } = run('data')
    const refused = expect.stringMatching(/^Unavailable: the key index cannot be changed/) as string
    expect([end, seen], stderr).toEqual([0, [{ commit: 1 }, { refused }, { refused }]])
    expect(index.state()).toMatchObject({ lastCommit: 1, pools: [{ flushedSequence: 19 }] })
    index.close()
  })
})

describe('a failed commit', () => {
  test('with an unknown outcome is not turned into a refusal that is tried again', () => {
    const store: KeyStore = {
      keyLoop: 'js',
      transact: () => {
        throw new OutcomeUnknown('EIO')
      },
      close: () => undefined,
    }
    expect(() => new Index(store, 'here')).toThrow(OutcomeUnknown)
    const [, open] = STORES[0]!
    const folder = temporaryFolder()
    const real = open({ folder, mapBytes: MAP_BYTES })
    let isFailing = false
    const failing: KeyStore = {
      ...real,
      transact: work => {
        if (isFailing) throw new OutcomeUnknown('EIO')
        return real.transact(work)
      },
    }
    const index = new Index(failing, 'here')
    isFailing = true
    for (const call of [
      () => index.commit([flushOf(1, 1, { a: 0 })]),
      () => index.setComplete(true),
      () => index.dropSlice(1),
    ])
      expect(call).toThrow(OutcomeUnknown)
    index.close()
    rmSync(folder, { recursive: true })
  })
})
