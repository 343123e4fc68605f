/**
 * A server of one machine and a node on ClickHouse 26.9 get the same events, and are asked the same
 * random questions: each answer, page, export and tail is the same. What may differ stands in
 * src/query/clickhouse/DIFFERENCES.md.
 *
 *   WEIR_TEST_ASKS   the number of questions and exports
 *   WEIR_TEST_SEED   that of an earlier run
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { DataType, tableFromIPC, type Vector } from 'apache-arrow'
import { expect, test } from 'vitest'
import { pick } from '../clients/rows-model.ts'
import { PAGE, type Page, walkPages } from '../clients/walk-pages.ts'
import { isoOf } from '../query/metric-model.ts'
import { ROWS } from '../query/sql/pools.ts'
import { below, newSeed, type Random, randomFrom } from '../util/random.ts'
import { fetchToken, send, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { TailReader } from '../util/tail-reader.ts'
import { atEnd } from './at-end.ts'
import { isModern } from './clickhouse-servers.ts'
import { noModernCluster, startCluster, startModernCluster } from './nodes.ts'
import { type Ask, KNOWN, POOLS, queryOf, randomAsk, randomEvent, randomRows } from './random-asks.ts'

const why = noModernCluster()
if (why !== undefined) process.stdout.write(`skipped: ${why}\n`)

const ASKS = Number(process.env['WEIR_TEST_ASKS'] ?? 150)
const PHASES = Math.min(8, Math.ceil(ASKS / 75))
const AT_ONCE = 6
const EVENTS_MAX = 40
/** The last digits differ by at most this part of the magnitudes that an aggregate is of. */
const LAST_DIGITS = 2 ** -51

/** The pools of RandomStatements. */
const SQL_POOLS = {
  orders: {
    ...{ id: 'INT64', customer: 'INT32', plan: 'STRING', amount: 'DOUBLE' },
    ...{ quantity: 'INT32', paid: 'BOOLEAN', seen: 'TIMESTAMP' },
  },
  customers: { id: 'INT32', name: 'STRING', country: 'STRING', score: 'FLOAT' },
}

const TIME = /\d{4}-\d\d-\d\d[T ]\d\d:\d\d:[\d.]+(?:Z|\+00)/g

/** A server, the addresses of its pools, and the times at which it received their events. */
class Store {
  readonly urls: string[] = []
  readonly #server: TestServer
  #token = ''
  /** A time is its rank: each server has a clock of its own. */
  readonly #ranks = new Map<string, string>()

  constructor(server: TestServer) {
    this.#server = server
  }

