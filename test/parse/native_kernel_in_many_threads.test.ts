/**
 * Several threads load the module and parse the same shared slab at once; batches move between
 * threads whole.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import type { Parsed } from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'
import { bodyOf, nativeModule, SCHEMA, shared } from './native_calls.ts'

describe.skipIf(nativeModule === undefined)('native kernel', () => {
  test('four threads parse one slab, twice over', async () => {
    const { slab, table } = shared([bodyOf(200, 3), bodyOf(1, 4), bodyOf(333, 5)])
    const want = makeJsKernel(SCHEMA, 'post').parse(slab, table, 0, 3)
    // The second round loads the module into threads after all threads that had it have ended.
    for (let round = 0; round < 2; round++) {
      const results = await Promise.all(Array.from({ length: 4 }, () => parseInThread(slab, table)))
      for (const parsed of results) {
        expect(Buffer.from(parsed.batch).equals(Buffer.from(want.batch))).toBe(true)
        expect(parsed.errors).toEqual(want.errors)
      }
    }
  })
})

async function parseInThread(slab: Uint8Array, table: Float64Array): Promise<Parsed> {
  const worker = new Worker(new URL('./native_worker.js', import.meta.url), {
    workerData: { slab, table, turns: 50 },
  })
  const exit = once(worker, 'exit')
  const [parsed] = (await once(worker, 'message')) as [Parsed]
  expect(await exit).toEqual([0])
  return parsed
}
