/**
 * Lets questions of Weir run on ClickHouse 18.16, which is a vehicle of tests of replication: a
 * proxy before its HTTP interface writes them as it knows them. Sums, counts and records work;
 * times and most functions are not there.
 *
 *   sumOrNull, toInt128   sum, toInt64
 *   an unknown database is made
 *   settings           those that are unknown are left out
 *   {p1:String}        the value of param_p1
 *   remote(…, view(SELECT … FROM t …))   SELECT … FROM remote(…, default, t) …
 *   FORMAT RowBinaryWithNamesAndTypes    names and types of a query without rows, then RowBinary
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const KNOWN = ['database', 'query', 'query_id', 'max_execution_time', 'max_query_size']
const FORMAT = ' FORMAT RowBinaryWithNamesAndTypes'

/** A proxy before the server at `port`. */
export async function startModernProxy(
  port: number,
  own = 0,
): Promise<{ readonly port: number; close(): void }> {
  const server = createServer(async (request, response) => {
    try {
      const parameters = new URL(request.url ?? '', 'http://server').searchParams
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const ended = new AbortController()
      response.on('close', () => ended.abort())
      const answer = await translated(port, parameters, Buffer.concat(chunks), ended.signal)
      response.writeHead(answer.status, answer.headers).end(answer.body)
    } catch {
      response.destroy() // the server is gone, as it is for who asks it without a proxy
    }
  })
  server.listen(own, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { port: (server.address() as AddressInfo).port, close }
}

interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: Buffer
}

async function translated(
  port: number,
  parameters: URLSearchParams,
  body: Buffer,
  ended: AbortSignal,
): Promise<Answer> {
  const known = new URLSearchParams([...parameters].filter(([name]) => KNOWN.includes(name)))
  const database = known.get('database') ?? 'default'
  const create = Buffer.from(`CREATE DATABASE IF NOT EXISTS ${database}`)
  if (database !== 'default') await ask(port, new URLSearchParams(), create, ended)
  // Rows of an INSERT stay as they are.
  if (parameters.has('query')) return await ask(port, known, body, ended)
  const sql = older(body.toString(), parameters)
  if (!sql.endsWith(FORMAT)) return await ask(port, known, Buffer.from(sql), ended)
  const plain = sql.slice(0, -FORMAT.length)
  const named = await ask(port, known, Buffer.from(`SELECT * FROM (${plain}) LIMIT 0 FORMAT JSON`), ended)
  if (named.status !== 200) return named
  const rows = await ask(port, known, Buffer.from(`${plain} FORMAT RowBinary`), ended)
  if (rows.status !== 200) return rows
  const { meta } = JSON.parse(named.body.toString()) as { meta: { name: string; type: string }[] }
  const texts = [...meta.map(({ name }) => name), ...meta.map(({ type }) => type)].map(textOf)
  return { ...rows, body: Buffer.concat([Buffer.from([meta.length]), ...texts, rows.body]) }
}

function textOf(text: string): Buffer {
  const bytes = Buffer.from(text)
  if (bytes.length > 127) throw new Error('a short name')
  return Buffer.concat([Buffer.from([bytes.length]), bytes])
}

function older(sql: string, parameters: URLSearchParams): string {
  return (
    sql
      .replaceAll(
        /remote\(('[^']*'), view\((SELECT .*? FROM )`(\w+)`\.(`\w+`)(.*?)\)(, '[^']*', '[^']*')\)/g,
        (_, servers: string, select: string, database: string, table: string, rest: string, as: string) =>
          `(${select}remote(${servers}, ${database}, ${table}${as})${rest})`,
      )
      .replaceAll(/\{(p\d+):(\w+)\}/g, (_, name: string, type: string) => {
        const value = parameters.get(`param_${name}`) ?? ''
        const quoted = `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
        return type === 'String' ? quoted : `to${type}(${quoted})`
      })
      // A time of the table is its microseconds there.
      .replaceAll(/fromUnixTimestamp64Micro\(((?:[^()]|\([^()]*\))*), 'UTC'\)/g, '$1')
      .replaceAll('sumOrNull(', 'sum(')
      .replaceAll('toInt128(', 'toInt64(')
      .replace(/^(SYSTEM SYNC REPLICA .*) LIGHTWEIGHT$/, '$1')
  )
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
