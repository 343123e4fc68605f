/**
 * Question: how fast is each kind of question over many rows, beside DuckDB on the same files,
 * ClickHouse and PostgreSQL?
 *
 *   clean         the rows as they were posted; peers are asked too
 *   1 % and 10 %  so many rows were superseded: posted once more with another quantity
 *   under load    while other pools take events at full speed
 *   many clients  queries a second of one counter over one tenant, while an event is posted each 10
 *                 ms; with no allowed staleness, and with 100 ms of it
 *
 * A time is what a client waits: the median of some asks after the first one, which is `cold`.
 * DuckDB reads Weir's own Parquet files without their deleted rows, with as many threads; from the
 * second state on its answers hold the superseded rows too. ClickHouse has a ReplacingMergeTree and
 * answers with FINAL; its times have whole seconds. `node` is Weir on ClickHouse 26.9 (chdb), where
 * there is one. Server, peers and the bench share the cores.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { must } from '../src/util/errors.ts'
import { quoteText } from '../src/util/sql.ts'
import { endAll } from '../test/cluster/at-end.ts'
import { noModernCluster, startModernCluster } from '../test/cluster/nodes.ts'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS } from './events.ts'
import { flood } from './flood.ts'
import { everyMs, median, print, quantileOf, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { hasClickHouse, startClickHouse } from './peers/clickhouse.ts'
import { hasPostgres, startPostgres } from './peers/postgres.ts'
import type { PostgresConnection } from './peers/postgres-connection.ts'
import { QUESTIONS, type Question } from './query-questions.ts'
import { batches, eventOf, large, post, settled } from './rows.ts'
import { keyedPool, startWeir } from './weir.ts'

const TRICKLE_MS = 10

/** Options of the command line, as text; `no-peers` is a flag. */
interface QueryOptions {
  readonly rows?: string | undefined
  readonly rounds?: string | undefined
  readonly seconds?: string | undefined
  readonly connections?: string | undefined
  readonly only?: string | undefined
  readonly 'no-peers'?: boolean | undefined
}

/** Something that answers questions. */
interface Asked {
  readonly name: string
  ask(question: Question): Promise<unknown>
  stop(): Promise<void>
}

/** A loaded peer, which takes superseding rows too. */
interface Peer extends Asked {
  load(from: number, to: number, step: number, round: number): Promise<void>
}

/**
 * Runs with `rows` (10M), `rounds` (7) asks of each question in each state, and `seconds` (10) of
 * many clients. `only` names questions by a part of their name.
 */
export async function benchQuery(options: QueryOptions): Promise<void> {
  const rows = Math.ceil(numberOf('rows', options.rows, 10_000_000) / BATCH_EVENTS) * BATCH_EVENTS
  const rounds = numberOf('rounds', options.rounds, 7)
  const seconds = numberOf('seconds', options.seconds, 10)
  const connections = numberOf('connections', options.connections, 16)
  const questions = QUESTIONS(rows).filter(({ name }) => name.includes(options.only ?? ''))
  print(`query: ${rows} rows, ${rounds} asks of each question`)
  const server = await startWeir()
  const pool = await keyedPool(server)
  const peers = options['no-peers'] === true ? [] : await openPeers()
  await post(pool.url, 0, rows, 1, 0)
  await settled(server, pool, rows)
  for (const peer of peers) await peer.load(0, rows, 1, 0)
  const weir = askWeir(server, pool.poolId)
  await state('clean', server, pool, [weir, ...peers], questions, rounds)
  for (const [name, step] of [
    ['1 % superseded', 100],
    ['10 % superseded', 10],
  ] as const) {
    await post(pool.url, 0, rows, step, step)
    await settled(server, pool, rows)
    for (const peer of peers) await peer.load(0, rows, step, step)
    await state(name, server, pool, [weir, ...peers], questions, rounds)
  }
  for (const peer of peers) await peer.stop()
  await underLoad(server, weir, questions, seconds, connections)
  await manyClients(server, pool, seconds, 16)
  await manyClients(server, pool, seconds, 64)
  await server.stop()
  const stale = await startWeir({ dataDir: server.dataDir, env: { WEIR_STALENESS_MS: '100' } })
  print('\nwith 100 ms of allowed staleness')
  await manyClients(stale, { ...pool, url: stale.base + new URL(pool.url).pathname }, seconds, 64)
  const end = await stale.stop()
  print(row('stopped', `${end.code ?? end.signal}`))
}

