/** Producers of a pool without a unique id, behind a balancer, and exports of it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { fetchToken, send, type TestClient, type TestPool } from '../util/server.ts'
import { addOne, refusalOf, refusalOfError } from './fault-load.ts'

/** Single events and batches of 500 into a pool without a unique id. Nothing is sent again. */
export class PlainLoad {
  /** Of requests that were answered with 200. Those of the others may be there, or not. */
  readonly acked: string[] = []
  readonly refusals = new Map<string, number>()
  readonly #url: string
  #isOver = false
  #sent = 0
  #loops: Promise<void>[] = []

  constructor(url: string) {
    this.#url = url
  }

  start(): void {
    this.#loops = [1, 1, 500].map(size => this.#post(size))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#loops)
  }

  async #post(size: number): Promise<void> {
    while (!this.#isOver) {
      const ids = Array.from({ length: size }, () => `e${++this.#sent}`)
      const events = ids.map(id => ({ id }))
      try {
        const { status, body } = await send(this.#url, size === 1 ? events[0] : events)
        if (status === 200) this.acked.push(...ids)
        else addOne(this.refusals, refusalOf(status, JSON.stringify(body)))
      } catch (error) {
        // The page of a balancer's 502 is no JSON.
        addOne(this.refusals, error instanceof SyntaxError ? '502' : refusalOfError(error as Error))
      }
      await sleep(size / 2)
    }
  }
}

/** Exports one after the other. Each whole one has all that was acknowledged before it, once. */
export class Exports {
  whole = 0
  broken = 0
  readonly #front: TestClient
  readonly #pool: TestPool
  readonly #load: PlainLoad
  #isOver = false
  #loop = Promise.resolve()

  constructor(front: TestClient, pool: TestPool, load: PlainLoad) {
    this.#front = front
    this.#pool = pool
    this.#load = load
  }

  start(): void {
    this.#loop = this.#run()
    this.#loop.catch(() => {}) // stop() tells
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#loop
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const acked = [...this.#load.acked]
      const text = await this.#export().catch(() => undefined)
      if (text === undefined) this.broken += 1
      else {
        const counts = new Map<string, number>()
        for (const line of text.split('\n').filter(each => each !== '')) addOne(counts, line)
        // Nobody sends a POST a second time, and a sender cannot say who it is.
        const wrong = acked.filter(id => counts.get(`{"id":"${id}","sender":"127.0.0.1"}`) !== 1)
        expect(wrong).toEqual([])
        this.whole += 1
      }
      await sleep(500)
    }
  }

  async #export(): Promise<string | undefined> {
    const { base, dataDir } = this.#front
    const authorization = `Bearer ${await fetchToken(base, dataDir)}`
    const url = `${base}/v1/pools/${this.#pool.poolId}/export?format=ndjson&columns=id,sender`
    const answer = await fetch(url, { headers: { authorization } })
    return answer.ok ? await answer.text() : undefined
  }
}
