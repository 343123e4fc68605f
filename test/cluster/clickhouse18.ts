/**
 * Makes ClickHouse 18.16 answer as a version that Weir supports, for tests of two shards: their
 * questions go from server to server over TCP, which the vehicle of 26.9 has not. A proxy before
 * its HTTP interface writes statements as it knows them. Sums, counts and records work; times and
 * most functions are not there.
 *
 *   DateTime64(6, 'UTC'), Date32, Bool   Int64, Int32 and Int8, whose bytes are the same
 *   insert_quorum      the other replicas of the shard are synced, as its own quorum INSERTs refuse
 *                      each other
 *   settings           those that are unknown are left out
 *   {p1:String}        the value of param_p1
 *   remote(…, view(SELECT … FROM t …))   SELECT … FROM remote(…, default, t) …
 *   FORMAT RowBinaryWithNamesAndTypes    names and types of a query without rows, then RowBinary
 *   an unknown database is made
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const KNOWN = ['database', 'query', 'query_id', 'max_execution_time', 'max_query_size', 'max_memory_usage']
const FORMAT = ' FORMAT RowBinaryWithNamesAndTypes'
const TOO_FEW_LIVE_REPLICAS = 285
const UNKNOWN_STATUS_OF_INSERT = 319

/** What proxies of one cluster share. */
export interface Known {
  /** The modern types of columns whose own are others, by `<table>.<column>`. */
  readonly types: Map<string, string>
}

interface Server {
  readonly port: number
  /** The ports of the other replicas of its shard. */
  readonly others: readonly number[]
  readonly known: Known
}

/** A proxy before the server at `port`. It ends with `close`. */
export async function startProxy18(
  server: Server,
  own = 0,
): Promise<{ readonly port: number; close(): void }> {
  const proxy = createServer(async (request, response) => {
    try {
      const parameters = new URL(request.url ?? '', 'http://server').searchParams
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const ended = new AbortController()
      response.on('close', () => ended.abort())
      const answer = await translated(server, parameters, Buffer.concat(chunks), ended.signal)
      response.writeHead(answer.status, answer.headers).end(answer.body)
    } catch {
      response.destroy() // the server is gone, as it is for who asks it without a proxy
    }
  })
  proxy.listen(own, '127.0.0.1')
  await once(proxy, 'listening')
  const close = () => {
    proxy.closeAllConnections()
    proxy.close()
  }
  return { port: (proxy.address() as AddressInfo).port, close }
}

interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: Buffer
}

async function translated(
  server: Server,
  parameters: URLSearchParams,
  body: Buffer,
  ended: AbortSignal,
): Promise<Answer> {
  const { port } = server
  const known = new URLSearchParams([...parameters].filter(([name]) => KNOWN.includes(name)))
  const database = known.get('database') ?? 'default'
  const create = Buffer.from(`CREATE DATABASE IF NOT EXISTS ${database}`)
  if (database !== 'default') await ask(port, new URLSearchParams(), create, ended)
  const run = (text: Buffer) => ask(port, known, text, ended)
  const query = parameters.get('query')
  if (query !== null)
    return await byQuorum(server, query, database, parameters, ended, () => run(olderBlock(query, body)))
  const text = body.toString()
  const sql = older(text, parameters, server.known)
  if (sql === '') return { status: 200, headers: {}, body: Buffer.alloc(0) }
  if (sql.startsWith('INSERT'))
    return await byQuorum(server, sql, database, parameters, ended, () => run(Buffer.from(sql)))
  if (/^SELECT name, type FROM system\.columns/.test(sql))
    return modernTypes(await run(Buffer.from(sql)), sql, server.known)
  if (!sql.endsWith(FORMAT)) return await run(Buffer.from(sql))
  const plain = sql.slice(0, -FORMAT.length)
  const named = await run(Buffer.from(`SELECT * FROM (${plain}) LIMIT 0 FORMAT JSON`))
  if (named.status !== 200) return named
  const rows = await run(Buffer.from(`${plain} FORMAT RowBinary`))
  if (rows.status !== 200) return rows
  const { meta } = JSON.parse(named.body.toString()) as { meta: { name: string; type: string }[] }
  const texts = [...meta.map(({ name }) => name), ...meta.map(({ type }) => type)].map(textOf)
  return { ...rows, body: Buffer.concat([Buffer.from([meta.length]), ...texts, rows.body]) }
}

