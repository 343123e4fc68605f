/**
 * Producers and readers of one pool over all nodes, and a model of every acknowledged request.
 *
 * Each producer has keys of its own and sends one request after the other, each to any node. What
 * was not acknowledged is sent again until it is, as a client does. So the state of each key is
 * known, but for the request under way.
 */
import { randomFrom } from '../util/random.ts'
import { CounterFailed, type TestClient, type TestPool } from '../util/server.ts'

const PRODUCERS = 8
const KEYS = 40
/**
 * A request whose client has given it up may be carried out later than the client's next ones, and
 * then nothing is known. So a client waits for longer than any fault lasts.
 */
const ANSWER_MS_MAX = 120_000
const AT = '2026-01-01T00:00:00Z'

/** When something was answered, and the longest time without an answer. */
export interface Gaps {
  /** ms without an acknowledged request, and without an answered question. */
  readonly ack: number
  readonly query: number
}

export class FaultLoad {
  /** By key, what was acknowledged last; absent: deleted or never posted. */
  readonly model = new Map<string, number>()
  acked = 0
  answered = 0
  refused = 0
  /** How often each answer came that was no acknowledgement, such as `503 stopping`. */
  readonly refusals = new Map<string, number>()
  readonly #nodes: TestClient[]
  readonly #pool: TestPool
  readonly #seed: number
  readonly #refused: readonly number[]
  /** Keys whose request is under way. */
  readonly #uncertain = new Set<string>()
  /** When a request with the key was last sent, in ticks. */
  readonly #touched = new Map<string, number>()
  #tick = 0
  #isOver = false
  #loops: Promise<void>[] = []
  #ack = new Longest()
  #query = new Longest()

  /**
   * @param nodes the present ones; a node that starts again takes the place of the one before
   * @param refused statuses of what is sent again
   */
  constructor(nodes: TestClient[], pool: TestPool, seed: number, refused = [429, 503]) {
    this.#nodes = nodes
    this.#pool = pool
    this.#seed = seed
    this.#refused = refused
  }

  start(): void {
    this.#loops = [
      ...Array.from({ length: PRODUCERS }, (_, index) => this.#produce(index)),
      ...this.#nodes.map((_, index) => this.#read(index)),
    ]
  }

  /** Resolves when every request is acknowledged. Rejects where an answer was wrong. */
  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#loops)
  }

  /** The gaps since the last call. */
  takeGaps(): Gaps {
    return { ack: this.#ack.take(), query: this.#query.take() }
  }

  async #produce(producer: number): Promise<void> {
    const random = randomFrom(this.#seed + producer)
    for (let turn = 1; !this.#isOver; turn += 1) {
      const isDelete = random() < 0.2
      const count = 1 + Math.floor(random() * 20)
      const keys = new Set(Array.from({ length: count }, () => `${producer}/${Math.floor(random() * KEYS)}`))
      for (const key of keys) {
        this.#uncertain.add(key)
        this.#touched.set(key, this.#nextTick())
      }
      const events = [...keys].map(id => ({ at: AT, id, n: turn }))
      while (!(await this.#sent(random, events, isDelete ? 'DELETE' : 'POST'))) {
        this.refused += 1
        await new Promise(resolve => setTimeout(resolve, 100))
      }
      this.acked += 1
      this.#ack.mark()
      for (const key of keys) {
        if (isDelete) this.model.delete(key)
        else this.model.set(key, turn)
        this.#uncertain.delete(key)
      }
    }
  }

  async #sent(random: () => number, events: readonly object[], method: 'POST' | 'DELETE'): Promise<boolean> {
    const node = this.#nodes[Math.floor(random() * this.#nodes.length)]!
    try {
      const answer = await fetch(node.base + new URL(this.#pool.url).pathname, {
        method,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(events),
        signal: AbortSignal.timeout(ANSWER_MS_MAX),
      })
      const text = await answer.text()
      if (answer.status === 200 && answer.headers.get('x-events-rejected') === '0') return true
      if (!this.#refused.includes(answer.status)) throw new WrongAnswer(`${answer.status} ${text}`)
      addOne(this.refusals, refusalOf(answer.status, text))
      return false
    } catch (error) {
      if (error instanceof WrongAnswer) throw error
      addOne(this.refusals, refusalOfError(error as Error))
      return false // the node died, or stands still
    }
  }

  /** Counts at one node. No count may be short of the keys that were there all the time. */
  async #read(index: number): Promise<void> {
    while (!this.#isOver) {
      const sinceTick = this.#nextTick()
      const before = [...this.model.keys()].filter(key => !this.#uncertain.has(key))
      const changing = [...this.#uncertain]
      try {
        const count = Number(await this.#nodes[index]!.count(this.#pool.poolId))
        const certain = before.filter(key => (this.#touched.get(key) ?? 0) < sinceTick)
        const touched = [...this.#touched].filter(([, tick]) => tick > sinceTick).map(([key]) => key)
        const possible = new Set([...before, ...changing, ...touched])
        if (count < certain.length || count > possible.size)
          throw new WrongAnswer(`a count of ${count}, of ${certain.length} to ${possible.size} records`)
        this.answered += 1
        this.#query.mark()
      } catch (error) {
        if (error instanceof WrongAnswer) throw error
        if (error instanceof CounterFailed && error.code !== 'UNAVAILABLE') throw error
        await new Promise(resolve => setTimeout(resolve, 50))
      }
    }
  }

  #nextTick(): number {
    this.#tick += 1
    return this.#tick
  }
}

/** The status and the code of a problem. */
export function refusalOf(status: number, text: string): string {
  return `${status} ${/"code": ?"(\w+)"/.exec(text)?.[1] ?? ''}`.trim()
}

/** The code of a request that was not answered. */
export function refusalOfError({ message, cause }: Error): string {
  return (cause as { code?: string } | undefined)?.code ?? message
}

export function addOne(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

class WrongAnswer extends Error {}

/** The longest time between two marks. */
class Longest {
  #lastMs = performance.now()
  #longestMs = 0

  mark(): void {
    const nowMs = performance.now()
    this.#longestMs = Math.max(this.#longestMs, nowMs - this.#lastMs)
    this.#lastMs = nowMs
  }

  take(): number {
    this.mark()
    const longest = this.#longestMs
    this.#longestMs = 0
    return longest
  }
}
