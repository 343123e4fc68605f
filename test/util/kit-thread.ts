/** The thread that thread_kit.test.ts starts, and the process that process_kit.test.ts starts. */
import { setTimeout as after } from 'node:timers/promises'
import { isMainThread } from 'node:worker_threads'
import { AssertionFailed, Damaged } from '../../src/util/errors.ts'
import { beginProcess } from '../../src/util/process-server.ts'
import { beginThread, moved, serve } from '../../src/util/thread-server.ts'

export interface KitData {
  readonly greeting: string
  /** True: the `close` of the thread fails. */
  readonly closeFails?: boolean
}

export interface KitCalls {
  greet(name: string): string
  /** Fills the bytes and moves their memory back. */
  fill(bytes: Uint8Array): Uint8Array
  wait(ms: number): string
  /** Ends when the thread is told to stop. */
  untilStop(): string
  fail(): never
  cannotBeCloned(): unknown
  crash(): never
  crashLater(ms: number): string
  leave(): never
  count(): number
  counted(): number
  pid(): number
  /** Makes a buffer of so many bytes. */
  allocate(bytes: number): number
  /** Works on and on, and hears of nothing meanwhile. */
  spin(): never
}

export interface KitEvents {
  progress(done: number): void
}

const { port, data } = isMainThread ? beginProcess<KitData>() : beginThread<KitData>()
let count = 0
let interrupt: () => void = () => {}
const tell = serve<KitCalls, KitEvents>(
  port,
  {
    greet: name => {
      for (let done = 1; done <= 3; done += 1) tell('progress', done)
      return `${data.greeting}, ${name}`
    },
    fill: bytes => moved(bytes.fill(7), [bytes.buffer as ArrayBuffer]),
    wait: async ms => {
      await after(ms)
      return 'waited'
    },
    untilStop: () =>
      new Promise(resolve => {
        interrupt = () => resolve('interrupted')
      }),
    fail: () => {
      throw new Damaged('a.log', 7, 'it is short')
    },
    cannotBeCloned: () => () => {},
    crash: () => {
      throw new AssertionFailed('a bug of ours')
    },
    crashLater: async ms => {
      await after(ms)
      throw new AssertionFailed('a late bug of ours')
    },
    leave: () => process.exit(3),
    count: () => {
      count += 1
      return count
    },
    counted: () => count,
    pid: () => process.pid,
    allocate: bytes => Buffer.alloc(bytes, 1).byteLength,
    spin: () => {
      for (;;) count += 0
    },
  },
  {
    mayAnswer: error => !(error instanceof AssertionFailed),
    interrupt: () => interrupt(),
    close: async () => {
      await after(10)
      if (data.closeFails) throw new Error('it cannot be closed')
    },
  },
)
