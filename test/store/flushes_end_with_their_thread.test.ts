/** No call of the segment thread stays open when the thread has ended. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { FlushTask } from '../../src/store/flush/segment-writer.ts'
import { SegmentThread } from '../../src/store/flush/segment-writer.ts'
import { keySchema, post } from './rows.ts'

let root = ''
let crashes: string[] = []
let client: SegmentThread

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'weir-segment-'))
  crashes = []
  client = new SegmentThread({ crashAt: '', nice: 0, kernel: 'js' }, error => {
    crashes.push(error.message)
  })
})

afterEach(async () => {
  vi.restoreAllMocks()
  await client.stop()
  rmSync(root, { recursive: true })
})

function task(): FlushTask {
  return {
    poolId: 'POOL1',
    schema: keySchema,
    segment: 1,
    folder: join(root, 'pool'),
    entries: [post(keySchema, [{ key: 'a', values: ['a'] }], [[1, 0, 1]])],
    replaces: [],
    sequenceFrom: 1,
    sequenceTo: 1,
  }
}

test('a flush and a removal reject when the thread exits without an error, and so do later ones', async () => {
  const posts = vi.spyOn(Worker.prototype, 'postMessage')
  const open = [client.flush(task()), client.unlink(root, [1])]
  const ended = (posts.mock.contexts[0] as Worker).terminate() // no error event comes
  for (const result of await Promise.allSettled(open)) expect(result.status).toBe('rejected')
  await ended
  expect(crashes).toHaveLength(1)
  await expect(client.flush(task())).rejects.toMatchObject({ code: 'segment_thread_lost' })
})

test('a flush after a stop rejects, and the stop resolves', async () => {
  const stop = client.stop()
  await expect(client.flush(task())).rejects.toMatchObject({ code: 'segment_thread_lost' })
  await expect(client.unlink(root, [1])).rejects.toMatchObject({ code: 'segment_thread_lost' })
  await stop
  expect(crashes).toEqual([])
})
