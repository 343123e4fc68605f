/**
 * One kept-alive HTTP connection for load generators: a request at a time, written as it is, and of the answer only its
 * status is looked at. A handful of string operations a request; Node's HTTP client takes a hundred times as much.
 */
import { connect, type Socket } from 'node:net'

/** A request that got no answer: the connection closed. */
export const NO_ANSWER = 0
const RECONNECT_MS = 200

export class Connection {
  readonly #port: number
  readonly #host: string
  #socket: Socket | undefined
  #onStatus: ((status: number) => void) | undefined
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
      // Whoever waits goes on when there is a connection again.
      setTimeout(() => this.#settle(NO_ANSWER), this.#isClosed ? 0 : RECONNECT_MS)
    })
  }

  #read(text: string): void {
    this.#text += text
    const head = this.#text.indexOf('\r\n\r\n')
    if (head < 0 || !isWhole(this.#text, head)) return
    const status = Number(this.#text.slice(9, 12))
    this.#text = ''
    this.#settle(status)
  }

  #settle(status: number): void {
    const onStatus = this.#onStatus
    this.#onStatus = undefined
    onStatus?.(status)
  }
}

/** Is the body after the head at `head` there? Weir sends its length; ClickHouse sends chunks, the last one empty. */
function isWhole(text: string, head: number): boolean {
  const length = /content-length: (\d+)/i.exec(text)?.[1]
  if (length !== undefined) return text.length >= head + 4 + Number(length)
  return text.endsWith('\r\n0\r\n\r\n')
}
