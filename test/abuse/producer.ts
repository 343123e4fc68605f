/**
 * The well-behaved producer: it posts full batches and single events to a webhook of its own. It is
 * a process of its own, so that an attack that keeps its own process busy does not make acks look
 * late. It takes the messages `start`, `window` and `stop`. It answers the last two with the
 * figures since the window before.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Connection } from '../../bench/connection.ts'
import { BATCH_EVENTS, BENCH_SEED, benchEvent, createRandom } from '../../bench/events.ts'
import { memory } from '../../bench/measure.ts'

const BATCH_CONNECTIONS = 2
const SINGLE_CONNECTIONS = 4
/**
 * A connection's pause between an answer and its next request: about 16 batches and 100 singles a
 * second.
 */
const BATCH_PAUSE_MS = 120
const SINGLE_PAUSE_MS = 40
const SAMPLE_MS = 20
/** The time for requests that are under way at the end. A request that takes longer has failed. */
const END_MS_MAX = 30_000
const MIB = 2 ** 20

export interface ProducerStart {
  readonly url: string
  /** The server's process, whose memory is measured. */
  readonly pid: number
}

/** The figures of one window. */
interface ProducerWindow {
  readonly requests: number
  /** Answers other than 200, by status. 0 counts connections that closed without an answer. */
  readonly failed: Readonly<Record<string, number>>
  /**
   * The slowest ack, requests under way included, less the time that this process itself was late.
   */
  readonly worstMs: number
  /** The server's resident memory without mapped files, first and at most. */
  readonly firstMiB: number
  readonly peakMiB: number
}

type ToProducer =
  | { readonly kind: 'start'; readonly start: ProducerStart }
  | { readonly kind: 'window' }
  | { readonly kind: 'stop' }

export interface Producer {
  /** Ends a window and begins the next. */
  window(): Promise<ProducerWindow>
  /** Waits for the requests under way, ends the last window and the process. */
  stop(): Promise<ProducerWindow>
}

/** Starts the process; it posts at once. */
export function startProducer(start: ProducerStart): Producer {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), ['producer'], { stdio: 'inherit' })
  const ask = (message: ToProducer) =>
    new Promise<ProducerWindow>((resolve, reject) => {
      const ended = () => reject(new Error('the producer ended'))
      child.once('message', (window: ProducerWindow) => {
        child.off('exit', ended)
        resolve(window)
      })
      child.once('exit', ended)
      child.send(message)
    })
  child.send({ kind: 'start', start } satisfies ToProducer)
  return {
    window: () => ask({ kind: 'window' }),
    stop: async () => {
      const window = await ask({ kind: 'stop' })
      child.kill()
      return window
    },
  }
}

class Posting {
  readonly #start: ProducerStart
  /** Requests under way. */
  readonly #underWay = new Set<{ readonly sentMs: number; lateMs: number }>()
  #isStopped = false
  #requests = 0
  #failed: Record<string, number> = {}
  #worstMs = 0
  #firstMiB: number
  #peakMiB: number

  constructor(start: ProducerStart) {
    this.#start = start
    this.#firstMiB = this.#peakMiB = memoryMiB(start.pid)
  }

  run(): void {
    const { pathname } = new URL(this.#start.url)
    const random = createRandom(BENCH_SEED)
    const events = Array.from({ length: BATCH_EVENTS }, (_, index) => benchEvent(index, random))
    const request = (body: string) =>
      `POST ${pathname} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
    const batch = Buffer.from(request(`[${events.join(',')}]`))
    const single = Buffer.from(request(events[0]!))
    for (let count = 0; count < BATCH_CONNECTIONS; count += 1) void this.#post(batch, BATCH_PAUSE_MS)
    for (let count = 0; count < SINGLE_CONNECTIONS; count += 1) void this.#post(single, SINGLE_PAUSE_MS)
    let sampledMs = performance.now()
    setInterval(() => {
      const now = performance.now()
      const lateMs = Math.max(0, now - sampledMs - SAMPLE_MS)
      sampledMs = now
      for (const one of this.#underWay) one.lateMs += lateMs
      this.#sampleMemory()
    }, SAMPLE_MS)
  }

  /** The window so far; the next one begins. */
  window(): ProducerWindow {
    this.#sampleMemory()
    const now = performance.now()
    let worstMs = this.#worstMs
    for (const one of this.#underWay) worstMs = Math.max(worstMs, now - one.sentMs - one.lateMs)
    const window = {
      requests: this.#requests,
      failed: this.#failed,
      worstMs,
      firstMiB: this.#firstMiB,
      peakMiB: this.#peakMiB,
    }
    this.#requests = 0
    this.#failed = {}
    this.#worstMs = 0
    this.#firstMiB = this.#peakMiB = memoryMiB(this.#start.pid)
    return window
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    const untilMs = performance.now() + END_MS_MAX
    while (this.#underWay.size > 0 && performance.now() < untilMs)
      await new Promise(resolve => setTimeout(resolve, SAMPLE_MS))
    if (this.#underWay.size > 0) this.#failed['unanswered'] = this.#underWay.size
  }

  async #post(request: Uint8Array, pauseMs: number): Promise<void> {
    const connection = new Connection(this.#start.url)
    while (!this.#isStopped) {
      const one = { sentMs: performance.now(), lateMs: 0 }
      this.#underWay.add(one)
      const status = await connection.send(request)
      this.#underWay.delete(one)
      this.#requests += 1
      if (status !== 200) this.#failed[status] = (this.#failed[status] ?? 0) + 1
      this.#worstMs = Math.max(this.#worstMs, performance.now() - one.sentMs - one.lateMs)
      await new Promise(resolve => setTimeout(resolve, pauseMs))
    }
    connection.close()
  }

  #sampleMemory(): void {
    this.#peakMiB = Math.max(this.#peakMiB, memoryMiB(this.#start.pid))
  }
}

/**
 * Resident memory of the server and its query process, in MiB, without mapped files, which the page
 * cache may drop at any time. Returns 0 where they ended.
 */
function memoryMiB(pid: number): number {
  const { anonymous, shared } = memory(pid)
  return (anonymous + shared) / MIB
}

if (process.argv[2] === 'producer' && process.send !== undefined) {
  let posting: Posting | undefined
  process.on('message', async (message: ToProducer) => {
    if (message.kind === 'start') {
      posting = new Posting(message.start)
      posting.run()
      return
    }
    if (message.kind === 'stop') await posting?.stop()
    process.send?.(posting?.window())
  })
  process.on('disconnect', () => process.exit(0))
}
