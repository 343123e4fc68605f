/**
 * W-6: the order of removals and flushes in the segment thread, and the flushes that a failed one
 * stops.
 */
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { afterEach, expect, test } from 'vitest'
import type { FlushRefused, FlushTask } from '../../src/store/flush/segment-writer.ts'
import { serveSegment } from '../../src/store/segment/segment-thread.ts'
import type { AnswerMessage, CallMessage } from '../../src/util/callee.ts'
import { type Disk, disk as real } from '../../src/util/disk.ts'
import { segmentFile } from '../../src/util/paths.ts'
import { randomEntries, schemaOfAll } from './rows.ts'

const root = mkdtempSync(join(tmpdir(), 'weir-removals-'))
let port: MessagePort | undefined
afterEach(() => {
  port?.close()
  rmSync(root, { recursive: true, force: true })
})

/**
 * A segment thread in this one. `calls`: renames, unlinks, syncs of folders. `refused`: calls that
 * fail.
 */
function thread() {
  const calls: string[] = []
  const refused = new Set<string>()
  const names = new Map<number, string>()
  const tell = (call: string) => {
    calls.push(call.replace(`${root}/`, ''))
    if (refused.has(calls.at(-1)!)) throw Object.assign(new Error('refused'), { code: 'EIO', syscall: 'x' })
  }
  const disk: Disk = {
    ...real,
    open: (path, flags, mode) => {
      const file = real.open(path, flags, mode)
      names.set(file, path)
      return file
    },
    fsync: file => tell(`sync ${names.get(file)}`),
    fdatasync: () => undefined,
    rename: (from, to) => {
      tell(`rename ${to}`)
      real.rename(from, to)
    },
    unlink: path => {
      tell(`unlink ${path}`)
      real.unlink(path)
    },
  }
  const channel = new MessageChannel()
  port = channel.port2
  serveSegment(channel.port1, { kernel: 'js' }, disk)
  const ask = async (calls: readonly CallMessage[]) => {
    const answers: string[] = []
    for (const call of calls) channel.port2.postMessage(call)
    while (answers.length < calls.length) {
      const [answer] = (await once(channel.port2, 'message')) as [AnswerMessage]
      const error = answer.error ?? (answer.value as FlushRefused | undefined)?.failed
      answers.push(error === undefined ? `${answer.id}` : `${answer.id} ${error.message}`)
    }
    return answers
  }
  return { calls, refused, ask }
}

function flush(id: number, pool: string, segment: number): CallMessage {
  const schema = schemaOfAll(true)
  const entries = randomEntries(schema, 1, 5)
  const task: FlushTask = {
    poolId: pool,
    schema,
    segment,
    folder: join(root, pool),
    entries,
    replaces: [],
    sequenceFrom: 1,
    sequenceTo: 1e6,
  }
  return { id, name: 'flush', value: task }
}

const unlink = (id: number, pool: string, ...segments: number[]): CallMessage => ({
  id,
  name: 'unlink',
  value: { folder: join(root, pool), segments },
})

const parquets = (pool: string) => readdirSync(join(root, pool)).filter(name => name.endsWith('.parquet'))

test('removals that come together are made together; a flush in the same folder comes after them', async () => {
  const { calls, ask } = thread()
  await ask([flush(1, 'a', 1), flush(2, 'a', 2), flush(3, 'b', 1), flush(4, 'c', 1)])
  calls.length = 0
  const order = await ask([
    unlink(5, 'a', 1),
    unlink(6, 'b', 1),
    unlink(7, 'a', 2),
    flush(8, 'c', 2),
    flush(9, 'b', 2),
    unlink(10, 'c', 1),
    unlink(11, 'a'),
  ])
  // The removal in `b` is made before the flush there, and both are answered in one turn. The other
  // removals wait until no flush does. Each is answered after its syncs.
  expect(order).toEqual(['8', '9', '6', '5', '7', '10', '11'])
  const at = (call: string) => calls.lastIndexOf(call)
  expect(at('unlink b/0000000001.parquet')).toBeLessThan(at('rename b/0000000002.parquet'))
  expect(at('rename b/0000000002.parquet')).toBeLessThan(at('unlink a/0000000001.parquet'))
  const last = calls.slice(at('rename b/0000000002.parquet') + 2).filter(call => !/deletes/.test(call))
  expect(last.slice(0, 5)).toEqual([
    'unlink a/0000000001.parquet',
    'unlink a/0000000002.parquet',
    'unlink c/0000000001.parquet',
    'sync a',
    'sync c',
  ])
  expect([parquets('a'), parquets('b'), parquets('c')]).toEqual([[], [segmentFile(2)], [segmentFile(2)]])
})

test('a folder that refuses is told to those who asked for it alone, and can be asked again', async () => {
  const { refused, ask } = thread()
  await ask([flush(1, 'a', 1), flush(2, 'b', 1)])
  refused.add('sync a')
  expect(await ask([unlink(3, 'a', 1), unlink(4, 'b', 1), unlink(5, 'a', 7)])).toEqual([
    '3 refused',
    '4',
    '5 refused',
  ])
  refused.clear()
  expect(await ask([unlink(6, 'a', 1, 7)])).toEqual(['6'])
})

test('W-6: after a flush that failed none of its pool is written until what it left is gone', async () => {
  const { refused, ask } = thread()
  await ask([flush(1, 'a', 1), flush(2, 'b', 1)])
  refused.add('rename a/0000000002.parquet')
  // A rebuild would take segment 3 for the end of all that is flushed.
  expect(await ask([flush(3, 'a', 2), flush(4, 'a', 3), flush(5, 'b', 2)])).toEqual([
    '3 refused',
    '4 an earlier flush of the pool failed',
    '5',
  ])
  refused.clear()
  expect(parquets('a')).toEqual([segmentFile(1)])
  expect(await ask([flush(6, 'a', 4)])).toEqual(['6 an earlier flush of the pool failed'])
  expect(await ask([unlink(7, 'a', 2, 3), flush(8, 'a', 5)])).toEqual(['8', '7'])
  expect(parquets('a')).toEqual([segmentFile(1), segmentFile(5)])
})