function askWeir(server: TestServer, poolId: string): Asked {
  return {
    name: 'weir',
    async ask({ document, input }) {
      const variables = { input: input(poolId) }
      const answer = await server.graphql<unknown>(document, variables)
      if (answer.errors !== undefined) throw new Error(JSON.stringify(answer.errors))
      return answer.data
    },
    async stop() {},
  }
}

/** DuckDB on the files that the pool has. */
async function askDuckdb(server: TestServer, { poolId }: TestPool): Promise<Asked> {
  const folder = join(server.dataDir, 'segment', poolId)
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' })
  const connection = await instance.connect()
  await connection.run("SET TimeZone = 'UTC'")
  await connection.run('SET parquet_metadata_cache = true')
  await connection.run('SET preserve_insertion_order = false')
  const look = async () => {
    const files = readdirSync(folder)
      .filter(name => name.endsWith('.parquet'))
      .map(name => quoteText(join(folder, name)))
    await connection.run(`CREATE OR REPLACE VIEW events AS SELECT * FROM read_parquet([${files.join(', ')}])`)
  }
  await look()
  const run = async (sql: string) => (await connection.run(sql)).getRows()
  return {
    name: 'duckdb',
    ask: ({ sql }) =>
      run(sql.duckdb).catch(async () => {
        // A late merge has replaced a file.
        await look()
        return run(sql.duckdb)
      }),
    async stop() {
      connection.closeSync()
      instance.closeSync()
    },
  }
}

async function openPeers(): Promise<Peer[]> {
  const peers: Peer[] = []
  if (hasClickHouse()) peers.push(await clickHousePeer())
  else print(row('clickhouse', 'not installed (apt-get install clickhouse-server)'))
  if (hasPostgres()) peers.push(await postgresPeer())
  else print(row('postgres', 'not installed (apt-get install postgresql)'))
  const noNode = noModernCluster()
  if (noNode === undefined) peers.push(await nodePeer())
  else print(row('node', noNode))
  return peers
}

/** Weir as a node of a cluster. */
async function nodePeer(): Promise<Peer> {
  const node = await (await startModernCluster()).node()
  const { poolId, url } = await keyedPool(node)
  return {
    ...askWeir(node, poolId),
    name: 'node',
    load: (from, to, step, round) => post(url, from, to, step, round),
    async stop() {
      await node.stop()
      await endAll()
    },
  }
}

async function clickHousePeer(): Promise<Peer> {
  const server = await startClickHouse()
  await server.query(`CREATE TABLE latest (id String, time DateTime, tenant String, type String,
    amount Float64, quantity Int64, payload String, round UInt16)
    ENGINE = ReplacingMergeTree(round) ORDER BY (time, id)`)
  return {
    name: 'clickhouse',
    ask: ({ sql }) => server.query(`${must(sql.clickHouse, 'its SQL')} FORMAT TabSeparated`),
    async load(from, to, step, round) {
      for (const batch of large(batches(from, to, step, round)))
        await server.query(
          `INSERT INTO latest FORMAT JSONEachRow ${batch.map(event => clickHouseRow(event, round)).join('\n')}`,
        )
    },
    stop: () => server.stop(),
  }
}

function clickHouseRow(text: string, round: number): string {
  const { id, time, tenant, type, amount, quantity } = JSON.parse(text) as Record<string, unknown>
  const seconds = Math.floor(Date.parse(String(time)) / 1000)
  return JSON.stringify({ id, time: seconds, tenant, type, amount, quantity, payload: text, round })
}

async function postgresPeer(): Promise<Peer> {
  const server = await startPostgres()
  const run = async (sql: string) => {
    const connection = await server.open(sql)
    await connection.execute()
    connection.close()
  }
  const prepared = new Map<string, PostgresConnection>()
  await run(`CREATE TABLE latest (id text, time timestamptz, tenant text, type text, amount float8,
    quantity bigint, payload text, PRIMARY KEY (time, id))`)
  return {
    name: 'postgres',
    async ask({ sql }) {
      const own = must(sql.postgres, 'its SQL')
      const connection = prepared.get(own) ?? (await server.open(own))
      prepared.set(own, connection)
      await connection.execute()
    },
    async load(from, to, step, round) {
      for (const batch of large(batches(from, to, step, round)))
        await run(
          `INSERT INTO latest SELECT e->>'id', (e->>'time')::timestamptz, e->>'tenant', e->>'type',
            (e->>'amount')::float8, (e->>'quantity')::bigint, e::text
          FROM json_array_elements(${quoteText(`[${batch.join(',')}]`)}::json) e
          ON CONFLICT (time, id) DO UPDATE SET quantity = excluded.quantity, payload = excluded.payload`,
        )
      await run('CREATE INDEX IF NOT EXISTS latest_tenant ON latest (tenant, time)')
      await run('VACUUM ANALYZE latest')
    },
    async stop() {
      for (const connection of prepared.values()) connection.close()
      await server.stop()
    },
  }
}

