/** The command as an operator meets it: options, exit codes, signals, health, restarts. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { SIGNAL_ECHO_MS } from '../../src/util/end-process.ts'
import { must } from '../../src/util/errors.ts'
import { ask, head, Raw } from '../api/client.ts'
import {
  adminOf,
  fetchToken,
  freePort,
  send,
  spawnServer,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { column, pathOf, portOf, post } from './client.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const GOLDEN = fileURLToPath(new URL('../../../test/golden/help.txt', import.meta.url))
const columns = [column('ts', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')]

/** Runs the command to its end. */
function run(args: readonly string[], env: Record<string, string> = {}) {
  const child = spawnSync(process.execPath, [MAIN, ...args], {
    env: { ...process.env, ...env },
    timeout: 60_000,
  })
  return { code: child.status, out: child.stdout.toString(), err: child.stderr.toString() }
}

test('a second server on the same port exits 2 and says so', async () => {
  const port = await freePort()
  const first = await startServer({ args: ['--port', port] })
  const second = run(['--port', port, '--data-dir', join(temporaryFolder(), 'data')])
  expect([second.code, second.err]).toEqual([2, expect.stringContaining(`127.0.0.1:${port}`)])
  await first.stop()
  // Connections that the first server closed do not block the port for the next one.
  const third = await startServer({ args: ['--port', port], dataDir: first.dataDir })
  expect((await third.stop()).code).toBe(0)
})

test('--help is what test/golden/help.txt says; UPDATE=1 writes it', () => {
  const { code, out } = run(['--help'])
  expect(code).toBe(0)
  if (process.env['UPDATE'] === '1') {
    mkdirSync(join(GOLDEN, '..'), { recursive: true })
    writeFileSync(GOLDEN, out)
  }
  expect(out).toBe(readFileSync(GOLDEN, 'utf8'))
})

test('bad options exit 2 and name the option; nothing is made', () => {
  const dataDir = join(temporaryFolder(), 'data')
  const cases: [string[], Record<string, string>, RegExp][] = [
    [['--port', '70000'], {}, /--port .*a whole number from 0 to 65535, not "70000"/],
    [['--port', 'x'], {}, /--port/],
    [['--nonsense'], {}, /--nonsense/],
    [['--durability', 'maybe'], {}, /--durability/],
    [['--kernel', 'wasm'], {}, /--kernel/],
    [['--public-url', 'example.org'], {}, /--public-url .*http:\/\/.*"example.org"/],
    [['--rate-limit', '-1'], {}, /rate-limit/],
    [[], { WEIR_PORT: '-1' }, /WEIR_PORT/],
    [[], { WEIR_CLIENT_ID: 'only' }, /WEIR_CLIENT_ID.*WEIR_CLIENT_SECRET/],
    [
      [],
      { WEIR_CLIENT_ID: 'app', WEIR_CLIENT_SECRET: 'x' },
      /WEIR_CLIENT_SECRET takes at least 16 .* has 1$/m,
    ],
    [
      [],
      { WEIR_CLIENT_ID: 'app', WEIR_CLIENT_SECRET: 'fifteen-letters' },
      /WEIR_CLIENT_SECRET .*16 .* has 15$/m,
    ],
    [[], { WEIR_CLIENT_ID: 'app', WEIR_CLIENT_SECRET: 'a colon : in the middle' }, /WEIR_CLIENT_SECRET/],
    [[], { WEIR_METRICS_TOKEN: 'short' }, /WEIR_METRICS_TOKEN takes at least 16/],
    [['dance'], {}, /dance/],
  ]
  for (const [args, env, names] of cases) {
    const { code, err } = run([...args, '--data-dir', dataDir], env)
    expect([args, env, code]).toEqual([args, env, 2])
    expect(err).toMatch(names)
    expect(err).not.toMatch(/fifteen-letters|colon :|short/) // messages do not repeat a secret
  }
  expect(existsSync(dataDir)).toBe(false)
})

test('a data folder that is a file exits 2 and is named', () => {
  const file = join(temporaryFolder(), 'file')
  writeFileSync(file, '')
  const { code, err } = run(['--data-dir', file])
  expect([code, err]).toEqual([2, expect.stringContaining(`the data folder ${file} cannot be used`)])
})

test('options by environment; a flag goes before it', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  const env = {
    WEIR_KERNEL: 'js',
    WEIR_DURABILITY: 'os',
    WEIR_PUBLIC_URL: 'https://weir.example/in/',
    WEIR_PORT: '1',
  }
  const server = spawnServer({ dataDir, env, args: ['--durability', 'fsync'] })
  expect(await server.ready).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  server.child.kill('SIGTERM')
  const end = await server.ended
  expect(end.code).toBe(0)
  expect(end.output).toContain('kernel js, durability fsync')
})

