/**
 * The well-behaved producer: full batches and single events on a webhook of its own, in a process of its own, so that an attack
 * that keeps its own process busy does not make acks look late. It speaks over Node's channel: `start`, `mark` and `stop` in, a
 * `window` out for each `mark` and `stop`: what happened since the one before.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Connection } from '../../bench/connection.ts'
import { BATCH_EVENTS, BENCH_SEED, benchEvent, createRandom } from '../../bench/events.ts'

const BATCH_CONNECTIONS = 2
const SINGLE_CONNECTIONS = 4
/** A connection's pause between an answer and its next request: about 16 batches and 100 singles a second. */
const BATCH_PAUSE_MS = 120
const SINGLE_PAUSE_MS = 40
const LOOK_MS = 20
/** What is under way at the end is waited for so long; more has failed. */
const END_MS_MAX = 30_000
const MIB = 2 ** 20

export interface ProducerStart {
  readonly url: string
  /** Of the server, whose memory is looked at. */
  readonly pid: number
}

/** What happened between two marks. */
interface ProducerWindow {
  readonly requests: number
  /** Answers that were no 200 and connections closed without one, by status (0: closed). */
  readonly failed: Readonly<Record<string, number>>
  /** The latest ack, those under way included, less what this process itself was late meanwhile. */
  readonly worstMs: number
  /** The server's resident memory without mapped files, first and at most. */
  readonly firstMiB: number
  readonly peakMiB: number
}

type ToProducer =
  | { readonly kind: 'start'; readonly start: ProducerStart }
  | { readonly kind: 'mark' }
  | { readonly kind: 'stop' }

export interface Producer {
  /** Ends a window and begins the next. */
  mark(): Promise<ProducerWindow>
  /** Waits for what is under way, ends the last window and the process. */
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
    mark: () => ask({ kind: 'mark' }),
    stop: async () => {
      const window = await ask({ kind: 'stop' })
      child.kill()
      return window
    },
  }
}

class Posting {
  readonly #start: ProducerStart
  /** Requests under way, by when they were sent. */
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
    let lookedMs = performance.now()
    setInterval(() => {
      const now = performance.now()
      const lateMs = Math.max(0, now - lookedMs - LOOK_MS)
      lookedMs = now
      for (const one of this.#underWay) one.lateMs += lateMs
      this.#look()
    }, LOOK_MS)
  }

  /** The window so far; the next one begins. */
  window(): ProducerWindow {
    this.#look()
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
      await new Promise(resolve => setTimeout(resolve, LOOK_MS))
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

  #look(): void {
    this.#peakMiB = Math.max(this.#peakMiB, memoryMiB(this.#start.pid))
  }
}

/** Resident memory of a process, in MiB, files that it maps left out: the page cache may take those at any time. 0: it ended. */
function memoryMiB(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1')
    const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0)
    return ((kib('RssAnon') + kib('RssShmem')) * 1024) / MIB
  } catch {
    return 0
  }
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