/** Asks everything of everyone in turn, and prints a table. */
async function state(
  name: string,
  server: TestServer,
  pool: TestPool,
  asked: readonly Asked[],
  questions: readonly Question[],
  rounds: number,
): Promise<void> {
  const duckdb = await askDuckdb(server, pool)
  const [weir, ...peers] = asked
  const all = [...(weir === undefined ? [] : [weir]), duckdb, ...peers]
  print(
    `\n${name.padEnd(34)}${all.map(one => `${one.name} ms (cold)`.padStart(22)).join('')}   weir : duckdb`,
  )
  for (const question of questions) {
    const knowing = question.sql.postgres === undefined ? all.slice(0, 2) : all
    const times = knowing.map((): number[] => [])
    for (let ask = 0; ask <= rounds; ask++)
      for (const [index, one] of knowing.entries()) {
        const begin = performance.now()
        await one.ask(question)
        times[index]?.push(performance.now() - begin)
      }
    const cells = times.map(([cold = 0, ...warm]) => `${median(warm).toFixed(1)} (${cold.toFixed(0)})`)
    const [own = 0, bare = 1] = times.map(([, ...warm]) => median(warm))
    print(
      `${question.name.padEnd(34)}${cells.map(cell => cell.padStart(22)).join('')}   ${(own / bare).toFixed(2)} ×`,
    )
  }
  await duckdb.stop()
}

/** Asks every question again and again while other pools take events at full speed. */
async function underLoad(
  server: TestServer,
  weir: Asked,
  questions: readonly Question[],
  seconds: number,
  connections: number,
): Promise<void> {
  const other = await keyedPool(server)
  const loading = flood({ kind: 'fill', seconds, url: other.url, connections }, () => {})
  const times = new Map<string, number[]>()
  const end = performance.now() + seconds * 1000
  while (performance.now() < end)
    for (const question of questions) {
      const begin = performance.now()
      await weir.ask(question)
      times.set(question.name, [...(times.get(question.name) ?? []), performance.now() - begin])
    }
  const done = await loading
  print(`\nunder load, ${short(done.events / done.seconds)} events/s meanwhile`)
  for (const [name, all] of times)
    print(
      row(name, `p50 ${median(all).toFixed(0)} ms, max ${Math.max(...all).toFixed(0)} ms, of ${all.length}`),
    )
}

/** One counter over one tenant, from many clients, while events trickle into the pool. */
async function manyClients(
  server: TestServer,
  { poolId, url }: TestPool,
  seconds: number,
  clients: number,
): Promise<void> {
  const times: number[] = []
  const end = performance.now() + seconds * 1000
  const ask = async (client: number) => {
    for (let number = 0; performance.now() < end; number++) {
      const tenant = `tenant-${String((client * 61 + number) % 1000).padStart(4, '0')}`
      const begin = performance.now()
      await server.sum(poolId, 'quantity', {
        filters: [{ column: 'tenant', operator: 'EQUALS', value: tenant }],
      })
      times.push(performance.now() - begin)
    }
  }
  const headers = { 'content-type': 'application/json' }
  const trickle = async () => {
    await fetch(url, { method: 'POST', headers, body: eventOf(0, 1) })
  }
  await Promise.all([
    ...Array.from({ length: clients }, (_, client) => ask(client)),
    everyMs(TRICKLE_MS, end, trickle),
  ])
  const rate = (times.length / seconds).toFixed(0)
  print(
    row(
      `a tenant's counter, ${clients} clients`,
      `${rate} queries/s, p50 ${median(times).toFixed(0)} ms, p99 ${quantileOf(times, 0.99).toFixed(0)} ms`,
    ),
  )
}
