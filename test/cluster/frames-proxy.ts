/** A connection to Keeper that sees each frame, and may hold, change or cut it. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

interface Seen {
  /** Counted from 0. */
  readonly connection: number
  /** Undefined for the first frame of a connection. */
  readonly operation: number | undefined
  readonly xid: number
  /** With its length. */
  readonly frame: Buffer
  /** Sends bytes to the server, and resolves with its next answer, which the client gets too. */
  ask(bytes: Buffer): Promise<Buffer>
  /** Breaks the connection of the client. That to the server stays. */
  cut(): void
}

interface FramesProxyOptions {
  /** What the server gets for a request; undefined for nothing. */
  onRequest?(seen: Seen): Buffer | undefined | Promise<Buffer | undefined>
  /** What the client gets for an answer. */
  onAnswer?(frame: Buffer): Buffer
}

export async function framesProxy(to: number, { onRequest, onAnswer }: FramesProxyOptions) {
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer(async near => {
    const connection = connections++
    const far = connect(to, '127.0.0.1')
    for (const socket of [near, far]) sockets.add(socket.on('error', () => {}))
    let isCut = false
    far.on('close', () => near.destroy())
    near.on('close', () => isCut || far.destroy())
    const answers = framesOf(frame => {
      far.emit('frame', frame)
      near.write(onAnswer?.(frame) ?? frame)
    })
    far.on('data', answers)
    const ask = async (bytes: Buffer) => {
      const answer = once(far, 'frame')
      far.write(bytes)
      return (await answer)[0] as Buffer
    }
    const cut = () => {
      isCut = true
      near.destroy()
    }
    let isFirst = true
    let turn = Promise.resolve()
    const requests = framesOf(frame => {
      const operation = isFirst ? undefined : frame.readInt32BE(8)
      isFirst = false
      turn = turn.then(async () => {
        const seen = { connection, operation, xid: frame.readInt32BE(4), frame, ask, cut }
        const passed = onRequest === undefined ? frame : await onRequest(seen)
        if (passed !== undefined) far.write(passed)
      })
    })
    near.on('data', requests)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { port: (server.address() as { port: number }).port }
}

function framesOf(onFrame: (frame: Buffer) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0)
  return chunk => {
    rest = Buffer.concat([rest, chunk])
    while (rest.byteLength >= 4 && rest.byteLength >= 4 + rest.readInt32BE()) {
      const bytes = 4 + rest.readInt32BE()
      onFrame(Buffer.from(rest.subarray(0, bytes)))
      rest = rest.subarray(bytes)
    }
  }
}