/** An INSERT whose answer comes when so many replicas have the rows. */
async function byQuorum(
  { port, others }: Server,
  sql: string,
  database: string,
  parameters: URLSearchParams,
  ended: AbortSignal,
  insert: () => Promise<Answer>,
): Promise<Answer> {
  const quorum = Number(parameters.get('insert_quorum') ?? 1)
  const table = /^INSERT INTO `?(\w+)/.exec(sql)?.[1] ?? ''
  const of = new URLSearchParams({ database })
  if (quorum > 1) {
    const count = `SELECT active_replicas FROM system.replicas WHERE database = '${database}' AND table = '${table}'`
    const { body } = await ask(port, of, Buffer.from(count), ended)
    const why = `Number of alive replicas (${body.toString().trim()}) is less than requested quorum (${quorum}).`
    if (Number(body.toString()) < quorum) return failed(TOO_FEW_LIVE_REPLICAS, why)
  }
  const answer = await insert()
  if (answer.status !== 200 || quorum < 2) return answer
  const late = AbortSignal.timeout(Number(parameters.get('insert_quorum_timeout') ?? 5_000))
  const signal = AbortSignal.any([ended, late])
  const synced = others.map(async other => {
    const { status } = await ask(other, of, Buffer.from(`SYSTEM SYNC REPLICA ${table}`), signal)
    if (status !== 200) throw new Error(`a replica answers ${status}`)
  })
  const isKept = await atLeast(quorum - 1, synced)
  return isKept
    ? answer
    : failed(UNKNOWN_STATUS_OF_INSERT, 'Unknown status: the replicas were not synced in time.')
}

/** True as soon as so many of them are resolved; false when too many are rejected. */
async function atLeast(count: number, all: readonly Promise<unknown>[]): Promise<boolean> {
  let left = count
  return await new Promise(resolve => {
    for (const each of all)
      each.then(
        () => {
          left -= 1
          if (left === 0) resolve(true)
        },
        () => {},
      )
    void Promise.allSettled(all).then(() => resolve(left <= 0))
  })
}

function failed(code: number, why: string): Answer {
  const headers = { 'x-clickhouse-exception-code': String(code) }
  return { status: 500, headers, body: Buffer.from(`Code: ${code}, e.displayText() = DB::Exception: ${why}`) }
}

function textOf(text: string): Buffer {
  const bytes = Buffer.from(text)
  if (bytes.length > 127) throw new Error('a short name')
  return Buffer.concat([Buffer.from([bytes.length]), bytes])
}

const TYPES: readonly (readonly [modern: string, older: string])[] = [
  ["DateTime64(6, 'UTC')", 'Int64'],
  ['Date32', 'Int32'],
  ['Bool', 'Int8'],
]

/** The names of types in a block, filled up with spaces, which the server skips. */
function olderBlock(sql: string, body: Buffer): Buffer {
  if (!sql.endsWith('FORMAT Native')) return body
  let text = body.toString('latin1')
  for (const [modern, type] of TYPES)
    for (const [is, of] of [
      [modern, type],
      [`Nullable(${modern})`, `Nullable(${type})`],
    ] as const)
      text = text.replaceAll(
        String.fromCharCode(is.length) + is,
        String.fromCharCode(is.length) + of.padEnd(is.length),
      )
  return Buffer.from(text, 'latin1')
}

/** A statement as 18.16 knows it; '' where it does nothing there. */
function older(sql: string, parameters: URLSearchParams, { types }: Known): string {
  if (/^KILL MUTATION/.test(sql)) return ''
  // There are no settings of this kind, and nothing tells of disks.
  if (sql.includes('position(engine_full')) return 'SELECT name FROM system.tables WHERE 0 FORMAT JSONCompact'
  if (sql.includes('FROM system.disks')) return "SELECT '0', '0' FORMAT JSONCompact"
  if (/^(?:CREATE|ALTER) TABLE/.test(sql)) return olderTable(withValues(sql, parameters), types)
  return olderCalls(withValues(sql, parameters))
    .replaceAll(
      /remote\(('[^']*'), view\((SELECT .*? FROM )`(\w+)`\.(`\w+`)(.*?)\)(, '[^']*', '[^']*')\)/g,
      (_, servers: string, select: string, database: string, table: string, rest: string, as: string) =>
        `(${select}remote(${servers}, ${database}, ${table}${as})${rest})`,
    )
    .replace('version() AS version', "'25.3.1' AS version")
    .replace('latest_fail_reason', "''")
    .replace(/^(SYSTEM SYNC REPLICA .*) LIGHTWEIGHT$/, '$1')
    .replace(/^(DROP TABLE .*) SYNC$/, '$1')
}

/** Parameters are escaped texts. */
function withValues(sql: string, parameters: URLSearchParams): string {
  return sql.replaceAll(/\{(p\d+):(\w+)\}/g, (all, name: string, type: string) => {
    const text = parameters.get(`param_${name}`)
    if (text === null) return all
    if (type === 'Bool') return text === 'true' ? '1' : '0'
    const quoted = `'${text.replaceAll("'", "\\'")}'`
    return type === 'String' ? quoted : `to${type}(${quoted})`
  })
}

/** CREATE TABLE, or ALTER TABLE, whose columns have no names of tables before them. */
function olderTable(sql: string, types: Map<string, string>): string {
  const table = /TABLE (?:IF NOT EXISTS )?`?(\w+)/.exec(sql)?.[1] ?? ''
  const column = /(`(?:[^`\\]|\\.)*`) (Nullable\()?(DateTime64\(6, 'UTC'\)|Date32|Bool)(\))?/g
  const typed = sql.replaceAll(column, (_, name: string, is = '', modern: string, end = '') => {
    types.set(`${table}.${name.slice(1, -1)}`, is + modern + (is === '' ? '' : ')'))
    const type = TYPES.find(([each]) => each === modern)?.[1] ?? modern
    return `${name} ${is}${type}${is === '' ? end : ')'}`
  })
  return (
    olderCalls(typed)
      .replace(/, INDEX _version_range .* GRANULARITY 1\)/, ')')
      .replace(/ SETTINGS fsync.*$/, '')
      // It deletes rows for which the condition is null.
      .replace(/^(ALTER TABLE .* (?:DELETE|UPDATE .*)) WHERE (.*)$/s, '$1 WHERE ifNull($2, 0)')
  )
}

function olderCalls(sql: string): string {
  let text = sql.replaceAll(/\bDPO\w+\.(?=`)/g, '')
  // A time of a table is its microseconds there, and a date its days.
  text = rewrite(text, 'fromUnixTimestamp64Micro', ([us]) => `${us}`)
  text = rewrite(text, 'toUnixTimestamp64Micro', ([us]) => `toInt64(${us})`)
  text = rewrite(text, 'addDays', ([, days]) => `${days}`)
  text = rewrite(
    text,
    'accurateCastOrNull',
    ([value, type]) => `CAST(${value}, 'Nullable(${type?.slice(1, -1)})')`,
  )
  text = rewrite(text, 'arrayFlatten', ([ranges]) => `[${numbersOf(ranges ?? '')}]`)
  return text.replaceAll('sumOrNull(', 'sum(').replaceAll('toInt128(', 'toInt64(')
}

