/**
 * A session with Keeper (ZooKeeper or ClickHouse Keeper): one connection at a time, to one of
 * several servers, and made again when it breaks or stands still.
 *
 * A request that was sent when the connection broke has an unknown outcome: KeeperLost says so. No
 * request is sent twice, and none waits for a connection: callers answer 503 and their clients
 * retry.
 *
 *   W-9  The requests that await an answer are bounded.
 */
import { randomInt } from 'node:crypto'
import { connect as connectPlain, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { monotonicMs } from '../../util/clock.ts'
import { assert, Unavailable } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'
import { inform, warn } from '../../util/say.ts'
import {
  ANY,
  BrokenFrame,
  JuteReader,
  JuteWriter,
  KEEPER_ERROR,
  multiError,
  multiFields,
  OPERATION,
  type Rights,
  type Stat,
  type Write,
  writeFields,
  XID,
} from './jute.ts'

/** 16 slabs of requests may be parsed at once, and a group of them takes one version. */
const PENDING_MAX = 4_096
/** Keeper's own limit of a frame is 1 MiB; a list of children may be longer. */
const FRAME_BYTES_MAX = 64 * MiB
/** The session has expired, or moved to another connection. */
const SESSION_ERRORS: ReadonlySet<number> = new Set([-112, -118])
/** Waits between two tries to connect, each twice the one before. */
const RETRY_MS = [50, 2_000] as const

export interface KeeperOptions {
  readonly servers: readonly { readonly host: string; readonly port: number }[]
  /** Undefined: no TLS. */
  readonly tls?: ConnectionOptions | undefined
  /** `user:password` of the digest scheme. Nodes that it makes are closed to others. */
  readonly digest?: string | undefined
  /** After so long without a sign of this client, Keeper ends the session. */
  readonly sessionMs: number
  /** A connection is there. With a new session, all ephemeral nodes of the last one are gone. */
  onConnected(isNewSession: boolean): void
  /** A node that `getData` or `getChildren` watched has changed, or the connection broke. */
  onWatched(path: string): void
}

/** The connection broke: it is unknown whether the request was carried out. */
export class KeeperLost extends Unavailable {
  constructor(what: string) {
    super('keeper_lost', `Keeper: ${what}`)
  }
}

/** Keeper refused the request, and nothing was changed. `error` is a number of KEEPER_ERROR. */
export class KeeperRefused extends Unavailable {
  readonly error: number

  constructor(error: number, what: string) {
    super('keeper_refused', `Keeper refuses ${what}: ${WORDS[error] ?? `error ${error}`}`)
    this.error = error
  }
}

/** @param as a number of KEEPER_ERROR */
export function isRefused(error: unknown, as: number): error is KeeperRefused {
  return error instanceof KeeperRefused && error.error === as
}

const WORDS: Readonly<Record<number, string>> = {
  [KEEPER_ERROR.noNode]: 'a node that Weir made is not there any more',
  [KEEPER_ERROR.noAuth]: 'the user and password of the digest scheme have no right to it',
}

interface Pending {
  readonly what: string
  readonly sentMs: number
  resolve(reply: { readonly zxid: bigint; readonly reader: JuteReader }): void
  reject(error: Error): void
}

/** The session's secret on Keeper; all zero asks for a new one. */
interface Session {
  readonly id: bigint
  readonly password: Buffer
}

const NO_SESSION: Session = { id: 0n, password: Buffer.alloc(16) }

export class KeeperClient {
  readonly #options: KeeperOptions
  readonly #rights: Rights
  /** By xid, the oldest first: ClickHouse Keeper may answer a read after a later write. */
  readonly #pending = new Map<number, Pending>()
  #socket: Socket | undefined
  #isConnected = false
  #isStopping = false
  #isStopped = false
  #session = NO_SESSION
  /** As Keeper granted it. */
  #sessionMs: number
  #lastZxid = 0n
  #next = 0
  #failures = 0
  /** The operator was told that the connection broke. */
  #isLost = false
  /** The clients of many nodes begin with different servers. */
  #server: number
  /** When the last beat that was answered had been sent. */
  #aliveMs = Number.NEGATIVE_INFINITY
  #beats: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined

  constructor(options: KeeperOptions) {
    assert(options.servers.length > 0, 'a client has servers')
    this.#options = options
    this.#rights = options.digest === undefined ? 'everyone' : 'creator'
    this.#sessionMs = options.sessionMs
    this.#server = randomInt(options.servers.length)
    this.#connect()
  }

  /** The time of the session as Keeper granted it. */
  get sessionMs(): number {
    return this.#sessionMs
  }

  /** The session; 0n before the first one. */
  get sessionId(): bigint {
    return this.#session.id
  }

  /**
   * True while Keeper cannot have ended the session: for two thirds of its time after the sending
   * of the last beat that was answered. So no other node takes this one for dead while it
   * acknowledges.
   */
  isAlive(): boolean {
    return this.#isConnected && monotonicMs() - this.#aliveMs < (this.#sessionMs * 2) / 3
  }

  /** True while requests are sent, whoever answers them. */
  get isConnected(): boolean {
    return this.#isConnected
  }

  /** Makes all of the writes or none. Rejects with KeeperRefused or KeeperLost. */
  async multi(writes: readonly Write[]): Promise<{ readonly zxid: bigint }> {
    const { zxid, reader } = await this.#send('multi', writer => multiFields(writer, writes, this.#rights))
    const error = multiError(reader)
    if (error !== 0) throw new KeeperRefused(error, 'multi')
    return { zxid }
  }

  /** One write. Its zxid is higher than those of all writes that were answered before it began. */
  async write(write: Write): Promise<{ readonly zxid: bigint }> {
    const { zxid } = await this.#send(write.kind, writer => writeFields(writer, write, this.#rights))
    return { zxid }
  }

  /** The data of a node. With `isWatched`, `onWatched` tells its next change once. */
  async getData(path: string, isWatched = false): Promise<{ readonly data: Buffer; readonly stat: Stat }> {
    const { reader } = await this.#send('getData', writer => writer.text(path).boolean(isWatched))
    return { data: reader.buffer(), stat: reader.stat() }
  }

  async getChildren(path: string, isWatched = false): Promise<string[]> {
    const { reader } = await this.#send('getChildren', writer => writer.text(path).boolean(isWatched))
    return reader.texts()
  }

  /** The server that answers next has seen everything that was committed before this call. */
  async sync(path: string): Promise<void> {
    await this.#send('sync', writer => writer.text(path))
  }

  /** Ends the session, so that its ephemeral nodes go at once. */
  async stop(): Promise<void> {
    this.#isStopping = true
    if (this.#isConnected) await this.#send('closeSession', writer => writer).catch(() => undefined)
    this.#isStopped = true
    clearTimeout(this.#retry)
    this.#socket?.destroy()
    this.#ended(new KeeperLost('stopped'))
  }

  #send(
    operation: keyof typeof OPERATION,
    write: (writer: JuteWriter) => JuteWriter,
  ): Promise<{ readonly zxid: bigint; readonly reader: JuteReader }> {
    const socket = this.#socket
    if (!this.#isConnected || socket === undefined)
      return Promise.reject(new Unavailable('keeper_unreachable', 'Keeper: there is no connection'))
    if (this.#pending.size >= PENDING_MAX)
      return Promise.reject(new Unavailable('keeper_busy', `Keeper: ${PENDING_MAX} requests await an answer`))
    this.#next = (this.#next + 1) & 0x7fff_ffff
    const xid = this.#next
    return new Promise((resolve, reject) => {
      this.#pending.set(xid, { what: operation, sentMs: monotonicMs(), resolve, reject })
      socket.write(write(new JuteWriter().int(xid).int(OPERATION[operation])).frame())
    })
  }

  #connect(): void {
    const { servers, tls } = this.#options
    this.#server = (this.#server + 1) % servers.length
    const server = servers[this.#server]!
    const socket = tls === undefined ? connectPlain(server) : connectTls({ ...tls, ...server })
    this.#socket = socket
    socket.setNoDelay(true)
    // A server that stands still neither answers nor closes. After the welcome, beats tell it.
    socket.setTimeout((this.#sessionMs * 2) / 3, () => socket.destroy())
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => this.#closed(socket))
    socket.once(tls === undefined ? 'connect' : 'secureConnect', () => this.#hello(socket))
    const frames = frameReader(frame => this.#frame(socket, frame))
    socket.on('data', chunk => {
      try {
        frames(chunk)
      } catch (error) {
        if (!(error instanceof BrokenFrame)) throw error
        socket.destroy()
      }
    })
  }

  #hello(socket: Socket): void {
    const { id, password } = this.#session
    const { sessionMs, digest } = this.#options
    const hello = new JuteWriter().int(0).long(this.#lastZxid).int(sessionMs).long(id).buffer(password)
    socket.write(hello.boolean(false).frame())
    if (digest === undefined) return
    const auth = new JuteWriter().int(XID.auth).int(OPERATION.auth).int(0)
    socket.write(auth.text('digest').text(digest).frame())
  }

  #frame(socket: Socket, frame: Buffer): void {
    if (socket !== this.#socket) return
    const reader = new JuteReader(frame)
    if (!this.#isConnected) {
      this.#welcomed(socket, reader)
      return
    }
    const xid = reader.int()
    const zxid = reader.long()
    const error = reader.int()
    if (zxid > this.#lastZxid) this.#lastZxid = zxid
    if (xid === XID.notification) this.#notified(reader)
    else if (xid !== XID.auth) this.#answered(xid, zxid, error, reader)
    else if (error !== 0) socket.destroy()
  }

  #answered(xid: number, zxid: bigint, error: number, reader: JuteReader): void {
    const pending = this.#pending.get(xid)
    if (pending === undefined) throw new BrokenFrame('an answer without a question')
    if (isOfServer(error)) throw new BrokenFrame(`${pending.what}: error ${error}`)
    this.#pending.delete(xid)
    if (error === 0) pending.resolve({ zxid, reader })
    else pending.reject(new KeeperRefused(error, pending.what))
  }

  #welcomed(socket: Socket, reader: JuteReader): void {
    reader.int()
    const sessionMs = reader.int()
    const id = reader.long()
    const password = reader.buffer()
    if (sessionMs <= 0) {
      // The session has ended. The next connection makes another.
      this.#forget()
      socket.destroy()
      return
    }
    const isNew = id !== this.#session.id
    this.#session = { id, password }
    this.#sessionMs = sessionMs
    this.#isConnected = true
    this.#failures = 0
    if (this.#isLost) inform(`Keeper hears this process again${isNew ? ', in a new session' : ''}`)
    this.#isLost = false
    socket.setTimeout(0)
    void this.#beat(socket)
    this.#beats = setInterval(() => void this.#beat(socket), sessionMs / 6)
    this.#options.onConnected(isNew)
  }

  /**
   * A write that changes nothing. A server answers pings alone, also while the others cannot hear
   * it and end its sessions; a write is answered when most servers have it and know the session.
   */
  async #beat(socket: Socket): Promise<void> {
    const sentMs = monotonicMs()
    const [oldest] = this.#pending.values()
    if (oldest !== undefined && sentMs - oldest.sentMs > (this.#sessionMs * 2) / 3) {
      socket.destroy()
      return
    }
    try {
      await this.multi([{ kind: 'check', path: '/', version: ANY }])
    } catch (error) {
      if (!(error instanceof KeeperRefused)) return // lost; a refusal is a sign of life too
    }
    this.#aliveMs = Math.max(this.#aliveMs, sentMs)
  }

  #notified(reader: JuteReader): void {
    reader.int()
    reader.int()
    this.#options.onWatched(reader.text())
  }

  #closed(socket: Socket): void {
    if (socket !== this.#socket || this.#isStopped) return
    const wasConnected = this.#isConnected
    if (wasConnected && !this.#isStopping) {
      const { host, port } = this.#options.servers[this.#server]!
      warn(`the connection to Keeper at ${host}:${port} broke: nothing is taken or answered without it`)
      this.#isLost = true
    }
    this.#ended(new KeeperLost('the connection broke before the answer'))
    if (!wasConnected && monotonicMs() - this.#aliveMs > 2 * this.#sessionMs) this.#forget()
    this.#failures += 1
    const [first, last] = RETRY_MS
    const wait = wasConnected ? 0 : Math.min(last, first * 2 ** Math.min(16, this.#failures - 1))
    this.#retry = setTimeout(() => this.#connect(), wait * (0.5 + Math.random() / 2))
  }

  /**
   * A server closes the connection of who has seen more than it has: it lags, or it was emptied. A
   * new session has to be made by most servers, so whoever answers it lags no more.
   */
  #forget(): void {
    this.#session = NO_SESSION
    this.#lastZxid = 0n
  }

  /** Watches end with their connection: who gets the next one reads again what it watches. */
  #ended(error: Error): void {
    clearInterval(this.#beats)
    this.#isConnected = false
    this.#socket = undefined
    const lost = [...this.#pending.values()]
    this.#pending.clear()
    for (const { reject } of lost) reject(error)
  }
}

/** True where the server failed, or has no such session any more: the request may yet be made. */
function isOfServer(error: number): boolean {
  return (error < 0 && error > KEEPER_ERROR.ofRequests) || SESSION_ERRORS.has(error)
}

/** Cuts a stream of bytes into frames, without their lengths. Throws BrokenFrame. */
function frameReader(onFrame: (frame: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return chunk => {
    rest = rest.byteLength === 0 ? chunk : Buffer.concat([rest, chunk])
    while (rest.byteLength >= 4) {
      const bytes = rest.readInt32BE()
      if (bytes < 0 || bytes > FRAME_BYTES_MAX) throw new BrokenFrame(`a frame of ${bytes} bytes`)
      if (rest.byteLength < 4 + bytes) break
      onFrame(rest.subarray(4, 4 + bytes))
      rest = rest.subarray(4 + bytes)
    }
  }
}
