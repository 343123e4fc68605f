/**
 * The page of `bench -- viewers` asked of peers: ClickHouse 18.16 (ReplacingMergeTree, FINAL) and
 * PostgreSQL (an index by tenant and time). Two things are easier for them than for Weir: nothing
 * is written meanwhile, and clients ask one question after the other without HTTP's way through
 * GraphQL, a policy or a token.
 */
import { quoteText } from '../src/util/sql.ts'
import { BATCH_EVENTS } from './events.ts'
import { latencies, print, row } from './measure.ts'
import { hasClickHouse, startClickHouse } from './peers/clickhouse.ts'
import { hasPostgres, startPostgres } from './peers/postgres.ts'
import { batches, large } from './rows.ts'
import { type PageQuestion, pageOf, TENANTS, tenantName, viewerEvents } from './viewers-page.ts'

const CLIENTS = 16

interface Peer {
  readonly name: string
  load(events: readonly string[]): Promise<void>
  /** Called when all is loaded. */
  ready(): Promise<void>
  /** What asks a question again and again, of one client. */
  asker(question: PageQuestion): Promise<() => Promise<unknown>>
  stop(): Promise<void>
}

/** Asks each peer that is installed for `seconds`. */
export async function askPeers(rows: number, seconds: number): Promise<void> {
  const nowMs = Date.now()
  const questions = Array.from({ length: TENANTS }, (_, tenant) =>
    pageOf('', tenantName(tenant), nowMs),
  ).flat()
  if (hasClickHouse()) await ask(await clickHouse(), rows, seconds, nowMs, questions)
  else print(row('clickhouse', 'not installed (apt-get install clickhouse-server)'))
  if (hasPostgres()) await ask(await postgres(), rows, seconds, nowMs, questions)
  else print(row('postgres', 'not installed (apt-get install postgresql)'))
}

async function ask(
  peer: Peer,
  rows: number,
  seconds: number,
  nowMs: number,
  questions: readonly PageQuestion[],
): Promise<void> {
  try {
    const events = viewerEvents(Math.ceil(rows / BATCH_EVENTS) * BATCH_EVENTS, nowMs)
    for (const batch of large(batches(0, rows, 1, 0, events))) await peer.load(batch)
    await peer.ready()
    print(`\n${peer.name}: ${CLIENTS} clients that ask one question after the other, nothing is written`)
    const ms: number[] = []
    const end = performance.now() + seconds * 1000
    let next = 0
    await Promise.all(
      Array.from({ length: CLIENTS }, async (_, client) => {
        const own = questions.filter((_, at) => at % CLIENTS === client)
        const askers = await Promise.all(own.map(question => peer.asker(question)))
        while (performance.now() < end) {
          const begin = performance.now()
          await askers[next++ % askers.length]?.()
          ms.push(performance.now() - begin)
        }
      }),
    )
    print(row('answers a second', (ms.length / seconds).toFixed(0)))
    print(row('answers', `${ms.length}, ${latencies(ms)}`))
  } finally {
    await peer.stop()
  }
}

async function clickHouse(): Promise<Peer> {
  const server = await startClickHouse()
  await server.query('DROP TABLE events')
  await server.query(`CREATE TABLE viewed (id String, time DateTime, tenant String, type String,
    amount Float64, customer String) ENGINE = ReplacingMergeTree ORDER BY (time, id)`)
  const seconds = (ms: number) => String(Math.floor(ms / 1000))
  return {
    name: 'clickhouse 18.16',
    async load(events) {
      const lines = events.map(text => {
        const event = JSON.parse(text) as { time: string }
        return JSON.stringify({ ...event, time: Math.floor(Date.parse(event.time) / 1000) })
      })
      await server.query(`INSERT INTO viewed FORMAT JSONEachRow ${lines.join('\n')}`)
    },
    async ready() {
      await server.query('OPTIMIZE TABLE viewed FINAL')
    },
    async asker({ sql }) {
      const text = sql(
        ms => `toDateTime(${seconds(ms)})`,
        column => `toStartOfHour(${column})`,
      )
      // 18.16 has no GROUP BY of positions.
      const hourly = text.replace(
        'GROUP BY 1 ORDER BY 1',
        text.includes(' AS h') ? 'GROUP BY h ORDER BY h' : 'GROUP BY type ORDER BY type',
      )
      const own = hourly.replace('GROUP BY 1 ORDER BY 2', 'GROUP BY customer ORDER BY v')
      return () => server.query(`${own.replace('FROM events', 'FROM viewed FINAL')} FORMAT TabSeparated`)
    },
    stop: () => server.stop(),
  }
}

async function postgres(): Promise<Peer> {
  const server = await startPostgres()
  const opened: { close(): void }[] = []
  const run = async (sql: string) => {
    const connection = await server.open(sql)
    await connection.execute()
    connection.close()
  }
  await run(`CREATE TABLE viewed (id text, time timestamptz, tenant text, type text, amount float8,
    customer text, PRIMARY KEY (time, id))`)
  return {
    name: 'postgres',
    async load(events) {
      await run(`INSERT INTO viewed SELECT e->>'id', (e->>'time')::timestamptz, e->>'tenant', e->>'type',
        (e->>'amount')::float8, e->>'customer' FROM json_array_elements(${quoteText(`[${events.join(',')}]`)}::json) e`)
    },
    async ready() {
      await run('CREATE INDEX viewed_tenant ON viewed (tenant, time)')
      await run('VACUUM ANALYZE viewed')
    },
    async asker({ sql }) {
      const text = sql(
        ms => `'${new Date(ms).toISOString()}'`,
        column => `date_trunc('hour', ${column})`,
      )
      const connection = await server.open(text.replace('FROM events', 'FROM viewed'))
      opened.push(connection)
      return () => connection.execute()
    },
    async stop() {
      for (const connection of opened) connection.close()
      await server.stop()
    },
  }
}
