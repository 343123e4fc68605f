/**
 * Question: what does one application's load do to another application's requests? `--server` names
 * the folder of another checkout that was set up, such as an older commit's.
 *
 *   attackers   one, two or three applications with the largest propeller, over a pool of 5M rows
 *   reader      another application with the smallest: counters, statements, exports, lists
 *   producer    single events
 *
 * A request has failed if its status is not 200, if GraphQL answers errors, or after a minute.
 * Goal: below capacity none of the reader fails, and p99 of its short questions is at most 2 s. The
 * last line of an attack says what became of the attack's own requests.
 */
import { join } from 'node:path'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { eventId } from './events.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { print, quantileOf, sleep } from './measure.ts'
import { numberOf, Usage } from './options.ts'
import { ANSWER_MS_MAX, application, asked, failures, mainOf, type Repeated } from './readers.ts'
import { postEvent } from './readers-attacks.ts'
import { post, settled } from './rows.ts'
import { keyedPool, startWeir } from './weir.ts'

interface StarvationOptions {
  readonly server?: string | undefined
  readonly seconds?: string | undefined
  readonly only?: string | undefined
  readonly rows?: string | undefined
}

const ROWS = 5_000_000
const SMALL_ROWS = 500
const DASHBOARDS = 200
const DASHBOARD_MS = 5_000
/** The time of the slow statement is measured with as many rows as take at least this. */
const SAMPLE_MS = 500
/** A client that was refused tries again after this. */
const AGAIN_MS = 50
const LARGE = 'P1_X_LARGE'

interface Attack {
  readonly server: TestServer
  /** Tokens of three applications with the largest propeller. */
  readonly tokens: readonly [string, string, string]
  readonly pool: TestPool
  /** A statement that takes so many seconds alone. */
  readonly slow: (seconds: number) => string
}

interface Attacker {
  readonly name: string
  /** What its clients ask, each again and again. A request rejects where it has failed. */
  readonly requests: (attack: Attack) => readonly (() => Promise<void>)[]
  /** The time from one begin to the next. Absent: a client asks again when it has the answer. */
  readonly everyMs?: number
}

const ATTACKERS: readonly Attacker[] = [
  { name: 'calm', requests: () => [] },
  {
    name: '16 × a document of 200 counters',
    requests: ({ server, tokens: [token], pool }) =>
      times(16, () =>
        graphql(
          server,
          token,
          aliased(200, n => counter(pool, n % 20)),
        ),
      ),
  },
  {
    name: '8 × 20 recordsByUniqueId',
    requests: ({ server, tokens: [token], pool }) => {
      const ids = JSON.stringify(times(200, n => eventId(0, n * 7)))
      const columns = '["id", "time", "tenant", "type", "amount", "quantity"]'
      const field = `recordsByUniqueId(input: { dataPool: { id: "${pool.poolId}" }, columns: ${columns}, uniqueIds: ${ids} }) { columns values }`
      return times(8, () =>
        graphql(
          server,
          token,
          aliased(20, () => field),
        ),
      )
    },
  },
  {
    name: 'topValues beside 5 s statements',
    requests: ({ server, tokens: [token], pool, slow }) => {
      const top = `topValues(input: { dataPool: { id: "${pool.poolId}" }, columnName: "type", maxValues: 10, timeRange: {} }) { values }`
      return times(4, () => graphql(server, token, `{ ${top} s: ${statement(slow(5))} }`))
    },
  },
  {
    name: 'two applications, statements of 10 s alone',
    requests: ({ server, tokens, slow }) =>
      tokens
        .slice(0, 2)
        .flatMap(token =>
          times(2, () => () => asked(server, token, '/v1/query', { sqlV1: { query: slow(10) } })),
        ),
  },
  {
    name: '160 requests of two applications',
    requests: ({ server, tokens, slow }) =>
      tokens
        .slice(0, 2)
        .flatMap(token => times(80, () => graphql(server, token, `{ s: ${statement(slow(1))} }`))),
  },
  {
    name: 'three applications of hostile statements',
    requests: ({ server, tokens, pool }) => {
      const statements = hostile(`"${pool.poolId}"`)
      return tokens.flatMap((token, application) =>
        times(4, client => {
          let next = application * 4 + client
          return () => {
            const query = statements[next++ % statements.length]
            return asked(server, token, '/v1/query', { sqlV1: { query } })
          }
        }),
      )
    },
  },
  {
    name: '200 dashboards × 6 counters, each 5 s',
    everyMs: DASHBOARD_MS,
    requests: ({ server, tokens: [token], pool }) =>
      times(DASHBOARDS * 6, n => graphql(server, token, `{ ${counter(pool, n % 6)} }`)),
  },
  {
    name: '200 dashboards, 6 counters in one document',
    everyMs: DASHBOARD_MS,
    requests: ({ server, tokens: [token], pool }) =>
      times(DASHBOARDS, () =>
        graphql(
          server,
          token,
          aliased(6, n => counter(pool, n)),
        ),
      ),
  },
]

