/** Lines of a process whose output is not read, is gone, or is full: nothing waits or ends. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { LINES_WAITING_BYTES_MAX } from '../../src/util/lines.ts'
import { readLog } from './log-lines.ts'
import { Pipe } from './pipe.ts'
import { temporaryFolder } from './server.ts'
import { fillDisk, mountSmall, NO_SMALL_DISK } from './small-disk.ts'

const CHILD = fileURLToPath(new URL('./lines_child.js', import.meta.url))

function start(stdout: number, stderr: number): ChildProcess {
  const child = spawn(process.execPath, [CHILD], { stdio: ['pipe', stdout, stderr, 'ipc'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

/** Lines left out of standard output and of standard error. */
async function leftOut(child: ChildProcess): Promise<readonly number[]> {
  child.stdin?.write('left-out\n')
  const [counts] = (await once(child, 'message')) as [[string, number][]]
  return counts.map(([, count]) => count)
}

const NOTE = 'lines before this one that could not be written'

test('a pipe that nobody reads takes its lines later, in order; those beyond the buffer are counted', async () => {
  const [out, errors] = [new Pipe(), new Pipe()]
  const child = start(out.writer, errors.writer)
  const lines = 3_000
  const text = 'x'.repeat(1_000)
  out.fill()
  child.stdin?.write(`say ${text} ${lines}\nfail beside\n`)
  // The other output goes on.
  await expect.poll(() => errors.read()).toContain('"message":"beside"')
  const [count = 0, beside] = await leftOut(child)
  expect(beside).toBe(0)
  expect(lines - count).toBeLessThan(LINES_WAITING_BYTES_MAX / text.length)
  expect(lines - count).toBeGreaterThan(LINES_WAITING_BYTES_MAX / text.length / 2)
  await expect.poll(() => out.read().endsWith(`${text}${lines - count - 1}\n`)).toBe(true)
  child.stdin?.write('say after 1\n')
  await expect.poll(() => out.read().endsWith('after0\n')).toBe(true)
  const said = out.read().replace(/^\.+/, '').trimEnd().split('\n')
  expect(said.slice(0, -2)).toEqual(Array.from({ length: lines - count }, (_, index) => `${text}${index}`))
  expect(JSON.parse(said.at(-2)!)).toMatchObject({ level: 'error', message: `${NOTE}: ${count}` })
  expect([out.isNonBlocking(), errors.isNonBlocking()]).toEqual([false, false])
})

test('a pipe whose reader comes back has the number of lines that were lost meanwhile', async () => {
  const [out, errors] = [new Pipe(), new Pipe()]
  const child = start(out.writer, errors.writer)
  errors.closeReader()
  child.stdin?.write('fail first\nfail second\n')
  await expect.poll(() => leftOut(child)).toEqual([0, 2])
  errors.openReader()
  child.stdin?.write('fail third\n')
  await expect.poll(() => errors.read()).toContain('third')
  expect(readLog(errors.read()).map(({ level, message }) => [level, message])).toEqual([
    ['error', `${NOTE}: 2`],
    ['error', expect.stringMatching(/third$/)],
  ])
})

test('a file on a full disk has whole lines again when there is room', async context => {
  const folder = join(temporaryFolder(), 'disk')
  const disk = mountSmall(folder, '256k')
  if (disk === undefined) return context.skip(NO_SMALL_DISK)
  onTestFinished(() => disk.end())
  const file = openSync(join(folder, 'out'), 'a')
  const child = start(file, file)
  child.stdin?.write(`say begin 1\n`)
  await expect.poll(() => readFileSync(join(folder, 'out'), 'utf8')).toBe('begin0\n')
  fillDisk(join(folder, 'ballast'))
  // The first one ends within the last page.
  child.stdin?.write(`say ${'y'.repeat(5_000)} 2\n`)
  await expect.poll(() => leftOut(child)).toEqual([2, 0])
  disk.resize('512k')
  child.stdin?.write('say after 1\n')
  await expect.poll(() => readFileSync(join(folder, 'out'), 'utf8')).toContain('after')
  closeSync(file)
  const [begin, torn, note, after, ...more] = readFileSync(join(folder, 'out'), 'utf8').split('\n')
  expect([begin, after, more]).toEqual(['begin0', 'after0', ['']])
  expect(torn).toMatch(/^y+$/)
  expect(JSON.parse(note!)).toMatchObject({ message: `${NOTE}: 2` })
})

test('the last lines before the end come out, those of Node about an error too', async () => {
  const [out, errors] = [new Pipe(), new Pipe()]
  const child = start(out.writer, errors.writer)
  child.stdin?.write(`fail one ${50}\nthrow unforeseen\n`)
  expect(await once(child, 'exit')).toEqual([1, null])
  const written = errors.read()
  expect(written.match(/"message":"[^"]*one"/g)).toHaveLength(50)
  expect(written).toContain('Error: unforeseen')
})

test('a process whose outputs nobody reads ends', async () => {
  const pipe = new Pipe()
  const child = start(pipe.writer, pipe.writer)
  await leftOut(child) // it has begun
  pipe.fill()
  child.stdin?.write('fail one 50\nthrow unforeseen\n')
  expect(await once(child, 'exit')).toEqual([1, null])
})
