/** A connection between two parts of a cluster that a fault takes for a while. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { atEnd } from './at-end.ts'

export const LINK_FAULTS = ['cut', 'silent', 'half-closed', 'slow'] as const
export type LinkFault =
  /** Connections break, and nobody gets another one. */
  | 'cut'
  /** Nothing passes until it ends; then what was sent meanwhile comes. */
  | 'silent'
  /** What is asked comes, and the answer is the end of the connection. */
  | 'half-closed'
  /** Each piece comes late. */
  | 'slow'

const SLOW_MS = 300

export class Link {
  readonly #sockets = new Set<Socket>()
  readonly #to: number
  #fault: LinkFault | undefined
  /** While it is silent: resolves when that ends. */
  #silence = Promise.resolve()
  #mend = () => {}
  port = 0

  private constructor(to: number) {
    this.#to = to
  }

  /** To a port of loopback. It ends with the test. */
  static async to(to: number): Promise<Link> {
    const link = new Link(to)
    const server = createServer({ allowHalfOpen: true }, near => link.#join(near))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    link.port = (server.address() as { port: number }).port
    atEnd(() => {
      server.close()
      for (const socket of link.#sockets) socket.destroy()
    })
    return link
  }

  break(fault: LinkFault): void {
    this.#fault = fault
    if (fault === 'cut') for (const socket of this.#sockets) socket.destroy()
    if (fault === 'silent')
      this.#silence = new Promise(resolve => {
        this.#mend = resolve
      })
  }

  mend(): void {
    this.#fault = undefined
    this.#mend()
  }

  #join(near: Socket): void {
    near.on('error', () => {}) // its end is what counts
    if (this.#fault === 'cut') {
      near.destroy()
      return
    }
    const far = connect({ port: this.#to, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
    const both = [near, far]
    for (const socket of both) {
      this.#sockets.add(socket.setNoDelay())
      socket.on('close', () => {
        for (const each of both) each.destroy()
        this.#sockets.delete(socket)
      })
    }
    void this.#pass(near, far, () => true)
    void this.#pass(far, near, () => {
      if (this.#fault !== 'half-closed') return true
      near.end()
      return false
    })
  }

  async #pass(from: Socket, into: Socket, takes: () => boolean): Promise<void> {
    try {
      for await (const chunk of from) {
        if (this.#fault === 'slow') await new Promise(resolve => setTimeout(resolve, SLOW_MS))
        if (this.#fault === 'silent') await this.#silence
        if (takes() && into.writable) into.write(chunk as Buffer)
      }
      into.end()
    } catch {
      into.destroy()
    }
  }
}
