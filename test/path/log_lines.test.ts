/** Lines of operation: format, level, and ids of requests in them and in answers. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { type LogLine, readLog } from '../util/log-lines.ts'
import { adminOf, freePort, send, startServer, type TestServer, temporaryFolder } from '../util/server.ts'

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

describe('--log-format json', () => {
  test('every line from start to stop is an object with time, level and message, and has no secret', async () => {
    const server = await startServer({ args: ['--log-format', 'json'] })
    await server.createPool({ columns: [] })
    const { clientId, clientSecret } = adminOf(server.dataDir)
    const { code, output } = await server.stop()
    expect(code).toBe(0)
    const lines = readLog(output)
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
    expect(messages).toContain(
      `first application ${clientId} (its secret is kept in admin.json in the data folder)`,
    )
    expect([output.includes(clientSecret), output.includes('#code=')]).toEqual([false, false])
  })

  test.each<[args: string[], env: Record<string, string>, message: RegExp]>([
    [['start', '--log-format', 'json', '--no-such', 'x'], {}, /no option --no-such/],
    [['start', '--port', 'x', '--log-format=json'], {}, /--port/],
    [['nonsense'], { WEIR_LOG_FORMAT: 'json' }, /no command "nonsense"/],
    [['inspect', '--log-format', 'json', '--log-level', 'loud'], {}, /--log-level/],
  ])('an error of the command line is an object too: %j', async (args, env, message) => {
    const { code, output } = await weir(args, env)
    expect([code, readLog(output)]).toEqual([
      2,
      [{ time: expect.any(String), level: 'error', message: expect.stringMatching(message) }],
    ])
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

describe('failures on a real server', () => {
  let server: TestServer
  const lines = () => readLog(server.output())
  const errors = (message: RegExp): readonly LogLine[] =>
    lines().filter(line => line.level === 'error' && message.test(line.message ?? ''))

  test('a flush that fails is an error', async () => {
    const fault = join(temporaryFolder(), 'fault')
    server = await start('--log-format', 'json', '--fault-at', `write /data/segment/ 1 ENOSPC ${fault}`)
    const { url, poolId } = await server.createPool({ uniqueName: 'rows', columns: [] })
    expect((await send(url, { id: 'a' })).status).toBe(200)
    expect(errors(/./)).toEqual([])
    writeFileSync(fault, '')
    await expect(server.count(poolId)).rejects.toThrow('UNAVAILABLE')
    await expect.poll(() => errors(/^a flush of pool \d+ failed and is tried again/)).not.toEqual([])
    rmSync(fault)
    await expect.poll(() => server.count(poolId).catch(() => 'refused')).toBe('1')
  })

  test('the line about an internal error names the id of the request', async () => {
    const { clientId, clientSecret } = adminOf(server.dataDir)
    // The folder that an import looks into at its end is a file: an error that nobody foresees.
    const [folder, aside] = [join(server.dataDir, 'tmp'), join(server.dataDir, 'aside')]
    renameSync(folder, aside)
    writeFileSync(folder, '')
    const answer = await fetch(`${server.base}/v1/pools/rows/import?format=ndjson`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`,
        'x-request-id': 'import-7',
      },
      body: '{}',
    })
    rmSync(folder)
    renameSync(aside, folder)
    expect([answer.status, answer.headers.get('x-request-id')]).toEqual([500, 'import-7'])
    expect(await answer.json()).toMatchObject({ code: 'internal' })
    await expect
      .poll(() => errors(/^import \(request import-7\): Error: /))
      .toMatchObject([{ requestId: 'import-7' }])
  })
})

test('--log-level warn: a start and a stop say nothing, and the next start has the first steps', async () => {
  const port = await freePort()
  const dataDir = temporaryFolder()
  const args = ['start', '--port', port, '--data-dir', dataDir, '--log-level', 'warn']
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
  const { clientId, clientSecret } = adminOf(dataDir)
  const next = await startServer({ dataDir })
  servers.push(next)
  await expect.poll(() => next.output()).toContain(`first application ${clientId}, secret ${clientSecret} `)
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

  // fetch sends a text as Latin-1, so "ä" is one byte that is no UTF-8.
  test.each(['', 'a b', 'a,b', 'ä', 'Ã¤', 'x'.repeat(129), '<script>', '"', 'a(b)', "a'b", 'a\tb'])(
    '%j is none',
    async id => {
      const server = await started(http)
      const answer = await fetch(`${server.base}/livez`, { headers: { 'x-request-id': id } })
      expect([answer.status, answer.headers.get('x-request-id')]).toEqual([200, null])
    },
  )

  test.each(['x'.repeat(128), '0', '._~:/+=-'])('%j is one', async id => {
    const server = await started(http)
    const answer = await fetch(`${server.base}/livez`, { headers: { 'x-request-id': id } })
    expect(answer.headers.get('x-request-id')).toBe(id)
  })
})

const known = new Map<string, Promise<TestServer>>()

function started(http: string): Promise<TestServer> {
  const server = known.get(http) ?? start('--http', http)
  known.set(http, server)
  return server
}