  async fill(): Promise<void> {
    const { dataDir, base } = this.#server
    this.#token = await fetchToken(base, dataDir)
    for (const { spec } of POOLS) this.urls.push((await this.#server.createPool(spec)).url)
    for (const [uniqueName, types] of Object.entries(SQL_POOLS)) {
      const columns = Object.entries(types).map(([name, type]) => ({
        name,
        type,
        jsonProperty: name,
        nullable: true,
      }))
      const { url } = await this.#server.createPool({ uniqueName, columns })
      const cellOf = (_: string, cell: unknown) => (typeof cell === 'bigint' ? Number(cell) : cell)
      const { headers } = await send(url, JSON.stringify(ROWS[uniqueName], cellOf))
      expect(headers.get('x-events-rejected')).toBe('0')
    }
  }

  async get(path: string): Promise<Response> {
    const headers = { authorization: `Bearer ${this.#token}` }
    const answer = await fetch(`${this.#server.base}/v1/pools/${path}`, { headers })
    if (answer.status !== 200) throw new Error(`${path}: ${await answer.text()}`)
    return answer
  }

  /** The answer, or the refusal as a text. */
  async ask(query: string, input: object): Promise<unknown> {
    const { data, errors } = await this.#server.graphql<{ answer: unknown }>(query, { input })
    const [error] = errors ?? []
    return error === undefined ? data.answer : `${error.extensions?.code}: ${error.message}`
  }

  /** Takes the times of all rows. */
  async learn(): Promise<void> {
    for (const { spec } of POOLS) {
      const answer = await this.get(`${spec.uniqueName}/export?format=ndjson&columns=_service_received_at`)
      const times = [...new Set((await answer.text()).match(TIME)?.map(plain))].sort()
      for (const [rank, time] of times.entries()) this.#ranks.set(time, `received ${rank} of ${times.length}`)
    }
  }

  /** JSON in which times of receipt are ranks. */
  print(answer: unknown): string {
    return JSON.stringify(answer).replaceAll(TIME, time => this.#ranks.get(plain(time)) ?? time)
  }
}

/** A time in one spelling. DuckDB prints whole seconds without a fraction. */
function plain(time: string): string {
  return time
    .replace(' ', 'T')
    .replace(/Z|\+00/, '')
    .replace(/:\d\d$/, '$&.')
    .padEnd(26, '0')
}

test.skipIf(why !== undefined)(
  'a server and a node of a cluster answer the same',
  async () => {
    const seed = newSeed()
    const cluster = isModern ? await startCluster({ shards: 1, replicas: 1 }) : await startModernCluster()
    const server = await startServer()
    atEnd(async () => void (await server.stop()))
    const stores = [new Store(server), new Store(await cluster.node())] as const
    for (const store of stores) await store.fill()
    const both = new BothStores(stores)
    for (let phase = 0; phase < PHASES; phase += 1) {
      const random = randomFrom(seed + phase)
      await both.change(random)
      for (const ask of KNOWN) await both.ask(ask, random)
      const seeds = Array.from({ length: Math.ceil(ASKS / PHASES) }, () => below(random, 2 ** 31))
      const asking = Array.from({ length: AT_ONCE }, async () => {
        for (let next = seeds.pop(); next !== undefined; next = seeds.pop())
          await both.askAny(randomFrom(next))
      })
      await Promise.all(asking)
      process.stdout.write(`both stores, phase ${phase + 1} of ${PHASES}: ${both.told()}, seed ${seed}\n`)
    }
    expect(both.different.slice(0, 30).join('\n\n'), `seed ${seed}`).toBe('')
  },
  300_000 + ASKS * 4_000,
)

class BothStores {
  readonly #stores: readonly [Store, Store]
  readonly different: string[] = []
  readonly #counts: Record<string, number> = {}
  /** The largest difference of last digits, as a part of LAST_DIGITS. */
  #most = 0

  constructor(stores: readonly [Store, Store]) {
    this.#stores = stores
  }

  told(): string {
    const counts = Object.entries(this.#counts).map(([name, count]) => `${count} ${name}`)
    return `${counts.join(', ')}; at most ${this.#most.toFixed(3)} of what may differ`
  }

  #count(name: string, more = 1): void {
    this.#counts[name] = (this.#counts[name] ?? 0) + more
  }

  #differs(what: string, answers: readonly unknown[]): void {
    const [local, cluster] = answers
    this.different.push(`${what}\n  local   ${local}\n  cluster ${cluster}`)
    process.stdout.write(`${this.different.at(-1)}\n`)
  }

  /** POSTs and DELETEs to each pool, and tails of one POST. */
  async change(random: Random): Promise<void> {
    const tailed: (readonly [path: string, readers: readonly TailReader[]])[] = []
    for (const [pool, { spec }] of POOLS.entries()) {
      const events = () =>
        `[${Array.from({ length: 1 + below(random, EVENTS_MAX) }, () => randomEvent(random)).join()}]`
      await this.#send(pool, events(), 'POST')
      await this.#send(pool, events(), 'DELETE')
      const marker = `marker ${random()}`
      const paths = [0, 1].map(() => `${spec.uniqueName}/tail?${randomRows(random, marker)}`)
      const opened = paths.map(async path => {
        const readers = this.#stores.map(async store => new TailReader(await store.get(path)))
        return [path, await Promise.all(readers)] as const
      })
      const tails = await Promise.all(opened)
      await this.#send(pool, events(), 'POST')
      await this.#send(pool, `[${randomEvent(random, marker)}]`, 'POST')
      for (const reader of tails.flatMap(([, readers]) => readers))
        await reader.until(() => reader.rows.some(row => row['id'] === marker))
      tailed.push(...tails)
    }
    for (const store of this.#stores) await store.learn()
    for (const [path, readers] of tailed) {
      this.#count('tails')
      this.#compareRows(
        path,
        readers.map(({ rows, missed }) => [missed, ...rows]),
      )
    }
  }

  async #send(pool: number, text: string, method: 'POST' | 'DELETE'): Promise<void> {
    const sent = this.#stores.map(async ({ urls }) => {
      const { status, headers, body } = await send(urls[pool]!, text, method)
      this.#count(`${method} ${status}`)
      return JSON.stringify([status, headers.get('x-events-accepted'), body])
    })
    const [local, cluster] = await Promise.all(sent)
    if (local !== cluster) this.#differs(`${method} ${text}`, [local, cluster])
  }

  async askAny(random: Random): Promise<void> {
    if (random() < 0.05) await this.#export(random)
    else await this.ask(randomAsk(random), random)
  }

  async ask(ask: Ask, random: Random): Promise<void> {
    const { kind, input, order } = ask
    this.#count(kind)
    if (kind !== 'DataGrid' && kind !== 'MetricReport') return await this.#compare(ask)
    const query = queryOf(
      kind,
      `${kind === 'DataGrid' ? 'dataGrid' : 'metricReport'}(input: $input) { ${PAGE} }`,
    )
    const walk = below(random, 2 ** 31)
    await this.#compare({ ...ask, input: { ...input, first: 1_000 } })
    if (ask.scale !== undefined) return // each page computes its sums, in whatever order of rows
    const walks = this.#stores.map(async store => {
      const all = await store.ask(query, { ...input, first: 1_000 })
      if (typeof all === 'string') return
      const want = groupsOf((all as Page).rows, order).map(group => group.map(row => JSON.stringify(row)))
      const page = async (more: object) => (await store.ask(query, { ...input, ...more })) as Page
      this.#count('pages', await walkPages(randomFrom(walk), page, want, JSON.stringify(ask)))
    })
    await Promise.all(walks)
  }

  /** Both answer the same; sums of real numbers but for their last digits. */
  async #compare({ kind, input, order, scale }: Ask): Promise<void> {
    const query = queryOf(kind)
    const answers = await Promise.all(this.#stores.map(store => store.ask(query, input)))
    // It is the engine's own on one store and typed on the other: some have a form on one alone.
    const isStatement = kind === 'SqlV1' || kind === 'DescribeSqlV1'
    const refused = answers.filter(answer => typeof answer === 'string')
    if (isStatement && refused.length > 0 && refused.every(text => text.startsWith('BAD_REQUEST: ')))
      return this.#count(`${kind} refused by ${refused.length}`)
    const ofAnswer = (answer: unknown, at: number) => {
      if (typeof answer === 'string') return answer
      if (isStatement) return partOf(answer as SqlAnswer)
      if (kind === 'Leaderboard' && scale !== undefined) return byGroup(answer as Page)
      if (kind !== 'DataGrid') return answer
      const groups = groupsOf((answer as Page).rows, order)
      return groups.map(group => group.map(row => this.#stores[at]!.print(row)).sort())
    }
    const shaped = answers.map(ofAnswer)
    const [local, cluster] = shaped.map((answer, at) => this.#stores[at]!.print(answer))
    if (typeof answers[0] === 'string') this.#count('refused')
    if (local === cluster) return
    if (/^"BAD_REQUEST: .* in a cluster/.test(cluster!)) return this.#count('refused in a cluster')
    if (scale !== undefined) {
      const { first } = input as { readonly first?: number }
      const sizes = ofAnswer(await this.#stores[0].ask(query, { ...scale, ...(first && { first }) }), 0)
      const part = distance(shaped[0], shaped[1], sizes) / LAST_DIGITS
      if (part <= 1) {
        this.#most = Math.max(this.#most, part)
        return this.#count(part > 0 ? 'with other last digits' : 'beyond a DOUBLE')
      }
      process.stdout.write(`${part} of what may differ:\n`)
    }
    this.#differs(JSON.stringify({ kind, input }), [local, cluster])
  }

  async #export(random: Random): Promise<void> {
    const { spec } = pick(random, POOLS)
    const format = pick(random, ['csv', 'ndjson', 'parquet', 'arrow'])
    const route = format === 'arrow' ? 'arrow?' : `export?format=${format}&`
    const path = `${spec.uniqueName}/${route}${randomRows(random)}`
    const files = this.#stores.map(async store => {
      const answer = await store.get(path)
      const rows = await rowsOf(format, new Uint8Array(await answer.arrayBuffer()))
      return [answer.headers.get('content-type'), ...rows]
    })
    this.#count(`exports as ${format}`)
    this.#compareRows(path, await Promise.all(files))
  }

  /** Rows in any order. */
  #compareRows(what: string, lists: readonly (readonly unknown[])[]): void {
    const [local = [], cluster = []] = lists.map((list, at) =>
      list.map(row => this.#stores[at]!.print(row)).sort(),
    )
    const wrong = Array.from({ length: Math.max(local.length, cluster.length) }, (_, at) => at)
    const at = wrong.find(each => local[each] !== cluster[each])
    if (at !== undefined) this.#differs(what, [local[at], cluster[at]])
  }
}

interface SqlAnswer {
  readonly columns: readonly { readonly columnName: string }[]
  readonly rows?: unknown
}

/** Names and rows. Types are the engine's own on one store. */
function partOf({ columns, rows }: SqlAnswer): object {
  return { names: columns.map(({ columnName }) => columnName), rows }
}

/** The value of each group: the order of a leaderboard is that of values. */
function byGroup({ rows }: Pick<Page, 'rows'>): object {
  const pairs = rows.map(row => [JSON.stringify(row.slice(0, -1)), row.at(-1)] as const)
  return Object.fromEntries(pairs.sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Rows beside each other that the order does not tell apart. Without an order each is alone. */
function groupsOf(rows: Page['rows'], order: Ask['order']): Page['rows'][] {
  const groups: Page['rows'][number][][] = []
  let last = ''
  for (const [at, row] of rows.entries()) {
    const place = JSON.stringify(order?.map(column => row[column]) ?? at)
    if (place !== last) groups.push([])
    groups.at(-1)!.push(row)
    last = place
  }
  return groups
}

/**
 * How far two answers are apart, in parts of a third one: infinitely where it is not by digits.
 * Where that has no value, magnitudes add up to more than a DOUBLE, and so may a sum on its way.
 */
function distance(a: unknown, b: unknown, scale: unknown): number {
  if (a === b) return 0
  const [x = null, y = null, size = null] = [a, b, scale]
  if (typeof x === 'object' && typeof y === 'object' && typeof size === 'object') {
    const of = (value: unknown, name: string) => (value as Readonly<Record<string, unknown>> | null)?.[name]
    const names = Object.keys({ ...x, ...y })
    return Math.max(0, ...names.map(name => distance(of(x, name), of(y, name), of(size, name))))
  }
  const numbers = [x, y].map(each => (size === null ? Number(each) : Number(each ?? Number.NaN)))
  const part = Math.abs(numbers[0]! - numbers[1]!) / (size === null ? Number.POSITIVE_INFINITY : Number(size))
  return Number.isNaN(part) ? Number.POSITIVE_INFINITY : part
}

/** The rows of a downloaded file: lines of text, or rows as JSON. */
async function rowsOf(format: string, body: Uint8Array): Promise<unknown[]> {
  if (format === 'arrow') {
    const { batches, schema } = tableFromIPC(body)
    const rows = batches.map(batch =>
      Array.from({ length: batch.numRows }, (_, row) =>
        schema.fields.map((_field, column) => cellOf(batch.getChildAt(column)!, row)),
      ),
    )
    return [String(schema), ...rows.flat()]
  }
  if (format !== 'parquet') return Buffer.from(body).toString().split('\n')
  const file = join(temporaryFolder(), 'rows.parquet')
  writeFileSync(file, body)
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const read = async (sql: string) => (await connection.runAndReadAll(sql)).getRowsJson()
  const rows = [...(await read(`DESCRIBE FROM '${file}'`)), ...(await read(`FROM '${file}'`))]
  connection.closeSync()
  instance.closeSync()
  return rows
}

function cellOf(vector: Vector, row: number): string {
  const value = vector.get(row)
  if (value !== null && DataType.isTimestamp(vector.type))
    return isoOf((vector.data[0]!.values as BigInt64Array)[row]!) // the library reads milliseconds
  return Object.is(value, -0) ? '-0' : String(value)
}
