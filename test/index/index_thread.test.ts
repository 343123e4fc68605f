/**
 * The index thread: calls in order, the drop of a pool between commits, and the end of the thread.
 */
import { existsSync, mkdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { buildKeyRun } from '../../src/format/key-run.ts'
import { type OpenIndexOptions, openIndex, startIndex } from '../../src/index/index-client.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { temporaryFolder } from '../util/server.ts'
import { flushOf, metaOf } from './flushes.ts'

function options(more: Partial<OpenIndexOptions> = {}): OpenIndexOptions {
  const paths = pathsOf(temporaryFolder())
  mkdirSync(paths.segment)
  const places = { folder: paths.index, segmentFolder: paths.segment }
  return { ...places, identity: 'here', pools: [], kernel: 'native', crashAt: '', nice: 5, ...more }
}

describe('index thread', () => {
  test('commits of other pools come in between the steps of a drop', async () => {
    const { index } = await openIndex(options())
    const keys = Array.from({ length: 60_000 }, (_, row) => ({ key: Buffer.from(`key${row}`), row }))
    const add = metaOf(1, { rows: 60_000 })
    await index.commit([{ pool: 7, add, remove: [], keys: buildKeyRun(keys), flushedSequence: 9 }])
    const order: string[] = []
    const dropped = index.dropPool(7).then(() => order.push('dropped'))
    const committed = index.commit([flushOf(1, 1, { a: 0 })]).then(() => order.push('committed'))
    await Promise.all([dropped, committed])
    expect(order).toEqual(['committed', 'dropped'])
    await index.stop()
  })

  test('moves the keys of a commit and the deletion vectors of its answer', async () => {
    const { index } = await openIndex(options())
    const flush = flushOf(1, 1, { a: 0, b: 1 })
    await index.commit([flush])
    expect(flush.keys?.byteLength).toBe(0)
    const [answer] = await index.commit([flushOf(1, 2, { a: 0 })])
    expect(answer?.deletionVectors).toEqual([{ segment: 1, rows: Uint32Array.of(0) }])
    await index.stop()
    await expect(index.commit([flushOf(1, 3, { a: 0 })])).rejects.toMatchObject({ code: 'index_failed' })
  })

  test('a failed assertion ends the thread, and every later call is refused', async () => {
    const failures: Error[] = []
    const { index } = await openIndex(options({ onFailed: error => failures.push(error) }))
    await index.commit([flushOf(1, 5, { a: 0 })])
    const falls = flushOf(1, 6, { a: 0 }, { flushedSequence: 3 })
    await expect(index.commit([falls])).rejects.toMatchObject({ name: 'Unavailable', code: 'index_failed' })
    expect(failures).toHaveLength(1)
    expect(failures[0]?.message).toContain('never falls')
    await expect(index.readDeletionVectors(1)).rejects.toMatchObject({ code: 'index_failed' })
  })

  test('a thread whose index nobody opens ends, and the index is as it was', async () => {
    const all = options()
    const { identity, pools, ...where } = all
    const begun = startIndex(where)
    await begun.stop()
    expect(existsSync(all.folder)).toBe(false)
    const { index } = await openIndex(all)
    await index.commit([flushOf(1, 1, { a: 0 })])
    await index.stop()
    await startIndex(where).stop()
    const again = await startIndex(where).open({ identity, pools })
    expect(again.notes.rebuiltBecause).toBe(undefined)
    expect(again.opened.pools).toMatchObject([{ pool: 1, segments: [{ segment: 1 }] }])
    await again.index.stop()
  })
})
