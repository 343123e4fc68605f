/**
 * One connection that runs one prepared statement again and again, in PostgreSQL's own protocol
 * (version 3) over a Unix socket. A request is bytes that were laid out once, and only the kind of
 * the answer is read. pgbench cannot do this: its prepared statements take no parameter with 500
 * changing ids, and its text substitution costs more than the server.
 */
import { connect, type Socket } from 'node:net'

const PROTOCOL_VERSION = 196_608
const STATEMENT = 's'
const ERROR = 69 // 'E'
const READY = 90 // 'Z'

/** Bind of one text parameter of `bytes` bytes, up to that parameter. */
export function bindHead(bytes: number): Uint8Array {
  const names = Buffer.from(`\0${STATEMENT}\0`)
  // No parameter formats (all are text), one parameter, its length.
  const head = Buffer.alloc(5 + names.length + 8)
  head.write('B', 0)
  head.writeInt32BE(4 + names.length + 8 + bytes + 2, 1)
  names.copy(head, 5)
  head.writeInt16BE(0, 5 + names.length)
  head.writeInt16BE(1, 7 + names.length)
  head.writeInt32BE(bytes, 9 + names.length)
  return head
}

/** The rest of Bind (no result formats), Execute without a row limit, Sync. */
export function bindEnd(): Uint8Array {
  const execute = message('E', Buffer.from([0, 0, 0, 0, 0]))
  return Buffer.concat([Buffer.from([0, 0]), execute, message('S')])
}

function message(kind: string, body: Uint8Array = new Uint8Array(0)): Buffer {
  const head = Buffer.alloc(5)
  head.write(kind, 0)
  head.writeInt32BE(4 + body.byteLength, 1)
  return Buffer.concat([head, body])
}

export class PostgresConnection {
  readonly #socket: Socket
  #onReady: ((error: string) => void) | undefined
  #left: Buffer = Buffer.alloc(0)
  #error = ''
  #wasTold = false

  private constructor(socket: string) {
    this.#socket = connect({ path: socket })
    this.#socket.on('data', data => this.#read(data))
    this.#socket.on('error', error => this.#settle(error.message))
    this.#socket.on('close', () => this.#settle(this.#error || 'the connection closed'))
  }

  /** Connects as `user` (trusted, without a password) to its own database and prepares `sql`. */
  static async open(socket: string, user: string, sql: string): Promise<PostgresConnection> {
    const connection = new PostgresConnection(socket)
    const options = Buffer.from(`\0\0\0\0user\0${user}\0database\0postgres\0\0`)
    options.writeInt32BE(PROTOCOL_VERSION, 0)
    const startup = Buffer.alloc(4)
    startup.writeInt32BE(4 + options.length, 0)
    await connection.#ask(Buffer.concat([startup, options]))
    const parse = message('P', Buffer.from(`${STATEMENT}\0${sql}\0\0\0`))
    await connection.#ask(Buffer.concat([parse, message('S')]))
    return connection
  }

  /**
   * Runs the statement; resolves with 200, or 500 where it failed (the first failure is printed).
   */
  async send(request: Uint8Array): Promise<number> {
    try {
      await this.#ask(request)
      return 200
    } catch (error) {
      if (!this.#wasTold) process.stderr.write(`bench: PostgreSQL: ${(error as Error).message}\n`)
      this.#wasTold = true
      return 500
    }
  }

  /** Runs a statement without parameters. Throws where it fails. */
  execute(): Promise<void> {
    const bind = message('B', Buffer.from(`\0${STATEMENT}\0\0\0\0\0\0\0`))
    return this.#ask(Buffer.concat([bind, message('E', Buffer.from([0, 0, 0, 0, 0])), message('S')]))
  }

  close(): void {
    this.#socket.end(message('X'))
  }

  #ask(bytes: Uint8Array): Promise<void> {
    if (this.#onReady !== undefined) throw new Error('one request at a time')
    return new Promise((resolve, reject) => {
      this.#onReady = error => (error === '' ? resolve() : reject(new Error(error)))
      if (this.#socket.destroyed) this.#settle('the connection is closed')
      else this.#socket.write(bytes)
    })
  }

  #read(data: Buffer): void {
    const bytes = this.#left.length === 0 ? data : Buffer.concat([this.#left, data])
    let at = 0
    while (bytes.length >= at + 5) {
      const end = at + 1 + bytes.readInt32BE(at + 1)
      if (bytes.length < end) break
      if (bytes[at] === ERROR) this.#error = errorText(bytes.subarray(at + 5, end))
      if (bytes[at] === READY) this.#settle(this.#error)
      at = end
    }
    this.#left = bytes.subarray(at)
  }

  #settle(error: string): void {
    const onReady = this.#onReady
    this.#onReady = undefined
    this.#error = ''
    onReady?.(error)
  }
}

/** The message among an error's fields; each is a letter and a text that ends with 0. */
function errorText(fields: Buffer): string {
  const texts = fields.toString('utf8').split('\0')
  return texts.find(text => text.startsWith('M'))?.slice(1) ?? 'an error'
}
