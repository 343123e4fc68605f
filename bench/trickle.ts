/**
 * A process that posts single events evenly: `rate` a second over `urls` in turn, on a few
 * persistent connections with one request each at a time. It uses raw sockets and few string
 * operations, because it shares the cores with the server.
 *
 * Messages over Node's channel: `start` in, a `window` out every second, `stop` in, `done` out with
 * the acknowledged requests of each URL.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Connection, requestHead } from './connection.ts'
import { BENCH_SEED, benchEvent, createRandom, eventId } from './events.ts'
import { tracked } from './leftovers.ts'

export interface TrickleStart {
  readonly urls: readonly string[]
  /** Requests a second, over all URLs. */
  readonly rate: number
  readonly connections: number
  /** Distinct between runs on the same pools: part of every id. */
  readonly producer: number
}

/** The answers of the last second. */
export interface TrickleWindow {
  readonly latenciesMs: readonly number[]
  /** Answers other than 200, and requests whose connection closed. */
  readonly errors: number
  /** Requests that are due and not sent: the server or the generator is too slow. */
  readonly behind: number
}

export interface TrickleDone {
  /** By the URLs' order: requests sent, and requests answered with 200. */
  readonly sent: readonly number[]
  readonly acknowledged: readonly number[]
}

type ToTrickle = { readonly kind: 'start'; readonly start: TrickleStart } | { readonly kind: 'stop' }
type FromTrickle =
  | { readonly kind: 'window'; readonly window: TrickleWindow }
  | { readonly kind: 'done'; readonly done: TrickleDone }

/** A running generator. */
export interface Trickle {
  readonly pid: number
  /** Waits for open requests (at most 5 s) and ends the process. */
  stop(): Promise<TrickleDone>
}

/** Starts the process. `onWindow` is called once a second. */
export function startTrickle(start: TrickleStart, onWindow: (window: TrickleWindow) => void): Trickle {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), ['trickle'], { stdio: 'inherit' })
  tracked(child)
  const done = new Promise<TrickleDone>((resolve, reject) => {
    child.on('message', (message: FromTrickle) => {
      if (message.kind === 'window') onWindow(message.window)
      else resolve(message.done)
    })
    child.once('exit', code => reject(new Error(`the generator ended with ${code}`)))
  })
  done.catch(() => undefined) // awaited in stop()
  const tell = (message: ToTrickle) => child.send(message)
  tell({ kind: 'start', start })
  return {
    pid: child.pid as number,
    async stop() {
      tell({ kind: 'stop' })
      const counts = await done
      child.kill()
      return counts
    },
  }
}

class Generator {
  readonly #start: TrickleStart
  readonly #heads: readonly string[]
  readonly #pieces: readonly string[]
  readonly #free: Connection[]
  #underWay = 0
  readonly #sent: number[]
  readonly #acknowledged: number[]
  #latenciesMs: number[] = []
  #errors = 0
  #due = 0
  #begun = 0
  #isStopped = false

  constructor(start: TrickleStart) {
    this.#start = start
    this.#free = Array.from({ length: start.connections }, () => new Connection(start.urls[0]!))
    this.#sent = start.urls.map(() => 0)
    this.#acknowledged = start.urls.map(() => 0)
    const event = benchEvent(0, createRandom(BENCH_SEED))
    // Each event has as many bytes: ids have one length, and so have times.
    this.#heads = start.urls.map(url => requestHead('POST', url, Buffer.byteLength(event)))
    this.#pieces = event.split(eventId(0, 0)).flatMap(piece => piece.split('2026-01-01T00:00:00.000Z'))
    if (this.#pieces.length !== 3) throw new Error('an event has one id and one time')
  }

  run(): void {
    const begin = performance.now()
    const ticks = setInterval(() => {
      if (this.#isStopped) return clearInterval(ticks)
      this.#due = Math.floor(((performance.now() - begin) * this.#start.rate) / 1000)
      this.#pump()
    }, 2)
    setInterval(() => {
      const behind = this.#due - this.#begun
      tellParent({ kind: 'window', window: { latenciesMs: this.#latenciesMs, errors: this.#errors, behind } })
      this.#latenciesMs = []
      this.#errors = 0
    }, 1000).unref()
  }

  /** Sends no more requests and waits for the open ones. */
  stop(): void {
    this.#isStopped = true
    const begin = performance.now()
    const wait = setInterval(() => {
      if (this.#underWay > 0 && performance.now() - begin < 5000) return
      clearInterval(wait)
      tellParent({ kind: 'done', done: { sent: this.#sent, acknowledged: this.#acknowledged } })
    }, 10)
  }

  #pump(): void {
    while (this.#begun < this.#due && !this.#isStopped) {
      const connection = this.#free.pop()
      if (connection === undefined) return
      const url = this.#begun % this.#start.urls.length
      this.#begun += 1
      void this.#post(connection, url, eventId(this.#start.producer, this.#begun))
    }
  }

  async #post(connection: Connection, url: number, id: string): Promise<void> {
    const body = this.#pieces[0] + id + this.#pieces[1] + new Date().toISOString() + this.#pieces[2]
    const begin = performance.now()
    this.#sent[url]! += 1
    this.#underWay += 1
    const status = await connection.send(`${this.#heads[url]}${body}`)
    this.#underWay -= 1
    if (status === 200) this.#acknowledged[url]! += 1
    else this.#errors += 1
    this.#latenciesMs.push(performance.now() - begin)
    this.#free.push(connection)
    this.#pump()
  }
}

function tellParent(message: FromTrickle): void {
  process.send?.(message)
}

if (process.argv[2] === 'trickle' && process.send !== undefined) {
  let generator: Generator | undefined
  process.on('message', (message: ToTrickle) => {
    if (message.kind === 'stop') return generator?.stop()
    generator = new Generator(message.start)
    generator.run()
  })
  process.on('disconnect', () => process.exit(0))
}
