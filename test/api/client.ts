/**
 * Small HTTP clients for the tests: node:http for whole requests, sockets for bytes as they are.
 */
import { type Agent, type IncomingHttpHeaders, request } from 'node:http'
import { connect, type Socket } from 'node:net'

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into bodies of many shapes
  readonly json: any
}

export interface Ask {
  readonly method?: string
  readonly headers?: Record<string, string | string[]>
  readonly body?: string | Uint8Array
  /** Sent as chunks, without Content-Length. */
  readonly chunks?: readonly (string | Uint8Array)[]
  readonly agent?: Agent
}

/** One request, POST unless told. */
export function ask(port: number, path: string, what: Ask = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method = 'POST', headers = {}, agent, body, chunks } = what
    const length =
      chunks === undefined && body !== undefined ? { 'content-length': String(Buffer.byteLength(body)) } : {}
    const outgoing = request(
      { host: '127.0.0.1', port, path, method, headers: { ...length, ...headers }, ...(agent && { agent }) },
      incoming => {
        const parts: Buffer[] = []
        incoming.on('data', part => parts.push(part))
        incoming.on('error', reject)
        incoming.on('end', () => {
          const text = Buffer.concat(parts).toString()
          const { 'content-type': type = '', 'content-encoding': encoding } = incoming.headers
          let json: unknown
          if (/(?<!nd)json/.test(type) && encoding === undefined)
            json = text === '' ? undefined : JSON.parse(text)
          resolve({ status: incoming.statusCode!, headers: incoming.headers, text, json })
        })
      },
    )
    outgoing.on('error', reject)
    if (chunks !== undefined) for (const chunk of chunks) outgoing.write(chunk)
    outgoing.end(body)
  })
}

/** A raw connection. It keeps the received bytes, and a test can await events. */
export class Raw {
  readonly socket: Socket
  received = ''
  closed = false
  failed = ''
  #wake: () => void = () => {}

  private constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', data => {
      this.received += data.toString('latin1')
      this.#wake()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.failed = error.code ?? error.message
    })
    socket.on('close', () => {
      this.closed = true
      this.#wake()
    })
  }

  static open(port: number): Promise<Raw> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => resolve(new Raw(socket)))
      socket.once('error', reject)
    })
  }

  write(data: string | Uint8Array): void {
    this.socket.write(data)
  }

  /** Waits until `condition` holds. Every event of the socket checks it. */
  async until(condition: (raw: Raw) => boolean): Promise<void> {
    while (!condition(this)) {
      if (this.closed) throw new Error(`closed before; received: ${JSON.stringify(this.received)}`)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  async untilClosed(): Promise<void> {
    while (!this.closed)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
  }
}

/** The head of a request as text. `headers` are whole lines. */
export function head(path: string, headers: readonly string[] = [], method = 'POST'): string {
  return [`${method} ${path} HTTP/1.1`, 'Host: localhost', ...headers, '', ''].join('\r\n')
}
