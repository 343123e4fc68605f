/**
 * A pool beside a model of it: posts, deletions, jobs of every kind, flushes and merges, restarts
 * and kills. After each of them the pool must hold the model's rows.
 *
 * The model applies a job at its creation: rows that are posted later are later in the model too,
 * and the job must not touch them.
 */
import { expect } from 'vitest'
import { AT, post } from '../path/compaction.ts'
import { below, type Random } from '../util/random.ts'
import type { PoolSpec, TestPool, TestServer } from '../util/server.ts'
import { type CreatedJob, createJob, ended } from './rewrite-jobs.ts'

type Row = Readonly<Record<string, string | number | null>>

const column = (name: string, type: string, nullable = true) => ({ name, type, jsonProperty: name, nullable })
const COLUMNS = [
  column('at', 'TIMESTAMP', false),
  column('id', 'STRING', false),
  column('n', 'INT64', false),
  column('word', 'STRING'),
  column('small', 'INT8'),
]

/** The pools that the tests use: by key, by version, by arrival, and without a key. */
export const POOLS: Readonly<Record<string, PoolSpec>> = {
  keyed: { uniqueName: 'keyed', columns: COLUMNS, timestamp: 'at', uniqueId: 'id', tenant: 'word' },
  versioned: {
    uniqueName: 'versioned',
    columns: [...COLUMNS, column('v', 'INT64', false)],
    timestamp: 'at',
    uniqueId: 'id',
    tableSettings: { engine: { replacingMergeTree: { ver: 'v' } }, orderBy: ['at', 'id'] },
  },
  arrivals: { uniqueName: 'arrivals', columns: COLUMNS, uniqueId: 'id' },
  events: { uniqueName: 'events-only', columns: COLUMNS, timestamp: 'at' },
}

/** A condition as SQL and as a function. */
interface Condition {
  readonly sql: string
  readonly matches: (row: Row) => boolean
}

/** New values as SQL and as a function. */
interface Change {
  readonly set: readonly { readonly column: string; readonly expression: string }[]
  readonly of: (row: Row) => Row
}

const numberOf = (row: Row, name: string) => row[name] as number

function conditionOf(random: Random): Condition {
  const k = below(random, 7)
  const word = `w${below(random, 4)}`
  const all: readonly Condition[] = [
    { sql: `n % 7 = ${k}`, matches: row => numberOf(row, 'n') % 7 === k },
    { sql: `word = '${word}'`, matches: row => row['word'] === word },
    { sql: 'word IS NULL', matches: row => row['word'] === null },
    { sql: 'true', matches: () => true },
    { sql: 'n < 0', matches: row => numberOf(row, 'n') < 0 },
    {
      sql: `_service_payload->>'word' = '${word}'`,
      matches: row => row['posted'] === word,
    },
  ]
  return all[below(random, all.length)]!
}

const INT8_MAX = 127

function changeOf(random: Random): Change {
  const by = 1 + below(random, 5)
  const all: readonly Change[] = [
    {
      set: [{ column: 'n', expression: `n + ${by}` }],
      of: row => ({ ...row, n: numberOf(row, 'n') + by }),
    },
    {
      set: [{ column: 'word', expression: "concat(word, '!')" }],
      of: row => ({ ...row, word: row['word'] === null ? '!' : `${row['word']}!` }),
    },
    {
      set: [{ column: 'word', expression: "_service_payload->>'word'" }],
      of: row => ({ ...row, word: row['posted'] ?? null }),
    },
    {
      // A number that does not fit is null.
      set: [
        { column: 'small', expression: `n * ${by}` },
        { column: 'word', expression: 'NULL' },
      ],
      of: row => {
        const small = numberOf(row, 'n') * by
        return { ...row, small: Math.abs(small) <= INT8_MAX ? small : null, word: null }
      },
    },
  ]
  return all[below(random, all.length)]!
}

export class ModelPool {
  readonly pool: TestPool
  readonly #random: Random
  readonly #isKeyed: boolean
  readonly #hasVersions: boolean
  readonly #rows = new Map<string, Row>()
  readonly #jobs: CreatedJob[] = []
  #n = 0

