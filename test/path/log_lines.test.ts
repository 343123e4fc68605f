/** Lines of operation: format, level, and ids of requests in them and in answers. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { freePort, startServer, type TestServer, temporaryFolder } from '../util/server.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const servers: TestServer[] = []
afterAll(async () => {
  for (const server of servers) await server.stop()
})

async function start(...args: string[]): Promise<TestServer> {
  const server = await startServer({ args })
  servers.push(server)
  return server
}

interface Line {
  readonly time: string
  readonly level?: string
  readonly message?: string
  readonly audit?: unknown
}

const linesOf = (output: string): readonly Line[] =>
  output
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as Line)

describe('--log-format json', () => {
  test('every line from start to stop is an object with time, level and message', async () => {
    const server = await startServer({ args: ['--log-format', 'json'] })
    await server.createPool({ columns: [] })
    const { code, output } = await server.stop()
    expect(code).toBe(0)
    const lines = linesOf(output)
    for (const line of lines) {
      expect(new Date(line.time).toISOString()).toBe(line.time)
      if (line.audit === undefined)
        expect(line).toMatchObject({ level: expect.stringMatching(/^(error|warn|info)$/) })
    }
    expect(lines.filter(({ audit }) => audit !== undefined).length).toBeGreaterThan(0)
    const messages = lines.map(({ message = '' }) => message)
    expect(messages).toContainEqual(expect.stringMatching(/^listening on http/))
    expect(messages).toContainEqual(expect.stringMatching(/^stopping, because of SIG/))
    expect(messages.filter(message => message.includes('curl'))).toEqual([])
  })

  test('an error that ends the command is one too', async () => {
    const folder = temporaryFolder()
    const first = await startServer({ dataDir: folder })
    servers.push(first)
    const failed = await startServer({ dataDir: folder, args: ['--log-format', 'json'] }).catch(
      (error: Error) => error.message,
    )
    expect(failed).toContain('"level":"error"')
  })
})

test('--log-level warn: a start and a stop that go as they should say nothing', async () => {
  const port = await freePort()
  const args = ['start', '--port', port, '--data-dir', temporaryFolder(), '--log-level', 'warn']
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  const said: string[] = []
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => said.push(`${bytes}`))
  const ended = once(child, 'close')
  try {
    await expect.poll(() => isThere(`http://127.0.0.1:${port}/livez`)).toBe(true)
    child.kill('SIGTERM')
    expect((await ended)[0]).toBe(0)
    expect(said.join('')).toBe('')
  } finally {
    child.kill('SIGKILL')
  }
})

async function isThere(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok
  } catch {
    return false
  }
}

describe.each(['uws', 'node'])('the id of a request over %s', http => {
  test.each([
    ['an event', '/v1/WHK00000000000000000000000000', 'POST', 404],
    ['a question', '/graphql', 'POST', 401],
    ['a page', '/livez', 'GET', 200],
    ['no route', '/nothing', 'GET', 404],
  ])('comes back with %s', async (_, path, method, status) => {
    const server = await started(http)
    const answer = await fetch(server.base + path, {
      method,
      headers: { 'x-request-id': 'req-1.a:b/c=', 'content-type': 'application/json' },
      ...(method === 'POST' ? { body: '{}' } : {}),
    })
    expect([answer.status, answer.headers.get('x-request-id')]).toEqual([status, 'req-1.a:b/c='])
    await answer.arrayBuffer()
  })

  test.each(['', 'a b', 'ä', 'x'.repeat(129), '<script>', '"'])('%j is none', async id => {
    const server = await started(http)
    const answer = await fetch(`${server.base}/livez`, {
      headers: { 'x-request-id': encodeURI(id) === id ? id : 'a b' },
    })
    expect(answer.headers.get('x-request-id')).toBeNull()
  })
})

const known = new Map<string, Promise<TestServer>>()

function started(http: string): Promise<TestServer> {
  const server = known.get(http) ?? start('--http', http)
  known.set(http, server)
  return server
}
