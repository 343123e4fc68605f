/**
 * One persistent HTTP connection for load generators. It writes one request at a time, as it is,
 * and reads only the status of the answer: a few string operations per request. Node's HTTP client
 * takes a hundred times as much.
 */
import { connect, type Socket } from 'node:net'

/** Status of a request without an answer: the connection closed. */
export const NO_ANSWER = 0
const RECONNECT_MS = 200

/** The head of a request with a JSON body of `bytes` bytes. `more`: further header lines. */
export function requestHead(method: 'POST' | 'DELETE', url: string, bytes: number, more = ''): string {
  const { pathname, search } = new URL(url)
  return `${method} ${pathname}${search} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${more}Content-Length: ${bytes}\r\n\r\n`
}

/** Makes Weir answer a 200 with `[]`, which costs neither side anything. */
export const PREFER_MINIMAL = 'Prefer: return=minimal\r\n'

export class Connection {
  readonly #port: number
  readonly #host: string
  #socket: Socket | undefined
  #onStatus: ((status: number) => void) | undefined
  #body = ''
  #isClosed = false
  #text = ''

  constructor(origin: string) {
    const { hostname, port } = new URL(origin)
    this.#host = hostname
    this.#port = Number(port)
    this.#connect()
  }

  /** Writes a whole request; resolves with its status, or NO_ANSWER. */
  send(request: string | Uint8Array): Promise<number> {
    if (this.#onStatus !== undefined) throw new Error('one request at a time')
    return new Promise(resolve => {
      this.#onStatus = resolve
      this.#socket?.write(request)
    })
  }

  /** The body of the newest answer, as Latin-1. */
  get body(): string {
    return this.#body
  }

  close(): void {
    this.#isClosed = true
    this.#socket?.destroy()
  }

  #connect(): void {
    const socket = connect(this.#port, this.#host)
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', data => this.#read(data.toString('latin1')))
    socket.on('error', () => undefined) // 'close' follows
    socket.once('close', () => {
      this.#text = ''
      if (!this.#isClosed) setTimeout(() => this.#connect(), RECONNECT_MS)
      // The caller waits until there is a connection again.
      setTimeout(() => this.#settle(NO_ANSWER), this.#isClosed ? 0 : RECONNECT_MS)
    })
  }

  #read(text: string): void {
    this.#text += text
    const head = this.#text.indexOf('\r\n\r\n')
    if (head < 0 || !isWhole(this.#text, head)) return
    const status = Number(this.#text.slice(9, 12))
    this.#body = this.#text.slice(head + 4)
    this.#text = ''
    this.#settle(status)
  }

  #settle(status: number): void {
    const onStatus = this.#onStatus
    this.#onStatus = undefined
    onStatus?.(status)
  }
}

/**
 * Sends `requests` again and again over `connections`, each with one request under way. Returns the
 * times of all answers in ms. A status that is not in `statuses` makes the bench fail.
 */
export async function closedLoop(
  url: string,
  requests: readonly Uint8Array[],
  seconds: number,
  connections: number,
  statuses: readonly number[] = [200],
): Promise<number[]> {
  const end = performance.now() + seconds * 1000
  const ms: number[] = []
  let sent = 0
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const connection = new Connection(url)
      while (performance.now() < end) {
        const begin = performance.now()
        const status = await connection.send(requests[sent++ % requests.length]!)
        if (!statuses.includes(status)) throw new Error(`the server answers ${status}`)
        ms.push(performance.now() - begin)
      }
      connection.close()
    }),
  )
  return ms
}

/**
 * True when the body after the head has arrived. Weir sends its length, ClickHouse an empty last
 * chunk.
 */
function isWhole(text: string, head: number): boolean {
  const length = /content-length: (\d+)/i.exec(text)?.[1]
  if (length !== undefined) return text.length >= head + 4 + Number(length)
  return text.endsWith('\r\n0\r\n\r\n')
}
