/** A connection that can be made to stand still, as behind a network that drops packets. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** Passes bytes on until it is stopped; then connections stay open and nothing passes. */
export async function stoppableProxy(to: number) {
  const sockets = new Set<Socket>()
  let isStopped = false
  const server = createServer(near => {
    if (isStopped) return void sockets.add(near.on('error', () => {}).pause())
    const far = connect(to, '127.0.0.1')
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => into.destroy())
      from.on('close', () => into.destroy())
      from.pipe(into)
      sockets.add(from)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return {
    port: (server.address() as { port: number }).port,
    stop() {
      isStopped = true
      for (const socket of sockets) {
        socket.unpipe()
        socket.pause()
      }
    },
    go() {
      isStopped = false
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    },
  }
}
