/**
 * Clients that post, update and delete beside cut-overs, and know what a pool must hold afterwards.
 *
 * Every event has the properties of all columns that are ever added, so a row tells by its nulls
 * which schema parsed it.
 */
import { gzipSync } from 'node:zlib'
import { resolvesWithin } from '../../src/util/clock.ts'
import type { CrossRow } from '../util/cross-read.ts'
import { below, type Random } from '../util/random.ts'
import type { PoolSpec, TestPool, TestServer } from '../util/server.ts'

export const KEYED: PoolSpec = {
  uniqueName: 'cut',
  columns: [
    { name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false },
    { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
    { name: 'n', jsonProperty: 'n', type: 'INT64', nullable: false },
  ],
  timestamp: 'at',
  uniqueId: 'id',
}

const AT = '2026-03-04T05:06:07Z'

/** The name of the k-th added column. Its value is k in every event. */
export const columnName = (k: number) => `c${k}`

/** A connection breaks because the server was killed. It ends within this time. */
const ENDS_MS_MAX = 10_000

type Wanted = { readonly n: number } | 'gone'

/** The last acknowledged state of an id, and states that unanswered requests may have made. */
interface Known {
  acknowledged: Wanted
  inDoubt: Wanted[]
}

export class CutOverLoad {
  readonly #random: Random
  readonly #extra: Record<string, number>
  readonly #ids = new Map<string, Known>()
  readonly #clients: Promise<void>[] = []
  #server: TestServer | undefined
  #onServer: () => void = () => {}
  #pool: TestPool
  #isStopping = false
  #n = 0
  /** Answers other than 200, but for the 503 of a server that is told to stop. */
  readonly refused: string[] = []
  acknowledged = 0

  constructor(server: TestServer, pool: TestPool, random: Random, columns: number) {
    this.#server = server
    this.#pool = pool
    this.#random = random
    this.#extra = Object.fromEntries(Array.from({ length: columns }, (_, i) => [columnName(i + 1), i + 1]))
  }

  start(clients: number): void {
    for (let client = 0; client < clients; client++) this.#clients.push(this.#run(client))
  }

  /** The server is killed or stopped: clients whose requests fail wait for the next one. */
  serverGone(): void {
    this.#server = undefined
  }

  serverBack(server: TestServer): void {
    this.#server = server
    const wake = this.#onServer
    this.#onServer = () => {}
    wake()
  }

  /** Ends the clients after their present requests. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all(this.#clients)
  }

  /** Resolves when `count` more requests are acknowledged. */
  async more(count: number): Promise<void> {
    const until = this.acknowledged + count
    while (this.acknowledged < until) await new Promise<void>(resolve => setImmediate(resolve))
  }

  async #run(client: number): Promise<void> {
    const own: string[] = []
    for (let turn = 0; !this.#isStopping; turn++) {
      if (this.#server === undefined) await this.#backAgain()
      const choice = this.#random()
      if (choice < 0.7 || own.length < 20) {
        const ids = Array.from({ length: 1 + below(this.#random, 20) }, (_, i) => `${client}-${turn}-${i}`)
        own.push(...ids)
        await this.#post(ids)
      } else if (choice < 0.85) await this.#post(this.#some(own))
      else await this.#delete(this.#some(own))
    }
  }

  /** A few different ids. */
  #some(own: readonly string[]): string[] {
    return [...new Set(Array.from({ length: 5 }, () => own[below(this.#random, own.length)]!))]
  }

  async #post(ids: readonly string[]): Promise<void> {
    this.#n += 1
    const n = this.#n
    const events = ids.map(id => ({ at: AT, id, n, ...this.#extra }))
    await this.#ask('POST', events, ids, { n })
  }

  async #delete(ids: readonly string[]): Promise<void> {
    await this.#ask(
      'DELETE',
      ids.map(id => ({ at: AT, id })),
      ids,
      'gone',
    )
  }

  async #ask(method: 'POST' | 'DELETE', body: unknown, ids: readonly string[], wanted: Wanted) {
    const known = ids.map(id => {
      const one = this.#ids.get(id) ?? { acknowledged: 'gone', inDoubt: [] }
      this.#ids.set(id, one)
      return one
    })
    const server = this.#server
    if (server === undefined) return
    try {
      // The port changes with each start.
      const url = server.base + new URL(this.#pool.url).pathname
      const answer = await fetch(url, { method, ...this.#encoded(body) })
      const [status, text] = [answer.status, await answer.text()]
      if (status === 200) {
        this.acknowledged += 1
        for (const one of known) Object.assign(one, { acknowledged: wanted, inDoubt: [] })
      } else if (status !== 503 || this.#server === server) this.refused.push(`${status} ${text}`)
    } catch (error) {
      // The server may have logged the request before it was killed.
      for (const one of known) one.inDoubt.push(wanted)
      if (!(await resolvesWithin(ENDS_MS_MAX, server.ended))) this.refused.push((error as Error).message)
      else if (this.#server === server) this.#server = undefined
    }
  }

  /** Bodies as they are, inflated by the parse workers, and too large to share a slab. */
  #encoded(body: unknown): RequestInit {
    const text = JSON.stringify(body)
    const choice = this.#random()
    const json = { 'content-type': 'application/json' }
    if (choice < 0.1) return { body: gzipSync(text), headers: { ...json, 'content-encoding': 'gzip' } }
    return { body: choice < 0.15 ? text + ' '.repeat(100_000) : text, headers: json }
  }

  #backAgain(): Promise<void> {
    return new Promise(resolve => {
      const before = this.#onServer
      this.#onServer = () => {
        before()
        resolve()
      }
    })
  }

  /**
   * The first difference between the rows and the clients' knowledge, or undefined if they agree.
   * @param cutOvers the sequence of each added column, in their order
   */
  check(rows: readonly CrossRow[], cutOvers: readonly number[]): string | undefined {
    const found = new Map(rows.map(row => [row['id'], row]))
    if (found.size !== rows.length) return `${rows.length} rows have ${found.size} ids`
    for (const [id, { acknowledged, inDoubt }] of this.#ids) {
      const row = found.get(id)
      const isOne = [acknowledged, ...inDoubt].some(wanted =>
        wanted === 'gone' ? row === undefined : row?.['n'] === String(wanted.n),
      )
      if (!isOne)
        return `${id} is ${JSON.stringify(row)}, not one of ${JSON.stringify([acknowledged, ...inDoubt])}`
      found.delete(id)
    }
    if (found.size > 0) return `nobody posted ${[...found.keys()].slice(0, 3).join()}`
    for (const row of rows) {
      const problem = mixed(row, cutOvers)
      if (problem !== undefined) return problem
    }
    return undefined
  }
}

/** The problem with the columns of a row: exactly those below its sequence have their value. */
function mixed(row: CrossRow, cutOvers: readonly number[]): string | undefined {
  const sequence = Number(row['_service_sequence'])
  for (const [index, cutOver] of cutOvers.entries()) {
    const value = row[columnName(index + 1)] ?? null
    const wanted = sequence >= cutOver ? String(index + 1) : null
    if (value !== wanted)
      return `sequence ${sequence}, column ${columnName(index + 1)} of cut-over ${cutOver}: ${value}, not ${wanted}`
  }
  return undefined
}
