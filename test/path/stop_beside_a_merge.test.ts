/** A stop flushes, whatever runs beside requests: a merge may have no processor time to end. */
import { getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import type { Api } from '../../src/api/api-types.ts'
import { stopServer } from '../../src/app/shutdown.ts'
import type { Server } from '../../src/app/start.ts'
import { endNice } from '../../src/util/this-thread.ts'

test('the store is stopped where its merge does not end, and the stop waits for the merge then', async () => {
  const events: string[] = []
  let endMerge = () => {}
  const merge = new Promise<void>(resolve => {
    endMerge = resolve
  })
  const done = (name: string) => async () => events.push(name)
  const server = {
    store: {
      quiet: () => merge,
      stop: async () => {
        events.push('flushed')
        endMerge()
        return true
      },
    },
    jobs: { stop: done('jobs') },
    exportThread: { stop: done('exports') },
  }
  const api = { stop: async () => true }
  expect(await stopServer(server as unknown as Server, api as unknown as Api)).toBe(true)
  expect(events).toContain('flushed')
  await merge
})

const mayRaise = process.getuid?.() === 0

test.skipIf(!mayRaise)('at a stop the threads that were made nice are as the main thread', async () => {
  const main = getPriority(process.pid)
  // On Linux 0 is the calling thread.
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads')
     const { getPriority, setPriority } = require('node:os')
     setPriority(0, 19)
     parentPort.on('message', () => parentPort.postMessage(getPriority(0)))`,
    { eval: true },
  )
  const nice = () =>
    new Promise<number>(resolve => {
      worker.once('message', resolve)
      worker.postMessage('?')
    })
  try {
    expect(await nice()).toBe(19)
    endNice()
    expect(await nice()).toBe(main)
  } finally {
    await worker.terminate()
  }
})