/** Runs each attack for `seconds` (20), `only` those with a text in their name. */
export async function benchStarvation(options: StarvationOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 20)
  const rows = numberOf('rows', options.rows, ROWS)
  const attackers = ATTACKERS.filter(({ name }) => name.includes(options.only ?? ''))
  if (attackers.length === 0)
    throw new Usage(
      `--only ${options.only}: no attack has this in its name:\n${ATTACKERS.map(one => one.name).join('\n')}`,
    )
  const main = mainOf(options.server)
  const folder = benchFolder('weir-starvation-')
  const server = await startWeir({ dataDir: join(folder, 'data'), ...(main === undefined ? {} : { main }) })
  try {
    const pool = await keyedPool(server)
    await post(pool.url, 0, rows, 1, 0)
    await settled(server, pool, rows)
    const small = await server.createPool({ uniqueName: 'small' })
    await postEvent(
      small,
      times(SMALL_ROWS, n => ({ n })),
    )
    const slow = await slowStatement(server, pool, rows)
    print(`${main ?? 'this build'}; each attack for ${seconds} s; goals: 0 failed, p99 <= 2000 ms`)
    print(line('attack', 'of another application', 'requests', 'failed', 'p50 ms', 'p99 ms'))
    for (const attacker of attackers) {
      const token = () => application(server, LARGE)
      const tokens = [await token(), await token(), await token()] as const
      await underAttack(attacker, { server, tokens, pool, slow }, small, seconds)
    }
  } finally {
    await server.kill()
    removeFolder(folder)
  }
}

async function underAttack(
  { name, everyMs = 0, requests }: Attacker,
  attack: Attack,
  small: TestPool,
  seconds: number,
): Promise<void> {
  const { server } = attack
  const token = await application(server)
  const endMs = performance.now() + seconds * 1000
  const own: Repeated = { ms: [], errors: new Map() }
  const load = requests(attack).map(request => loop(endMs, everyMs, request, own))
  const ask = (body: object) => () => asked(server, token, '/v1/query', body)
  // Without a filter the manifest answers, and no query runs.
  const filters = [{ column: '_service_received_at', operator: 'IS_NOT_NULL' }]
  const count = { counter: { metric: { count: { dataPool: { name: 'small' } } }, filters } }
  const probes = {
    counters: loop(endMs, 200, ask(count)),
    statements: loop(
      endMs,
      500,
      ask({ sqlV1: { query: "SELECT count(*) AS n FROM small WHERE _service_received_at > '2020-01-01'" } }),
    ),
    exports: loop(endMs, 1_000, () => asked(server, token, '/v1/pools/small/export?format=csv')),
    'GraphQL lists': loop(endMs, 200, graphql(server, token, '{ dataPools(first: 20) { nodes { id } } }')),
    posts: loop(endMs, 50, () => postEvent(small, { n: 1 })),
  }
  for (const [kind, done] of Object.entries(probes)) printFigures(name, kind, await done)
  await Promise.all(load)
  if (load.length > 0) printFigures(name, '(the attack itself)', own)
}

/** Does something each `everyMs`, or as soon as the one before has ended, until `endMs`. */
async function loop(
  endMs: number,
  everyMs: number,
  work: () => Promise<void>,
  done: Repeated = { ms: [], errors: new Map() },
): Promise<Repeated> {
  while (performance.now() < endMs) {
    const beganMs = performance.now()
    let pauseMs = everyMs
    try {
      await work()
      done.ms.push(performance.now() - beganMs)
    } catch (error) {
      const { message } = error as Error
      done.errors.set(message, (done.errors.get(message) ?? 0) + 1)
      pauseMs = Math.max(everyMs, AGAIN_MS)
    }
    await sleep(beganMs + pauseMs - performance.now())
  }
  return done
}

function printFigures(attack: string, kind: string, done: Repeated): void {
  const requests = done.ms.length + Number(failures(done))
  const at = (quantile: number) => quantileOf(done.ms, quantile).toFixed(0)
  print(line(attack, kind, String(requests), failures(done), at(0.5), at(0.99)))
  for (const [text, count] of done.errors) print(`    ${count} × ${text.slice(0, 140)}`)
}

