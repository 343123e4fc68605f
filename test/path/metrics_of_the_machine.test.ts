/**
 * The disk and the memory on /metrics: the values of this machine, and a page without them where
 * the system does not answer.
 */
import { statfsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { memoryLimit, residentMemory, sharedReading } from '../../src/app/machine.ts'
import { createMetrics } from '../../src/database/metrics.ts'
import { queryProcess, startServer } from '../util/server.ts'

const MiB = 2 ** 20

test('the page has the disk of the data folder, the memory of each process, and the limit', async () => {
  const server = await startServer()
  const read = async () => await (await fetch(`${server.base}/metrics`)).text()
  // The process of queries starts by itself.
  await expect.poll(read).toContain('weir_resident_memory_bytes{process="query"')
  const text = await read()
  const value = (name: string) =>
    Number(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\S+)$`, 'm').exec(text)?.[1])
  const { blocks, bsize } = statfsSync(server.dataDir)
  expect(value('weir_disk_bytes')).toBe(blocks * bsize)
  // Others write to the disk meanwhile, so only its size is a bound of the free room.
  expect(value('weir_disk_free_bytes')).toBeGreaterThan(0)
  expect(value('weir_disk_free_bytes')).toBeLessThanOrEqual(blocks * bsize)
  const resident = (process: string, kind: string) =>
    value(`weir_resident_memory_bytes{process="${process}",kind="${kind}"}`)
  for (const process of ['server', 'query']) {
    expect([process, resident(process, 'anon') > 10 * MiB]).toEqual([process, true])
    expect([process, resident(process, 'file') > MiB]).toEqual([process, true])
    expect([process, resident(process, 'shmem') >= 0]).toEqual([process, true])
  }
  const sum = resident('server', 'anon') + resident('server', 'file') + resident('server', 'shmem')
  expect(value('weir_memory_limit_bytes')).toBe(memoryLimit())
  expect(value('weir_memory_limit_bytes')).toBeGreaterThan(sum)
  expect(Math.abs(Date.now() / 1000 - value('process_start_time_seconds'))).toBeLessThan(120)
  expect(value('weir_ready')).toBe(1)
  expect(value('weir_flush_lag_seconds')).toBe(0)
  expect(queryProcess(server)).toBeDefined()
  expect((await server.stop()).code).toBe(0)
})

test('a gauge without an answer leaves the page, and comes back', async () => {
  const metrics = createMetrics()
  let answer: number | undefined
  metrics.gauge('some_bytes', 'a value', async () => answer)
  metrics.gauge('other_bytes', 'values', async () => undefined, 'name')
  expect(await metrics.text()).not.toMatch(/^(some|other)_bytes/m)
  answer = 7
  expect(await metrics.text()).toMatch(/^some_bytes 7$/m)
  answer = undefined
  expect(await metrics.text()).not.toMatch(/^some_bytes/m)
  metrics.stop()
})

test('a disk that hangs is asked once, and asked again after it has answered', async () => {
  const answers: ((value: string) => void)[] = []
  const read = sharedReading(() => new Promise<string>(resolve => answers.push(resolve)), 20)
  expect(await Promise.all([read(), read()])).toEqual([undefined, undefined])
  expect(await read()).toBeUndefined()
  expect(answers).toHaveLength(1)
  const late = read()
  answers[0]?.('late')
  expect(await late).toBe('late')
  void read()
  await expect.poll(() => answers).toHaveLength(2)
})

test('a reading that fails is no answer', async () => {
  expect(await sharedReading(() => Promise.reject(new Error('EIO')))()).toBeUndefined()
})

test('the memory of this process is that of the server', async () => {
  const own = (await residentMemory()).filter(([process]) => process === 'server')
  expect(own.map(([, kind]) => kind).sort()).toEqual(['anon', 'file', 'shmem'])
})
