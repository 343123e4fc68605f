/**
 * The process kit (src/util/process-kit.ts): calls, crashes and stops as with a thread, and a
 * process that knows nothing of its parent and never outlives it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Callee } from '../../src/util/callee.ts'
import { Damaged } from '../../src/util/errors.ts'
import { tryNative } from '../../src/util/native.ts'
import { startProcess } from '../../src/util/process-kit.ts'
import type { KitCalls, KitData, KitEvents } from './kit-thread.ts'

const FILE = new URL('./kit-thread.js', import.meta.url)
const PARENT = fileURLToPath(new URL('./kit-parent.js', import.meta.url))

let crashes: string[] = []
let progress: number[] = []
const processes: Callee<KitCalls, KitEvents>[] = []

function start(
  data: Partial<KitData> = {},
  file = FILE,
  more: { readonly dataBytesMax?: number } = {},
): Callee<KitCalls, KitEvents> {
  const kit = startProcess<KitCalls, KitEvents>({
    name: 'kit',
    file,
    data: { greeting: 'Hello', ...data },
    nice: 3,
    crashAt: '',
    heapMiB: 256,
    on: { progress: done => progress.push(done) },
    onCrash: error => crashes.push(error.message),
    ...more,
    lost: error => new Error(`lost: ${error.message}`),
  })
  processes.push(kit)
  return kit
}

beforeEach(() => {
  crashes = []
  progress = []
})

afterEach(async () => {
  for (const kit of processes.splice(0)) await kit.terminate()
})

const isAlive = (pid: number) => existsSync(`/proc/${pid}`)

describe('a call', () => {
  test('resolves with the answer, after the events that came before it', async () => {
    const kit = start()
    expect(await Promise.all([kit.call('greet', 'A'), kit.call('greet', 'B')])).toEqual([
      'Hello, A',
      'Hello, B',
    ])
    expect(progress).toEqual([1, 2, 3, 1, 2, 3])
  })

  test('copies bytes both ways, however many', async () => {
    const bytes = new Uint8Array(3_000_000)
    const filled = await start().call('fill', bytes)
    expect(Buffer.compare(filled, new Uint8Array(3_000_000).fill(7))).toBe(0)
    expect(Buffer.compare(bytes, new Uint8Array(3_000_000))).toBe(0)
  })

  test('rejects with the typed error of the handler, and the process serves on', async () => {
    const kit = start()
    const error = await kit.call('fail', undefined).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Damaged)
    expect(error).toMatchObject({ file: 'a.log', offset: 7 })
    expect(await kit.call('greet', 'A')).toBe('Hello, A')
  })

  test('rejects where its value or its answer cannot be cloned, and leaves nothing open', async () => {
    const kit = start()
    await expect(kit.call('greet', (() => {}) as never)).rejects.toThrow('could not be cloned')
    await expect(kit.call('cannotBeCloned', undefined)).rejects.toThrow('could not be cloned')
    await kit.stop()
    expect(crashes).toEqual([])
  })
})

describe('a crash', () => {
  test('by a signal rejects every open call and is told once, with the signal', async () => {
    const kit = start()
    const pid = await kit.call('pid', undefined)
    const open = [kit.call('wait', 60_000), kit.call('untilStop', undefined)]
    process.kill(pid, 'SIGKILL')
    const why = `the kit process ${pid} was ended by SIGKILL`
    for (const call of open) await expect(call).rejects.toThrow(`lost: ${why}`)
    await expect(kit.call('greet', 'A')).rejects.toThrow(`lost: ${why}`)
    await kit.stop()
    expect(crashes).toEqual([why])
    expect(isAlive(pid)).toBe(false)
  })

  test.each([
    ['leave', 3],
    ['crash', 1],
  ] as const)('by its own code does the same (%s)', async (how, code) => {
    const kit = start()
    const open = [kit.call('wait', 60_000), kit.call(how, undefined)]
    for (const call of open) await expect(call).rejects.toThrow(`ended with code ${code}`)
    expect(crashes).toHaveLength(1)
  })

  test('of a process that does not start rejects the first call', async () => {
    const kit = start({}, new URL('./no-such.js', FILE))
    await expect(kit.call('greet', 'A')).rejects.toThrow('ended with code 1')
    await kit.exited
  })
})

describe('a stop', () => {
  test('interrupts open calls, waits for their answers and for the end', async () => {
    const kit = start()
    const pid = await kit.call('pid', undefined)
    const open = [kit.call('untilStop', undefined), kit.call('wait', 50)]
    const stopped = kit.stop()
    expect(await Promise.all(open)).toEqual(['interrupted', 'waited'])
    await stopped
    expect(isAlive(pid)).toBe(false)
    await expect(kit.call('greet', 'A')).rejects.toThrow('lost: the kit process has ended')
    expect(crashes).toEqual([])
  })

  test('rejects where the process cannot close, and waits for its end all the same', async () => {
    await expect(start({ closeFails: true }).stop()).rejects.toThrow('it cannot be closed')
    expect(crashes).toEqual([])
  })

  test('is only for the parent to order: the signals of a terminal and of a service are ignored', async () => {
    const kit = start()
    const pid = await kit.call('pid', undefined)
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(pid, signal)
    expect(await kit.call('greet', 'A')).toBe('Hello, A')
    expect(crashes).toEqual([])
  })
})

test('the process has a name, goes after its parent, and is the first that the kernel ends', async () => {
  const kit = start()
  const pid = await kit.call('pid', undefined)
  expect(readFileSync(`/proc/${pid}/comm`, 'utf8')).toBe('weir-kit\n')
  expect(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8')).toBe('1000\n')
  const niceOf = (path: string) =>
    Number(/\) (.*)$/s.exec(readFileSync(`${path}/stat`, 'utf8'))?.[1]?.split(' ')[16])
  const own = niceOf('/proc/self')
  for (const task of readdirSync(`/proc/${pid}/task`))
    expect(niceOf(`/proc/${pid}/task/${task}`)).toBe(own + 3)
})

describe('a limit of the system on its memory', () => {
  const MiB = 1024 ** 2
  const dataBytesMax = 400 * MiB

  test('makes an allocation fail beyond it, and the process serves on', async () => {
    const kit = start({}, FILE, { dataBytesMax })
    const pid = await kit.call('pid', undefined)
    const limits = readFileSync(`/proc/${pid}/limits`, 'utf8')
    expect(limits).toMatch(new RegExp(`^Max data size +${dataBytesMax} +${dataBytesMax} `, 'm'))
    await expect(kit.call('allocate', 512 * MiB)).rejects.toThrow('allocation failed')
    expect(await kit.call('allocate', 64 * MiB)).toBe(64 * MiB)
    expect(await kit.call('pid', undefined)).toBe(pid)
    expect(crashes).toEqual([])
  })

  test('leaves the process as it is without one: name, nice value, parent, exit code', async () => {
    const kit = start({}, FILE, { dataBytesMax })
    const pid = await kit.call('pid', undefined)
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    expect(status).toMatch(/^Name:\tweir-kit$/m)
    expect(status).toMatch(new RegExp(`^PPid:\t${process.pid}$`, 'm'))
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0]).toBe(process.execPath)
    await expect(kit.call('leave', undefined)).rejects.toThrow(`the kit process ${pid} ended with code 3`)
    const other = start({}, FILE, { dataBytesMax })
    process.kill(await other.call('pid', undefined), 'SIGKILL')
    await expect(other.call('wait', 60_000)).rejects.toThrow('was ended by SIGKILL')
  })
})

test('the environment of the parent stays with it', async () => {
  process.env['WEIR_CLIENT_SECRET'] = 'a secret of the parent'
  try {
    const pid = await start().call('pid', undefined)
    const environment = readFileSync(`/proc/${pid}/environ`, 'utf8')
    expect(environment).toContain('NODE_CHANNEL_FD=')
    expect(environment).not.toContain('secret')
    expect(environment).not.toContain('HOME=')
  } finally {
    delete process.env['WEIR_CLIENT_SECRET']
  }
})

// A process that works without a pause hears of the end through the kernel alone.
test.each(tryNative() === undefined ? ['idle'] : ['idle', 'spin'])(
  'a parent that is killed takes the process with it (%s)',
  async how => {
    const parent = spawn(process.execPath, [PARENT, how], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [line] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(line.toString())
    expect(isAlive(pid)).toBe(true)
    parent.kill('SIGKILL')
    await expect.poll(() => isAlive(pid), { timeout: 30_000 }).toBe(false)
  },
)
