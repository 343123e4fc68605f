/**
 * A load generator in a process of its own, over HTTP or PostgreSQL's protocol. Its CPU time is
 * that of its process.
 *
 *   closed loop   A connection sends its next request when it has its answer, as wrk does. A
 *                 request of 500 events takes a quarter of wrk's processor time
 *                 (docs/decisions/0020), one of a single event three times as much.
 *   paced         Request n is due at n / rate, whatever the answers do. Latency counts from when
 *                 the request was due, so a server that stalls pays for every request that waited
 *                 (no coordinated omission), and separately from when it was sent.
 *
 * A timer of 1 ms sends paced requests: half of that is in each latency.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Connection, NO_ANSWER, requestHead } from './connection.ts'
import { tracked } from './leftovers.ts'
import { quantileOf } from './measure.ts'
import { bindEnd, bindHead, PostgresConnection } from './peers/postgres-connection.ts'
import { Body, type BodyForm, bodyBytes, template } from './template.ts'

export type Target =
  /** A URL that takes any number of POSTs. */
  | { readonly kind: 'http'; readonly url: string }
  /** A statement that takes the body as its one parameter. */
  | { readonly kind: 'postgres'; readonly socket: string; readonly user: string; readonly sql: string }

export interface GeneratorWork {
  readonly target: Target
  /** Events in a request. */
  readonly events: number
  readonly connections: number
  readonly seconds: number
  /** Distinct between runs on the same pool: part of every id. */
  readonly producer: number
  readonly form: BodyForm
  /** Requests a second; without it a closed loop. */
  readonly rate?: number
}

/** Quantiles in ms. */
export interface Latency {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/** Requests without success, by the status of their answer or what happened in place of one. */
export type Errors = Readonly<Record<string, number>>

export interface GeneratorDone {
  /** Requests that were answered with success. */
  readonly requests: number
  readonly errors: Errors
  /** Time from the first request to the last answer. */
  readonly seconds: number
  /** From when a request was sent. */
  readonly sent: Latency
  /** From when a request was due. In a closed loop it equals `sent`. */
  readonly due: Latency
  /** CPU of the generator's process. */
  readonly cpuSeconds: number
}

/** One request at a time; resolves with an HTTP status. */
interface Channel {
  send(request: Uint8Array): Promise<number>
  close(): void
}

/** Wait for answers after the last request. */
const ANSWER_MS_MAX = 30_000
const TICK_MS = 1

/** Runs the work to its end in a process of its own. */
export function generate(work: GeneratorWork): Promise<GeneratorDone> {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), ['generator'], { stdio: 'inherit' })
  tracked(child)
  return new Promise((resolve, reject) => {
    child.once('message', message => resolve(message as GeneratorDone))
    child.once('exit', (code, signal) => reject(new Error(`the generator ended with ${code ?? signal}`)))
    child.send(work)
  })
}

function latencyOf(ms: number[]): Latency {
  return { p50Ms: quantileOf(ms, 0.5), p99Ms: quantileOf(ms, 0.99), maxMs: quantileOf(ms, 1) }
}

async function open(target: Target): Promise<Channel> {
  if (target.kind === 'http') return new Connection(target.url)
  return await PostgresConnection.open(target.socket, target.user, target.sql)
}

function bodyOf({ target, events, producer, form }: GeneratorWork): Body {
  const text = template(events, form)
  const bytes = bodyBytes(text, events)
  if (target.kind === 'postgres') return new Body(text, producer, bindHead(bytes), bindEnd())
  return new Body(text, producer, requestHead('POST', target.url, bytes))
}

class Generator {
  readonly #work: GeneratorWork
  #requests = 0
  #answers = 0
  readonly #errors: Record<string, number> = {}
  #begun = 0
  #lastAnswerMs = 0
  readonly #sentMs: number[] = []
  readonly #dueMs: number[] = []

  constructor(work: GeneratorWork) {
    this.#work = work
  }

  async run(): Promise<GeneratorDone> {
    const { connections, target } = this.#work
    const channels = await Promise.all(Array.from({ length: connections }, () => open(target)))
    const lanes = channels.map(channel => ({ channel, body: bodyOf(this.#work) }))
    const cpu = process.cpuUsage()
    const beginMs = performance.now()
    const all = this.#work.rate === undefined ? this.#closedLoop(lanes, beginMs) : this.#paced(lanes, beginMs)
    const tooLate = new Promise(resolve =>
      setTimeout(resolve, this.#work.seconds * 1000 + ANSWER_MS_MAX).unref(),
    )
    await Promise.race([all, tooLate])
    const { user, system } = process.cpuUsage(cpu)
    const late = this.#begun - this.#answers
    if (late > 0) this.#errors[`not within ${ANSWER_MS_MAX} ms`] = late
    const sent = latencyOf(this.#sentMs)
    return {
      requests: this.#requests,
      errors: this.#errors,
      seconds: Math.max(0.001, (this.#lastAnswerMs - beginMs) / 1000),
      sent,
      due: this.#work.rate === undefined ? sent : latencyOf(this.#dueMs),
      cpuSeconds: (user + system) / 1e6,
    }
  }

  async #closedLoop(lanes: readonly Lane[], beginMs: number): Promise<void> {
    const endMs = beginMs + this.#work.seconds * 1000
    const drive = async (lane: Lane) => {
      while (performance.now() < endMs) await this.#send(lane)
    }
    await Promise.all(lanes.map(drive))
  }

  #paced(lanes: readonly Lane[], beginMs: number): Promise<void> {
    const { seconds, rate = 1 } = this.#work
    const total = Math.max(1, Math.floor(seconds * rate))
    const free = [...lanes]
    return new Promise(resolve => {
      let answered = 0
      const pump = () => {
        const due = Math.min(total, 1 + Math.floor(((performance.now() - beginMs) * rate) / 1000))
        while (this.#begun < due && free.length > 0) {
          const lane = free.pop()!
          const dueAtMs = beginMs + (this.#begun * 1000) / rate
          void this.#send(lane, dueAtMs).then(() => {
            answered += 1
            free.push(lane)
            if (answered < total) return pump()
            clearInterval(timer)
            resolve()
          })
        }
      }
      const timer = setInterval(pump, TICK_MS)
    })
  }

  async #send({ channel, body }: Lane, dueAtMs?: number): Promise<void> {
    body.set(this.#begun, Date.now())
    this.#begun += 1
    const sentAtMs = performance.now()
    const status = await channel.send(body.bytes)
    const now = performance.now()
    this.#lastAnswerMs = now
    this.#answers += 1
    if (status === 200) this.#requests += 1
    else this.#count(status === NO_ANSWER ? 'connection closed' : String(status))
    this.#sentMs.push(now - sentAtMs)
    if (dueAtMs !== undefined) this.#dueMs.push(now - dueAtMs)
  }

  #count(error: string): void {
    this.#errors[error] = (this.#errors[error] ?? 0) + 1
  }
}

interface Lane {
  readonly channel: Channel
  readonly body: Body
}

if (process.argv[2] === 'generator' && process.send !== undefined) {
  process.once('message', (work: GeneratorWork) => {
    void new Generator(work).run().then(done => process.send?.(done, () => process.exit(0)))
  })
  process.once('disconnect', () => process.exit(1))
}
