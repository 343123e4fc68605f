/** A ClickHouse that answers as a test wants: slowly, with an error, or with half an answer. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { atEnd } from './at-end.ts'

export type Fault =
  /** An exception with this number; 0: an error that is none of ClickHouse, as of a balancer. */
  | { readonly code: number }
  /** No answer at all. */
  | 'hangs'
  /** The connection ends before the answer does. */
  | 'cut'
  /** An answer with status 200 that is not what was asked for. */
  | 'other'

export interface FaultyProxy {
  readonly url: string
  /** Called with each statement, without the rows of an INSERT. */
  fault: (sql: string) => Fault | undefined
}

/** A proxy before the HTTP interface at `url`. It ends with the test. */
export async function startFaultyProxy(url: string): Promise<FaultyProxy> {
  const hanging = new Set<ServerResponse>()
  const server = createServer(async (request, response) => {
    try {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const body = Buffer.concat(chunks)
      const address = new URL(request.url ?? '', url)
      const fault = proxy.fault(address.searchParams.get('query') ?? body.toString())
      if (fault === 'hangs') return void hanging.add(response)
      const answer = fault === undefined ? await fetch(address, { method: 'POST', body }) : undefined
      if (answer === undefined) return fail(response, fault as Exclude<Fault, 'hangs'>)
      const code = answer.headers.get('x-clickhouse-exception-code')
      const headers = code === null ? {} : { 'x-clickhouse-exception-code': code }
      response.writeHead(answer.status, headers).end(Buffer.from(await answer.arrayBuffer()))
    } catch {
      response.destroy() // the server is gone, as it is for who asks it without a proxy
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(() => {
    server.closeAllConnections()
    server.close()
  })
  const proxy: FaultyProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fault: () => undefined,
  }
  return proxy
}

function fail(response: ServerResponse, fault: Exclude<Fault, 'hangs'>): void {
  if (fault === 'other') return void response.end('<html>')
  if (fault === 'cut') {
    response.writeHead(200, { 'content-length': '1000' }).write('half')
    return void setImmediate(() => response.destroy())
  }
  const { code } = fault
  const headers = code === 0 ? {} : { 'x-clickhouse-exception-code': String(code) }
  response.writeHead(code === 0 ? 502 : 500, headers).end(`Code: ${code}. DB::Exception: made by a test`)
}
