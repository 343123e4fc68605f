/**
 * The thread kit (src/util/thread-kit.ts): every call settles, a crash is told once, a stop ends
 * with the thread.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Damaged } from '../../src/util/errors.ts'
import { startThread, type Thread } from '../../src/util/thread-kit.ts'
import type { KitCalls, KitData, KitEvents } from './kit-thread.ts'

const FILE = new URL('./kit-thread.js', import.meta.url)

let crashes: string[] = []
let progress: number[] = []
const threads: Thread<KitCalls, KitEvents>[] = []

function start(data: Partial<KitData> = {}, lost?: (error: Error) => Error): Thread<KitCalls, KitEvents> {
  const thread = startThread<KitCalls, KitEvents>({
    name: 'kit',
    file: FILE,
    data: { greeting: 'Hello', ...data },
    on: { progress: done => progress.push(done) },
    onCrash: error => crashes.push(error.message),
    ...(lost === undefined ? {} : { lost }),
  })
  threads.push(thread)
  return thread
}

beforeEach(() => {
  crashes = []
  progress = []
})

afterEach(async () => {
  for (const thread of threads.splice(0)) await thread.terminate()
})

describe('a call', () => {
  test('resolves with the answer, after the events that came before it', async () => {
    const thread = start()
    const told: number[][] = []
    const answers = ['A', 'B'].map(name =>
      thread.call('greet', name).then(text => {
        told.push([...progress])
        return text
      }),
    )
    expect(await Promise.all(answers)).toEqual(['Hello, A', 'Hello, B'])
    expect(told[0]!.slice(0, 3)).toEqual([1, 2, 3])
    expect(progress).toEqual([1, 2, 3, 1, 2, 3])
  })

  test('moves buffers both ways and copies none', async () => {
    const bytes = new Uint8Array(1_000)
    const answer = start().call('fill', bytes, [bytes.buffer])
    expect(bytes.byteLength).toBe(0)
    const filled = await answer
    expect(filled).toEqual(new Uint8Array(1_000).fill(7))
  })

  test('rejects with the typed error of the handler, and the thread serves on', async () => {
    const thread = start()
    const error = await thread.call('fail', undefined).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Damaged)
    expect(error).toMatchObject({ file: 'a.log', offset: 7 })
    expect(await thread.call('greet', 'A')).toBe('Hello, A')
    expect(crashes).toEqual([])
  })

  test('is answered before an earlier one that takes longer', async () => {
    const thread = start()
    const order: string[] = []
    await Promise.all([
      thread.call('wait', 100).then(() => order.push('slow')),
      thread.call('greet', 'A').then(() => order.push('fast')),
    ])
    expect(order).toEqual(['fast', 'slow'])
  })

  test('rejects where its value cannot be cloned, and leaves nothing open', async () => {
    const thread = start()
    await expect(thread.call('greet', (() => {}) as never)).rejects.toThrow('could not be cloned')
    expect(await thread.call('greet', 'A')).toBe('Hello, A')
    await thread.stop()
  })

  test('with a buffer that was moved away before rejects', async () => {
    const thread = start()
    const bytes = new Uint8Array(10)
    structuredClone(bytes, { transfer: [bytes.buffer] })
    await expect(thread.call('fill', bytes, [bytes.buffer])).rejects.toThrow()
  })

  test('rejects where its answer cannot be cloned, and the thread serves on', async () => {
    const thread = start()
    await expect(thread.call('cannotBeCloned', undefined)).rejects.toThrow('could not be cloned')
    expect(await thread.call('greet', 'A')).toBe('Hello, A')
  })

  test('rejects at once when it is given up; its late answer is ignored', async () => {
    const thread = start()
    const call = thread.call('wait', 50)
    thread.giveUp(new Error('nobody waits for it'))
    await expect(call).rejects.toThrow('nobody waits for it')
    await thread.stop()
    expect(crashes).toEqual([])
  })
})

test('listeners that come after the start hear later events and the crash, the first ones no more', async () => {
  const thread = start()
  await thread.call('greet', 'A')
  const late: (number | string)[] = []
  thread.listen({ progress: done => late.push(done) }, error => late.push(error.message))
  await thread.call('greet', 'B')
  await expect(thread.call('crash', undefined)).rejects.toThrow('a bug of ours')
  expect([progress, late, crashes]).toEqual([[1, 2, 3], [1, 2, 3, 'a bug of ours'], []])
})

describe('a message without an answer', () => {
  test('is handled in order with the calls', async () => {
    const thread = start()
    for (let count = 0; count < 10; count += 1) thread.tell('count', undefined)
    expect(await thread.call('counted', undefined)).toBe(10)
  })

  test('ends the thread where its handler throws: nobody could be answered', async () => {
    const thread = start()
    thread.tell('fail', undefined)
    await thread.exited
    expect(crashes).toEqual(['a.log is damaged at byte 7: it is short'])
  })
})

describe('a crash', () => {
  test.each(['crash', 'leave'] as const)('rejects every open call and is told once (%s)', async how => {
    const thread = start({}, error => new Error(`lost: ${error.message}`))
    const open = [thread.call('wait', 60_000), thread.call(how, undefined), thread.call('wait', 60_000)]
    const why = how === 'crash' ? 'a bug of ours' : 'the kit thread ended with code 3'
    for (const result of await Promise.allSettled(open))
      expect((result as PromiseRejectedResult).reason).toEqual(new Error(`lost: ${why}`))
    await thread.exited
    expect(crashes).toEqual([why])
  })

  test('is told once where two come together', async () => {
    const thread = start()
    const open = [thread.call('crashLater', 20), thread.call('crashLater', 20)]
    await Promise.allSettled(open)
    await thread.exited
    expect(crashes).toEqual(['a late bug of ours'])
  })

  test('rejects later calls, ignores later messages, and lets a stop resolve', async () => {
    const thread = start({}, error => new Error(`lost: ${error.message}`))
    await expect(thread.call('crash', undefined)).rejects.toThrow('lost: a bug of ours')
    await expect(thread.call('greet', 'A')).rejects.toThrow('lost: a bug of ours')
    thread.tell('count', undefined)
    await thread.stop()
    expect(crashes).toHaveLength(1)
  })

  test('of a thread that does not start rejects the first call', async () => {
    const thread = startThread<KitCalls>({ name: 'kit', file: new URL('./no-such.js', FILE), data: {} })
    await expect(thread.call('greet', 'A')).rejects.toThrow('no-such.js')
    await thread.exited
  })
})

describe('a stop', () => {
  test('resolves when the thread has ended, and is no crash', async () => {
    const thread = start()
    expect(await thread.call('greet', 'A')).toBe('Hello, A')
    let hasExited = false
    void thread.exited.then(() => {
      hasExited = true
    })
    await thread.stop()
    expect(hasExited).toBe(true)
    expect(crashes).toEqual([])
  })

  test('may be asked for twice', async () => {
    const thread = start()
    await Promise.all([thread.stop(), thread.stop()])
    await thread.stop()
    expect(crashes).toEqual([])
  })

  test('interrupts open calls, and waits for their answers', async () => {
    const thread = start()
    const open = [thread.call('untilStop', undefined), thread.call('wait', 50)]
    const stopped = thread.stop()
    expect(await Promise.all(open)).toEqual(['interrupted', 'waited'])
    await stopped
  })

  test('is the last call: later ones reject, later messages do nothing', async () => {
    const thread = start({}, error => new Error(`lost: ${error.message}`))
    const stopped = thread.stop()
    await expect(thread.call('greet', 'A')).rejects.toThrow('lost: the kit thread is stopping')
    thread.tell('crash', undefined)
    await stopped
    await expect(thread.call('greet', 'A')).rejects.toThrow('lost: the kit thread has ended')
    expect(crashes).toEqual([])
  })

  test('rejects where the thread crashes before it is done; the crash is told', async () => {
    const thread = start()
    const call = thread.call('crashLater', 20)
    const stopped = thread.stop()
    await expect(call).rejects.toThrow('a late bug')
    await expect(stopped).rejects.toThrow('a late bug')
    expect(crashes).toEqual(['a late bug of ours'])
  })

  test('rejects where the thread cannot close, and waits for its end all the same', async () => {
    const thread = start({ closeFails: true })
    await expect(thread.stop()).rejects.toThrow('it cannot be closed')
    await expect(thread.call('greet', 'A')).rejects.toThrow('has ended')
    expect(crashes).toEqual([])
  })
})

test('an ended thread rejects what is open, and that is no crash', async () => {
  const thread = start()
  const call = thread.call('wait', 60_000)
  const rejected = expect(call).rejects.toThrow('the kit thread was ended')
  await thread.terminate()
  await rejected
  expect(crashes).toEqual([])
})

test('the kernel knows the thread by its name', async () => {
  const thread = start()
  await thread.call('greet', 'A')
  const names = readdirSync('/proc/self/task').map(task =>
    readFileSync(`/proc/self/task/${task}/comm`, 'utf8').trim(),
  )
  expect(names).toContain('weir-kit')
})