/** One folder over the lives of its server: each test goes on where the one before ended. */
describe('a folder', () => {
  const dataDir = join(temporaryFolder(), 'data')
  const shape = { columns, timestamp: 'ts', uniqueId: 'id' }
  let server: TestServer
  let pool: TestPool
  let made: readonly { readonly id: string; readonly uniqueName: string }[]
  const names = async () => {
    const { data } = await server.graphql<{ dataPools: { nodes: typeof made } }>(
      '{ dataPools { nodes { id uniqueName } } }',
    )
    return data.dataPools.nodes
  }

  test('the first start that listens prints the first steps, and makes the pool `events`', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as AddressInfo
    const failed = await spawnServer({ dataDir, args: ['--port', String(port)] }).ended
    taken.close()
    expect([failed.code, failed.output]).toEqual([2, expect.not.stringContaining('first application')])
    server = await startServer({ dataDir })
    const { clientId, clientSecret } = adminOf(dataDir)
    const steps = () => server.output().match(/^(curl|TOKEN=)/gm)?.length
    await expect.poll(steps).toBe(3)
    expect(server.output()).toContain(`first application ${clientId}, secret ${clientSecret}`)
    made = await names()
    expect(made.map(({ uniqueName }) => uniqueName)).toEqual(['events', 'weir_rejected_events'])
    for (const path of ['/livez', '/readyz'])
      expect((await ask(portOf(server), path, { method: 'GET' })).status).toBe(200)
  })

  test('after SIGKILL the log replays what was not flushed, and a token stays good', async () => {
    pool = await server.createPool(shape)
    // Without --public-url a webhookUrl begins with the address.
    expect(pool.url).toMatch(new RegExp(`^${server.base}/v1/[^/]+$`))
    const token = await fetchToken(server.base, dataDir)
    expect((await post(server, pool, { ts: '2026-01-01', id: 'a', n: 1 })).status).toBe(200)
    await server.kill()
    server = await startServer({ dataDir })
    expect(server.output()).toContain('replayed 1 requests from the log')
    const count = `{ counter(input: { metric: { count: { dataPool: { id: "${pool.poolId}" } } } }) { value } }`
    const answer = await fetch(`${server.base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query: count }),
    })
    expect(await answer.json()).toEqual({ data: { counter: { value: '1' } } })
    expect((await names()).slice(0, 2)).toEqual(made)
    expect((await server.graphql(`mutation { deleteDataPool(id: "${made[0]!.id}") }`)).errors).toBeUndefined()
  })

  test('SIGTERM answers what is in flight, exits 0, and leaves nothing to replay', async () => {
    const text = JSON.stringify({ ts: '2026-01-01', id: 'late', n: 7 })
    const late = await Raw.open(portOf(server))
    late.write(head(pathOf(pool), [`Content-Length: ${text.length}`, 'Content-Type: application/json']))
    late.write(text.slice(0, 10))
    expect((await post(server, pool, { ts: '2026-01-01', id: 'b', n: 2 })).status).toBe(200)
    const beginMs = performance.now()
    server.child.kill('SIGTERM')
    late.write(text.slice(10))
    await late.untilClosed()
    const end = await server.ended
    // 10 s is the limit; a busy machine may add some.
    expect(performance.now() - beginMs).toBeLessThan(15_000)
    expect([end.code, end.signal]).toEqual([0, null])
    expect(end.output).not.toContain('before everything was flushed')
    expect(end.output).not.toMatch(/first application|curl/)
    const taken = late.received.startsWith('HTTP/1.1 200')
    expect(late.received).toMatch(/^HTTP\/1\.1 (200|503)/)
    server = await startServer({ dataDir })
    expect(server.output()).not.toContain('replayed')
    expect(await server.count(pool.poolId)).toBe(taken ? '3' : '2')
    expect(await server.sum(pool.poolId, 'n')).toBe(taken ? '10' : '3')
    // A pool that was deleted does not come back.
    expect(await names()).toEqual([made[1], { id: pool.poolId, uniqueName: expect.any(String) }])
    expect((await server.stop()).code).toBe(0)
  })

  test('--public-url begins each webhookUrl, and WEIR_CLIENT_ID and …_SECRET replace the first application', async () => {
    const old = adminOf(dataDir)
    const env = { WEIR_CLIENT_ID: 'given', WEIR_CLIENT_SECRET: 'a-secret-that-was-given' }
    const args = ['--public-url', 'https://weir.example', '--port', await freePort()]
    const again = spawnServer({ dataDir, args, env })
    await again.ready
    const base = `http://127.0.0.1:${args[3]}`
    const form = (client_id: string, client_secret: string) =>
      fetch(`${base}/oauth2/token`, {
        method: 'POST',
        body: new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret }),
      })
    expect((await form(old.clientId, old.clientSecret)).status).toBe(401)
    const given = await form(env.WEIR_CLIENT_ID, env.WEIR_CLIENT_SECRET)
    const { access_token } = (await given.json()) as { access_token: string }
    const answer = await fetch(`${base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        query: `{ dataSource(id: "${pool.sourceId}") { connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } } }`,
      }),
    })
    expect(await answer.text()).toContain(`https://weir.example${pathOf(pool)}`)
    again.child.kill('SIGTERM')
    expect((await again.ended).code).toBe(0)
  })
})