  constructor(pool: TestPool, spec: PoolSpec, random: Random) {
    this.pool = pool
    this.#random = random
    this.#isKeyed = spec.uniqueId !== undefined && spec.timestamp !== undefined
    this.#hasVersions = spec.tableSettings !== undefined
  }

  get rows(): number {
    return this.#rows.size
  }

  /** Posts new rows and new states of old ones. */
  async post(server: TestServer, count = 1 + below(this.#random, 60)): Promise<void> {
    // A row that loses against a version which a deletion then removes stays lost (decision 0051).
    if (this.#hasVersions) await this.jobsEnd(server)
    const events = Array.from({ length: count }, () => this.#event())
    await post(this.#at(server), events)
    for (const { v, ...event } of events) {
      const key = this.#isKeyed ? (event['id'] as string) : `${this.#n++}`
      const before = this.#rows.get(key)
      if (this.#hasVersions && before !== undefined && (before['v'] as number) > v) continue
      const version = this.#hasVersions ? { v } : {}
      this.#rows.set(key, { small: null, ...event, ...version, posted: event['word'] ?? null })
    }
  }

  async deleteSome(server: TestServer): Promise<void> {
    if (!this.#isKeyed) return
    const ids = Array.from({ length: 1 + below(this.#random, 10) }, () => this.#id())
    await post(
      this.#at(server),
      ids.map(id => ({ at: AT, id })),
      'DELETE',
    )
    for (const id of ids) this.#rows.delete(id)
  }

  /** Creates a job. Its effect is in the model at once. */
  async startJob(server: TestServer): Promise<CreatedJob> {
    const condition = conditionOf(this.#random)
    const dataPool = this.pool.poolId
    let job: CreatedJob
    if (this.#random() < 0.4) {
      job = await createJob(server, 'deletion', { dataPool, filterSql: condition.sql })
      for (const [key, row] of this.#rows) if (condition.matches(row)) this.#rows.delete(key)
    } else {
      const change = changeOf(this.#random)
      const filterSql = condition.sql
      job = await createJob(server, 'update', { dataPool, filterSql, set: change.set })
      for (const [key, row] of this.#rows) if (condition.matches(row)) this.#rows.set(key, change.of(row))
    }
    this.#jobs.push(job)
    return job
  }

  /** Waits until every job has SUCCEEDED. */
  async jobsEnd(server: TestServer): Promise<void> {
    for (const job of this.#jobs.splice(0))
      expect(await ended(server, job)).toEqual({ status: 'SUCCEEDED', progress: 1, error: null })
  }

  /** Compares every row. No job may be unfinished. */
  async check(server: TestServer, what: string): Promise<void> {
    const query = `SELECT id, n, word, small, _service_payload->>'word' AS posted FROM "${this.pool.poolId}"`
    const { data, errors } = await server.graphql<{ sqlV1: { rows: (string | null)[][] } }>(
      'query ($input: SqlV1Input!) { sqlV1(input: $input) { rows } }',
      { input: { query } },
    )
    expect(errors, what).toBeUndefined()
    const text = (value: string | number | null | undefined) => (value === null ? null : String(value))
    const wanted = [...this.#rows.values()].map(({ id, n, word, small, posted }) =>
      [id, n, word, small, posted].map(text),
    )
    const sorted = (rows: readonly (readonly (string | null)[])[]) =>
      rows.map(row => JSON.stringify(row)).sort()
    expect(sorted(data.sqlV1.rows), what).toEqual(sorted(wanted))
    expect(await server.count(this.pool.poolId), what).toBe(String(this.#rows.size))
  }

  /** The pool at the address of a restarted server. */
  #at(server: TestServer): TestPool {
    return { ...this.pool, url: server.base + new URL(this.pool.url).pathname }
  }

  #id(): string {
    return `e${below(this.#random, 400)}`
  }

  #event() {
    const word = below(this.#random, 5)
    return {
      at: AT,
      id: this.#id(),
      n: below(this.#random, 50),
      word: word === 4 ? null : `w${word}`,
      v: below(this.#random, 8),
    }
  }
}
