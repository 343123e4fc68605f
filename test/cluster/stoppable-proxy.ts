/** A connection that can be made to stand still, as behind a network that drops packets. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished } from 'vitest'

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

/** Stops a process as a busy machine does. Resolves when none of its threads runs. */
export async function standStill({ pid }: ChildProcess): Promise<void> {
  process.kill(pid!, 'SIGSTOP')
  const isStopped = () =>
    readdirSync(`/proc/${pid}/task`).every(task =>
      / T /.test(readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8').replace(/^.*\)/, '')),
    )
  await expect.poll(isStopped, { interval: 5 }).toBe(true)
}