/** The numbers of `arrayMap((first, rows) -> range(…), [firsts], [rows])`. */
function numbersOf(ranges: string): string {
  const [firsts = [], rows = []] = [...ranges.matchAll(/\[([\d, ]*)\]/g)].map(([, list = '']) =>
    list.split(', ').map(BigInt),
  )
  const all = firsts.flatMap((first, at) =>
    Array.from({ length: Number(rows[at]) }, (_, row) => first + BigInt(row)),
  )
  return all.map(number => `toUInt64(${number})`).join(', ')
}

/** Writes each call of a function anew. */
function rewrite(sql: string, name: string, write: (parameters: readonly string[]) => string): string {
  const at = sql.indexOf(`${name}(`)
  if (at < 0) return sql
  const parameters: string[] = []
  let [from, depth, quote] = [at + name.length + 1, 1, '']
  for (let end = from; end < sql.length; end += 1) {
    const character = sql[end]!
    if (quote !== '') {
      if (character === '\\') end += 1
      else if (character === quote) quote = ''
    } else if (character === "'" || character === '`') quote = character
    else if ('(['.includes(character)) depth += 1
    else if (')]'.includes(character)) depth -= 1
    if (quote !== '' || !(depth === 0 || (depth === 1 && character === ','))) continue
    parameters.push(sql.slice(from, end).trim())
    from = end + 1
    if (depth === 0) return sql.slice(0, at) + write(parameters) + rewrite(sql.slice(from), name, write)
  }
  return sql
}

/** Types of columns as they were asked for. */
function modernTypes(answer: Answer, sql: string, { types }: Known): Answer {
  const table = /table = '(\w+)'/.exec(sql)?.[1] ?? ''
  if (answer.status !== 200 || !sql.endsWith('FORMAT JSONCompact')) return answer
  const printed = JSON.parse(answer.body.toString()) as { data: [string, string][] }
  const data = printed.data.map(([name, type]) => [name, types.get(`${table}.${name}`) ?? type])
  return { ...answer, body: Buffer.from(JSON.stringify({ ...printed, data })) }
}

async function ask(
  port: number,
  parameters: URLSearchParams,
  body: Buffer,
  signal: AbortSignal,
): Promise<Answer> {
  const url = `http://127.0.0.1:${port}/?${parameters}`
  const answer = await fetch(url, { method: 'POST', body: new Uint8Array(body), signal })
  const bytes = Buffer.from(await answer.arrayBuffer())
  const text = bytes.toString('utf8', 0, 200)
  const code = answer.ok ? undefined : /Code: (\d+)/.exec(text)?.[1]
  return {
    status: answer.status,
    headers: code === undefined ? {} : { 'x-clickhouse-exception-code': code },
    body: bytes,
  }
}
