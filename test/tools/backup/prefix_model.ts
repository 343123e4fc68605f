/**
 * Writers with a known history: each does one operation after the other. A consistent copy has a
 * prefix of every writer's operations, and with an operation all that were answered before it
 * began.
 */
import { performance } from 'node:perf_hooks'
import { send, type TestPool } from '../../util/server.ts'

const IDS = 12

/** When an operation began and when it was answered, ms. */
interface Done {
  readonly beginMs: number
  readonly ackMs: number
}

export class Writer {
  readonly name: string
  readonly #pool: TestPool
  readonly done: Done[] = []
  /** Operations begun. */
  begun = 0
  #isStopped = false
  #running: Promise<void> = Promise.resolve()

  constructor(name: string, pool: TestPool) {
    this.name = name
    this.#pool = pool
  }

  start(): void {
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      const beginMs = performance.now()
      this.begun += 1
      const { method, body } = this.#operation(this.begun - 1)
      const { status } = await send(this.#pool.url, body, method)
      if (status !== 200) throw new Error(`${this.name}: operation ${this.begun - 1} answered ${status}`)
      this.done.push({ beginMs, ackMs: performance.now() })
    }
  }

  /** Operation k: mostly a post of two ids with n = k, now and then a delete of one. */
  #operation(k: number): { method: 'POST' | 'DELETE'; body: object[] } {
    const event = (id: number) => ({ ts: '2026-01-01', id: this.id(id), n: k })
    if (k % 5 === 4) return { method: 'DELETE', body: [event((k * 7) % IDS)] }
    return { method: 'POST', body: [event(k % IDS), event((k * 5 + 3) % IDS)] }
  }

  id(id: number): string {
    return `${this.name}-${id}`
  }

  /** Every id. */
  ids(): string[] {
    return Array.from({ length: IDS }, (_, id) => this.id(id))
  }

  /** The rows after the first `operations` operations: n by id, as text. */
  stateAfter(operations: number): string {
    const rows = new Map<string, number>()
    for (let k = 0; k < operations; k++) {
      const { method, body } = this.#operation(k)
      for (const { id, n } of body as { id: string; n: number }[])
        if (method === 'POST') rows.set(id, n)
        else rows.delete(id)
    }
    return textOf(rows)
  }
}

/** Rows as text, in the order of their ids. */
export function textOf(rows: ReadonlyMap<string, number>): string {
  return JSON.stringify([...rows].sort(([a], [b]) => (a < b ? -1 : 1)))
}
