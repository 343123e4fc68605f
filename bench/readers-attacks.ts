/**
 * The attacks of bench/readers.ts: what readers and importers of two applications do to a server
 * until the end. Each is a loop of a client that means harm, or that has one bad dashboard.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { quoteText } from '../src/util/sql.ts'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { benchFolder } from './leftovers.ts'
import { sleep } from './measure.ts'
import { post } from './rows.ts'
import { keyedPool } from './weir.ts'

/** The server as an attack sees it. */
export interface Victim {
  readonly server: TestServer
  /** Tokens of two applications with the smallest propeller. */
  readonly tokens: readonly [string, string]
  /**
   * Pools by name: `long` has 20 records of 1 MB, `one` has one of them, `rows` 200,000 small ones.
   */
  readonly pools: { readonly long: TestPool; readonly one: TestPool; readonly rows: TestPool }
  /** Aborted at the end of the attack. */
  readonly over: AbortSignal
}

/** An attack of some seconds; it resolves soon after `over`. */
export interface ReaderAttack {
  readonly name: string
  run(victim: Victim): Promise<void>
}

const LONG_ROWS = 20
const LONG_BYTES = 1_000_000
const SMALL_ROWS = 200_000
/** A client that was refused tries again after this. */
const AGAIN_MS = 50

/** Fills the pools of a victim. */
export async function fillPools(server: TestServer): Promise<Victim['pools']> {
  const texts = { columns: [{ name: 'x', jsonProperty: 'x', type: 'STRING', nullable: true }] }
  const long = await server.createPool({ ...texts, uniqueName: 'long' })
  const one = await server.createPool({ ...texts, uniqueName: 'one' })
  const rows = await keyedPool(server)
  for (let index = 0; index < LONG_ROWS; index += 1)
    await postEvent(long, { x: `${index}${'ab'.repeat(LONG_BYTES / 2 - 10)}` })
  await postEvent(one, { x: 'ab'.repeat(LONG_BYTES / 2 - 10) })
  await post(rows.url, 0, SMALL_ROWS, 1, 0)
  return { long, one, rows }
}

/** Posts one event. Rejects if it is not acknowledged in a minute. */
export async function postEvent({ url }: TestPool, event: object): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const signal = AbortSignal.timeout(60_000)
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(event), signal })
  await answer.arrayBuffer()
  if (answer.status !== 200) throw new Error(`POST answered ${answer.status}`)
}

/** Calls `attack` again and again in each application, `each` times at once, until the end. */
async function loop(
  { tokens, over }: Victim,
  each: number,
  attack: (token: string) => Promise<unknown>,
): Promise<void> {
  const one = async (token: string) => {
    while (!over.aborted) {
      await attack(token).catch(() => undefined) // refused, broken off, or ended with the server's process
      if (!over.aborted) await sleep(AGAIN_MS)
    }
  }
  await Promise.all(tokens.flatMap(token => Array.from({ length: each }, () => one(token))))
}

async function ask({ server, over }: Victim, token: string, path: string, body?: unknown): Promise<void> {
  const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  const headers = { authorization: `Bearer ${token}` }
  const answer = await fetch(`${server.base}${path}`, { ...init, headers, signal: over })
  await answer.arrayBuffer()
}

function sql(victim: Victim, token: string, query: string): Promise<void> {
  return ask(victim, token, '/v1/query', { sqlV1: { query } })
}

const SEARCHES = Array.from({ length: 330 }, (_, n) => `contains(x, 'abababababababab${n}')`).join(' OR ')
const LIKES = JSON.stringify(
  Array.from({ length: 300 }, (_, n) => ({
    column: 'x',
    operator: 'NOT_LIKE',
    value: `%abababababababab${n}%`,
  })),
)
const UPPER = Array.from({ length: 100 }, (_, n) => `max(length(upper(substr(x, ${n + 1}))))`).join(', ')
const ARROW = '/v1/pools/long/arrow'

