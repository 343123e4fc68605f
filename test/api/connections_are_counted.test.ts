/** Connections beyond the limit are closed at once, and those that close make room. */
import { Agent } from 'node:http'
import { expect, test } from 'vitest'
import { CONNECTIONS_MIN, connectionsMaxOf, descriptorLimit } from '../../src/api/http/connections.ts'
import { CONNECTIONS_MAX, DESCRIPTORS_RESERVED } from '../../src/util/limits.ts'
import { ask, Raw } from './client.ts'
import { Fake, start, until } from './fake.ts'

test('connections beyond the limit are closed, open ones go on, and a closed one makes room', async () => {
  const api = await start(new Fake(), { connectionsMax: 4 })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const post = async () => (await ask(api.port, '/v1/open', { body: '{"id":"a"}', agent })).status
  expect(await post()).toBe(200)
  const idle = [await Raw.open(api.port), await Raw.open(api.port), await Raw.open(api.port)]
  await until(() => api.stats().connections === 4)
  for (let count = 1; count <= 100; count += 1) {
    const beyond = await Raw.open(api.port)
    await beyond.untilClosed()
    expect(api.stats().connectionsRefused).toBe(count)
  }
  expect(await post()).toBe(200)
  expect(idle.map(({ closed }) => closed)).toEqual([false, false, false])
  idle[0]!.socket.destroy()
  await until(() => api.stats().connections === 3)
  expect((await ask(api.port, '/livez', { method: 'GET' })).status).toBe(200)
  for (const raw of idle) raw.socket.destroy()
  agent.destroy()
  await until(() => api.stats().connections === 0)
  await api.stop(1000)
})

test('the limit leaves descriptors for threads and files, and is never zero', () => {
  expect(connectionsMaxOf(1024)).toBe(1024 - DESCRIPTORS_RESERVED)
  expect(connectionsMaxOf(1_000_000_000)).toBe(CONNECTIONS_MAX)
  expect(connectionsMaxOf(Number.POSITIVE_INFINITY)).toBe(CONNECTIONS_MAX)
  expect(connectionsMaxOf(100)).toBe(CONNECTIONS_MIN)
  expect(descriptorLimit()).toBeGreaterThan(100)
})
