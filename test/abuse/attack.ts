/**
 * An attack, and the raw sockets that attacks use.
 *
 * Attacks run beside a well-behaved producer (producer.ts). run.ts starts both, suite.ts makes a
 * test of each attack, and `npm run bench -- abuse` prints a table, also for an older build.
 */
import { connect, type Socket } from 'node:net'
import type { TestPool, TestServer } from '../util/server.ts'

/** An attack of some seconds. */
export interface Attack {
  readonly name: string
  readonly seconds?: number
  /** Further arguments of the server. */
  readonly args?: readonly string[]
  /** RLIMIT_NOFILE of the server. */
  readonly descriptorsMax?: number
  /** Prepares the server before the attack. Not measured. */
  prepare?(target: Target): Promise<void>
  /** Attacks until `target.over` resolves. Then its sockets are closed. */
  run(target: Target): Promise<void>
  /**
   * A request of another client, repeated during the attack. It fails if it rejects or takes over
   * PROBE_MS_MAX.
   */
  probe?(target: Target): Promise<void>
}

/** The server as an attack sees it. */
export interface Target {
  readonly server: TestServer
  readonly port: number
  /** The path of the webhook that is attacked; the producer has another. */
  readonly path: string
  readonly pool: TestPool
  /** Resolves when the attack is over. */
  readonly over: Promise<void>
  isOver(): boolean
  /**
   * Opens a socket. A failure closes it and is no error, because a server may refuse connections.
   */
  open(): Attacker
}

/** Waits `ms`, or until the attack is over. */
export function pauseOf(target: Target, ms: number): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, ms)
    void target.over.then(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** A raw connection of an attacker. It never fails with an error, whatever the server does. */
export class Attacker {
  readonly socket: Socket
  /** The first bytes that came back. */
  received = ''
  readonly closed: Promise<void>
  readonly connected: Promise<void>

  constructor(port: number) {
    const socket = connect(port, '127.0.0.1')
    this.socket = socket
    socket.setNoDelay(true)
    socket.on('error', () => undefined) // 'close' follows
    socket.on('data', data => {
      if (this.received.length < 1000) this.received += data.toString('latin1')
    })
    this.closed = new Promise(resolve => socket.once('close', () => resolve()))
    this.connected = new Promise(resolve => {
      socket.once('connect', resolve)
      socket.once('close', () => resolve())
    })
  }

  get isClosed(): boolean {
    return this.socket.closed || this.socket.destroyed
  }

  /** Writes, and resolves when the socket takes more or is closed. */
  async write(data: string | Uint8Array): Promise<void> {
    if (this.isClosed || this.socket.write(data)) return
    await Promise.race([this.closed, new Promise(resolve => this.socket.once('drain', resolve))])
  }

  /** Reads nothing from now on. */
  stopReading(): void {
    this.socket.pause()
  }

  close(): void {
    this.socket.destroy()
  }
}

/** The pause before a closed connection is opened again, as by a client that retries at once. */
const REOPEN_MS = 5

/**
 * Keeps `count` connections busy until the attack is over. Each one that ends is replaced, and
 * `behave` gets each.
 */
export async function keepBusy(
  target: Target,
  count: number,
  behave: (attacker: Attacker, index: number) => Promise<void>,
): Promise<void> {
  const one = async (index: number): Promise<void> => {
    while (!target.isOver()) {
      const attacker = target.open()
      await attacker.connected
      await behave(attacker, index)
      attacker.close()
      await pauseOf(target, REOPEN_MS)
    }
  }
  await Promise.all(Array.from({ length: count }, (_, index) => one(index)))
}
