/** The server's own messages go to a file on a disk that is full for a while. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { freePort, temporaryFolder } from '../util/server.ts'
import { fillDisk, mountSmall, NO_SMALL_DISK } from '../util/small-disk.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))

test('lines that a full disk refuses are dropped and counted, and the server stops in order', async context => {
  const root = temporaryFolder()
  const folder = join(root, 'logs')
  const small = mountSmall(folder, '1m')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  onTestFinished(() => small.end())
  const ballast = join(folder, 'ballast')
  const output = join(folder, 'output')
  const file = openSync(output, 'a')
  fillDisk(ballast)
  const dataDir = join(root, 'data')
  const port = await freePort()
  const child = spawn(process.execPath, [MAIN, 'start', '--port', port, '--data-dir', dataDir], {
    stdio: ['ignore', file, file],
  })
  closeSync(file)
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  const isReady = () =>
    fetch(`http://127.0.0.1:${port}/readyz`)
      .then(answer => answer.ok)
      .catch(() => false)
  while (child.exitCode === null && !(await isReady()));
  expect([child.exitCode, readFileSync(output, 'utf8')]).toEqual([null, ''])
  rmSync(ballast)
  // Each is a line of the audit trail on standard output.
  const create = (name: string) =>
    weir(['applications', 'create', name, '--url', `http://127.0.0.1:${port}`, '--data-dir', dataDir])
  expect([(await create('one')).code, (await create('two')).code]).toEqual([0, 0])
  const lines = readFileSync(output, 'utf8').trimEnd().split('\n')
  expect(lines[0]).toMatch(/^weir: lines before this one that could not be written: [1-9]\d*$/)
  // The last lines of the start may come after it is ready, and after the disk has space again.
  expect(lines.filter(line => line.includes('"audit"'))).toEqual([
    expect.stringContaining('createApplication'),
    expect.stringContaining('createApplication'),
  ])
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
})