test('/metrics counts events by pool, result and code, refusals, flushes and their delay', async () => {
  const server = await startServer()
  const pool = await server.createPool({ uniqueName: 'counted', columns, timestamp: 'ts', uniqueId: 'id' })
  const good = { ts: '2026-01-01', id: 'a', n: 1 }
  const url = `${server.base}${pathOf(pool)}`
  const wrong = [
    { ...good, n: 'x' },
    { ...good, n: 0.5 },
    { ...good, ts: 'soon' },
    { id: 'a' },
    3,
    { ...good, n: 1e30 },
  ]
  expect((await send(url, [good, { ...good, id: 'b' }, ...wrong])).status).toBe(200)
  expect((await send(url, wrong.slice(0, 2))).status).toBe(400)
  expect((await send(`${url}?disable_partial_success=1`, [good, good, wrong[0]])).status).toBe(400)
  expect((await send(url, '{')).status).toBe(400)
  expect((await send(url, good, 'DELETE')).status).toBe(200)
  expect((await send(`${server.base}/v1/nobody`, good)).status).toBe(404)
  expect(await server.count(pool.poolId)).toBe('1')
  const text = await (await fetch(`${server.base}/metrics`)).text()
  const value = (line: string) => {
    const found = text.split('\n').find(one => one.startsWith(`${line} `))
    return found === undefined ? undefined : Number(found.slice(line.length + 1))
  }
  const counted = text.split('\n').filter(line => line.startsWith('weir_events_total{'))
  const events = Object.fromEntries(
    counted.map(line => {
      const [, name, result, code, count] = /pool="(.*?)",result="(.*?)",code="(.*?)"} (\d+)$/.exec(line)!
      return [`${name} ${result} ${code}`, Number(count)]
    }),
  )
  expect(events).toEqual({
    'counted accepted ok': 3,
    'counted rejected wrong_type': 3,
    'counted rejected not_integral': 2,
    'counted rejected bad_timestamp': 1,
    'counted rejected missing_value': 1,
    'counted rejected not_object': 1,
    'counted rejected out_of_range': 1,
    'counted rejected invalid_events': 2,
  })
  for (const code of ['no_valid_event', 'invalid_events', 'not_json', 'unknown_webhook'])
    expect([code, value(`weir_refused_requests_total{code="${code}"}`)]).toEqual([code, 1])
  expect(value('weir_flush_seconds_count')).toBeGreaterThanOrEqual(1)
  expect(value('weir_ack_to_visible_seconds_count')).toBe(value('weir_flush_seconds_count'))
  expect(value('weir_ack_to_visible_seconds_sum')).toBeGreaterThan(0)
  expect(value('weir_flushed_rows_total')).toBe(3)
  expect(value('weir_log_sync_seconds_count')).toBeGreaterThanOrEqual(1)
  expect(value('weir_query_seconds_count')).toBe(1)
  await server.stop()
})

/** A server that cannot stop yet: it waits for the body of a request. */
async function startBusyServer() {
  const server = await startServer()
  const pool = await server.createPool({ columns, timestamp: 'ts', uniqueId: 'id' })
  const late = await Raw.open(portOf(server))
  late.write(head(pathOf(pool), ['Content-Length: 100', 'Content-Type: application/json']))
  // Then the server has read that head too.
  while ((await fetch(`${server.base}/readyz`)).status !== 200);
  return server
}

/** Resolves when the server has begun to stop: it refuses connections, or answers that it stops. */
async function stopping(server: Awaited<ReturnType<typeof startServer>>): Promise<void> {
  const isReady = () =>
    fetch(`${server.base}/readyz`)
      .then(answer => answer.ok)
      .catch(() => false)
  while (await isReady());
}

test('a second SIGTERM ends the server at once; what npm passes on beside Ctrl-C is no second one', async () => {
  const server = await startBusyServer()
  server.child.kill('SIGINT')
  server.child.kill('SIGTERM')
  await stopping(server)
  const isLonger = setTimeout(SIGNAL_ECHO_MS, 'still there')
  expect(await Promise.race([server.ended, isLonger])).toBe('still there')
  server.child.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: null, signal: 'SIGKILL' })
  expect((await (await startServer({ dataDir: server.dataDir })).stop()).code).toBe(0)
})

test('SIGTERM to `npm start` stops the server in order, and npm ends with its code', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  const child = spawn('npm', ['start', '--', '--port', '0', '--data-dir', dataDir], {
    cwd: ROOT,
    detached: true, // a process group of its own, so that all of it ends with the test
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(child, 'exit')
  try {
    let isListening = false
    for await (const line of createInterface({ input: child.stdout }))
      if (/listening on/.test(line)) {
        isListening = true
        break
      }
    expect(isListening).toBe(true)
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
    expect(run(['inspect', '--data-dir', dataDir]).code).toBe(0) // the folder is not locked
  } finally {
    try {
      process.kill(-must(child.pid, 'npm runs'), 'SIGKILL')
    } catch {
      // All processes have ended.
    }
  }
})