/** Statements that are allowed, and take all of a processor, of memory or of the disk. */
function hostile(pool: string): readonly string[] {
  const text = '_service_payload'
  return [
    // Products.
    `SELECT count(*) FROM ${pool} a, ${pool} b WHERE a.quantity + b.quantity > 1000`,
    `SELECT count(DISTINCT a.${text} || b.id) FROM ${pool} a, ${pool} b`,
    // Recursion without an end: of one row, and of twice as many each time.
    'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r',
    'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + j FROM r, range(2) t(j)) SELECT count(*) FROM r',
    // Windows over all rows, in one part.
    `SELECT max(n) FROM (SELECT sum(amount) OVER (ORDER BY ${text}, id) AS n FROM ${pool})`,
    `SELECT max(n) FROM (SELECT quantile_cont(amount, 0.9) OVER (ORDER BY time ROWS 100000 PRECEDING EXCLUDE TIES) AS n FROM ${pool})`,
    // Regular expressions over long texts.
    `SELECT count(*) FROM ${pool} WHERE regexp_matches(${text}, '(.*[a-z]){9}.*~$')`,
    `SELECT sum(length(regexp_replace(repeat(${text}, 100), '(\\w+)\\W+(\\w+)', '\\2 \\1', 'g'))) FROM ${pool}`,
    // Lambdas in lambdas.
    `SELECT sum(list_sum(list_transform(range(1000), x -> list_sum(list_transform(range(1000), y -> x * y + quantity))))) FROM ${pool}`,
    // Lists and texts of all rows.
    `SELECT len(list(${text} ORDER BY ${text} DESC)) FROM ${pool}`,
    `SELECT type, length(string_agg(${text}, '')), len(map_keys(histogram(${text}))) FROM ${pool} GROUP BY type`,
    // Sorts of all payloads.
    `SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY reverse(${text})) AS n FROM ${pool})`,
    `SELECT a.${text} FROM ${pool} a, range(100) t(i) ORDER BY md5(a.${text} || i) LIMIT 10 OFFSET 1000000`,
  ]
}

/** A statement of about so many seconds alone. It compares each of some rows with each other. */
async function slowStatement(server: TestServer, { poolId }: TestPool, rowsMax: number) {
  const of = (rows: number) => {
    const until = new Date(Date.UTC(2026, 0, 1) + rows).toISOString()
    const some = `(SELECT quantity FROM "${poolId}" WHERE time < '${until}')`
    return `SELECT count(*) AS n FROM ${some} a JOIN ${some} b ON a.quantity + b.quantity > 1000`
  }
  const token = await application(server, LARGE)
  for (let rows = 500; ; rows *= 2) {
    const beganMs = performance.now()
    await asked(server, token, '/v1/query', { sqlV1: { query: of(rows) } })
    const ms = performance.now() - beganMs
    // The first one opens the files.
    if (rows === 500 || (ms < SAMPLE_MS && rows < rowsMax)) continue
    return (seconds: number) => of(Math.floor(rows * Math.sqrt((seconds * 1000) / ms)))
  }
}

/** Asks, and rejects where the answer has errors. */
function graphql(server: TestServer, token: string, query: string): () => Promise<void> {
  return async () => {
    const answer = await fetch(`${server.base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query }),
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    })
    const { errors } = (await answer.json()) as { errors?: readonly { message: string }[] }
    if (errors !== undefined) throw new Error(`GraphQL: ${answer.status} ${errors[0]?.message}`)
  }
}

/** The sum of the amounts of some rows, different ones for each `n`. */
function counter({ poolId }: TestPool, n: number): string {
  const sum = `sum: { dataPool: { id: "${poolId}" }, measure: { columnName: "amount" } }`
  const filter = `{ column: "quantity", operator: GREATER_THAN, value: "${n}" }`
  return `counter(input: { metric: { ${sum} }, filters: [${filter}] }) { value }`
}

function statement(sql: string): string {
  return `sqlV1(input: { query: ${JSON.stringify(sql)} }) { rows }`
}

function aliased(count: number, field: (n: number) => string): string {
  return `{ ${times(count, n => `f${n}: ${field(n)}`).join(' ')} }`
}

function times<T>(count: number, of: (n: number) => T): T[] {
  return Array.from({ length: count }, (_, n) => of(n))
}

function line(attack: string, kind: string, ...figures: readonly string[]): string {
  return [attack.padEnd(44), kind.padEnd(22), ...figures.map(each => each.padStart(8))].join(' ')
}
