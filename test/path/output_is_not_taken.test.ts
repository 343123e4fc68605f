/** A server goes on, and stops in order, whatever becomes of its outputs. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { Pipe } from '../util/pipe.ts'
import { createPool, fetchToken, freePort, send, temporaryFolder } from '../util/server.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))

interface Started {
  readonly child: ChildProcess
  readonly base: string
  readonly dataDir: string
}

/** Starts a server with these outputs, and waits until it is ready. */
async function start(stdout: number, stderr: number): Promise<Started> {
  const dataDir = join(temporaryFolder(), 'data')
  const port = await freePort()
  const args = [MAIN, 'start', '--port', port, '--data-dir', dataDir]
  const child = spawn(process.execPath, args, { stdio: ['ignore', stdout, stderr] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const base = `http://127.0.0.1:${port}`
  await expect.poll(() => fetch(`${base}/readyz`).then(({ status }) => status, String)).toBe(200)
  return { child, base, dataDir }
}

/** Makes lines on standard output (the audit trail) and on standard error, and asks the server. */
async function use({ base, dataDir }: Started): Promise<void> {
  const token = await fetchToken(base, dataDir)
  const graphql = async (query: string, variables?: unknown) => {
    const answer = await fetch(`${base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables }),
    })
    return (await answer.json()) as { data: never }
  }
  const { poolId, url } = await createPool(graphql, { columns: [] })
  expect((await send(url, { n: 1 })).status).toBe(200)
  const { data } = await graphql(
    `{ counter(input: {metric: {count: {dataPool: {id: "${poolId}"}}}}) { value } }`,
  )
  expect(data).toEqual({ counter: { value: '1' } })
}

/** Lines left out of standard output and of standard error. */
async function leftOut({ base }: Started): Promise<readonly number[]> {
  const page = await (await fetch(`${base}/metrics`)).text()
  return [...page.matchAll(/^weir_lines_left_out\{output="std(?:out|err)"\} (\d+)$/gm)].map(match =>
    Number(match[1]),
  )
}

async function stop({ child }: Started): Promise<unknown> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  return (await ended)[0] ?? child.signalCode
}

test.each(['both outputs', 'standard error alone'])('the reader of %s goes', async which => {
  const [out, errors] = [new Pipe(), new Pipe()]
  const server = await start(out.writer, errors.writer)
  expect(out.read()).toContain('listening on')
  errors.closeReader()
  if (which === 'both outputs') out.closeReader()
  await use(server)
  if (which === 'both outputs') expect((await leftOut(server))[0]).toBeGreaterThan(0)
  else expect(out.read()).toContain('"audit"')
  expect(await stop(server)).toBe(0)
})

test('a pipe that nobody reads', async () => {
  const pipe = new Pipe()
  const server = await start(pipe.writer, pipe.writer)
  pipe.fill()
  await use(server)
  expect(await leftOut(server)).toEqual([0, 0])
  expect(pipe.isNonBlocking()).toBe(false) // others write to it too
  expect(await stop(server)).toBe(0)
})

test('a full disk', async () => {
  const full = openSync('/dev/full', 'w')
  const server = await start(full, full)
  closeSync(full)
  await use(server)
  expect((await leftOut(server))[0]).toBeGreaterThan(0)
  expect(await stop(server)).toBe(0)
})

test('a terminal that is stopped by Ctrl-S', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  const port = await freePort()
  const code = join(temporaryFolder(), 'code')
  const server = `${process.execPath} ${MAIN} start --port ${port} --data-dir ${dataDir}`
  // script(1) gives it a terminal. It is in the background, so that its shell tells its end.
  const line = `${server} & echo $! > ${code}.pid; { wait $!; } 2> /dev/null; echo $? > ${code}`
  const script = spawn('script', ['-qfc', line, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] })
  onTestFinished(() => void script.kill('SIGKILL'))
  script.stdout.resume()
  const base = `http://127.0.0.1:${port}`
  await expect.poll(() => fetch(`${base}/readyz`).then(({ status }) => status, String)).toBe(200)
  const pid = Number(readFileSync(`${code}.pid`, 'utf8'))
  onTestFinished(() => {
    if (tryRead(code) === '') process.kill(pid, 'SIGKILL')
  })
  script.stdin.write('\x13')
  await use({ child: script, base, dataDir })
  process.kill(pid, 'SIGTERM')
  await expect.poll(() => tryRead(code)).toBe('0\n')
})

function tryRead(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

test('a refused start says its one line in a pipe, and ends where nobody reads it', async () => {
  const pipe = new Pipe()
  const run = async () => {
    const child = spawn(process.execPath, [MAIN, '--data-dir', '/proc/none', '--port', '0'], {
      stdio: ['ignore', pipe.writer, pipe.writer],
    })
    return (await once(child, 'exit')) as unknown[]
  }
  expect(await run()).toEqual([2, null])
  expect(pipe.read().split('\n')).toEqual([expect.stringContaining('/proc/none'), ''])
  pipe.fill()
  expect(await run()).toEqual([2, null])
})