export const READER_ATTACKS: readonly ReaderAttack[] = [
  { name: 'calm', run: async ({ over }) => ended(over) },
  {
    name: '330 contains() over 20 MB',
    run: victim =>
      loop(victim, 1, token =>
        ask(victim, token, '/v1/query', {
          counter: { metric: { count: { dataPool: { name: 'long' } } }, filterSql: SEARCHES },
        }),
      ),
  },
  {
    name: '300 LIKE filters on /arrow',
    run: victim =>
      loop(victim, 1, token => ask(victim, token, `${ARROW}?${new URLSearchParams({ filters: LIKES })}`)),
  },
  {
    name: 'the same, clients gone after 1 s',
    run: victim =>
      loop(victim, 2, async token => {
        const path = `${ARROW}?${new URLSearchParams({ filters: LIKES })}`
        const signal = AbortSignal.any([victim.over, AbortSignal.timeout(1_000)])
        await ask({ ...victim, over: signal }, token, path)
      }),
  },
  {
    name: 'joins without an end',
    run: victim =>
      loop(victim, 2, token =>
        sql(
          victim,
          token,
          `SELECT count(*) AS n FROM ${names(victim).rows} a JOIN ${names(victim).rows} b ON a.quantity < b.quantity + 1000000`,
        ),
      ),
  },
  {
    name: 'SELECT a.x FROM b CROSS JOIN a LIMIT 2048',
    run: victim =>
      loop(victim, 1, token =>
        sql(victim, token, `SELECT a.x FROM ${names(victim).rows} b CROSS JOIN one a LIMIT 2048`),
      ),
  },
  {
    name: '100 × length(upper(substr(x, n)))',
    run: victim => loop(victim, 1, token => sql(victim, token, `SELECT ${UPPER} FROM long`)),
  },
  {
    name: 'a sort that spills',
    run: victim =>
      loop(victim, 1, token =>
        sql(
          victim,
          token,
          `SELECT count(*) AS n FROM (SELECT DISTINCT a.id || b.id AS k FROM ${names(victim).rows} a JOIN ${names(victim).rows} b ON a.quantity = b.quantity)`,
        ),
      ),
  },
  {
    name: 'seven readers of /arrow that read nothing',
    run: idleReaders,
  },
  { name: 'imports of Parquet with long texts', run: parquetBombs },
  { name: 'imports with zstd windows of 128 MB', run: zstdWindows },
]

/** A pool's name in SQL. */
function names({ pools }: Victim) {
  return { rows: `"${pools.rows.poolId}"` }
}

function ended(over: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (over.aborted) resolve()
    else over.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Seven streams of two applications whose clients take the head of the answer alone. */
async function idleReaders(victim: Victim): Promise<void> {
  const { server, tokens, over } = victim
  const one = async (token: string) => {
    while (!over.aborted) {
      const headers = { authorization: `Bearer ${token}` }
      const answer = await fetch(`${server.base}${ARROW}`, { headers, signal: over }).catch(() => undefined)
      // The body is not read: its first bytes fill the socket, and the server waits.
      if (answer?.status === 200) await Promise.race([ended(over), sleep(10_000)])
      await answer?.body?.cancel().catch(() => undefined)
      if (!over.aborted) await sleep(AGAIN_MS)
    }
  }
  const [first, second] = tokens
  await Promise.all([first, first, first, first, second, second, second].map(one))
}

/** A file of some 70 kB: 2,048 rows of 60 columns, whose dictionaries have one text of 100 kB. */
async function parquetBombs(victim: Victim): Promise<void> {
  const file = join(benchFolder('weir-bomb-'), 'bomb.parquet')
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  const columns = Array.from({ length: 60 }, (_, n) => `repeat('${n % 10}', 100000) AS c${n}`).join(', ')
  await connection.run(
    `COPY (SELECT ${columns} FROM range(2048)) TO ${quoteText(file)} (FORMAT parquet, COMPRESSION zstd)`,
  )
  connection.closeSync()
  await imports(victim, 'format=parquet', readFileSync(file), {})
}

/** A frame of raw blocks whose header asks for a window of 128 MB (RFC 8878, 3.1.1). */
async function zstdWindows(victim: Victim): Promise<void> {
  const lines = Buffer.from('{"x":"a"}\n'.repeat(1_000))
  const blocks: Buffer[] = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3])]
  const count = 2_000
  for (let block = 0; block < count; block += 1) {
    const head = (lines.byteLength << 3) | (block === count - 1 ? 1 : 0)
    blocks.push(Buffer.from([head & 255, (head >> 8) & 255, head >> 16]), lines)
  }
  await imports(victim, 'format=ndjson', Buffer.concat(blocks), { 'content-encoding': 'zstd' })
}

function imports(
  victim: Victim,
  query: string,
  body: Buffer,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  return loop(victim, 2, async token => {
    const url = `${victim.server.base}/v1/pools/one/import?${query}`
    const authorization = `Bearer ${token}`
    const init = { method: 'POST', body: new Uint8Array(body), signal: victim.over }
    const answer = await fetch(url, { ...init, headers: { ...headers, authorization } })
    await answer.arrayBuffer()
  })
}
