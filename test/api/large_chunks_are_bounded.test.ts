/**
 * W-9: what uWebSockets.js keeps of a stream does not grow, however little the socket takes at a
 * time.
 */
import type { HttpResponse } from 'uWebSockets.js'
import { expect, test } from 'vitest'
import { type Connections, Unread } from '../../src/api/http/connections.ts'
import { StreamAhead } from '../../src/api/http/stream.ts'
import { STREAM_PROBE_BYTES, STREAM_WRITE_BYTES, UwsResponder } from '../../src/api/http/uws.ts'
import { STREAM_BACKED_BYTES } from '../../src/util/limits.ts'

/** A response whose socket takes as many bytes of each write as the test allows. */
class Socket {
  readonly written: number[] = []
  takes = false
  #onWritable: () => boolean = () => true
  readonly res = {
    onAborted: () => this.res,
    resume: () => this.res,
    cork: (call: () => void) => call(),
    writeStatus: () => this.res,
    writeHeader: () => this.res,
    write: (bytes: Uint8Array) => {
      this.written.push(bytes.byteLength)
      return this.takes
    },
    onWritable: (call: () => boolean) => {
      this.#onWritable = call
    },
  }

  /** Reports room in the socket. Returns the bytes that are written then. */
  writable(): number[] {
    this.written.length = 0
    this.#onWritable()
    return [...this.written]
  }
}

function streamInto(socket: Socket): StreamAhead {
  const connections = {
    open: 0,
    stopping: false,
    refusing: false,
    onReply: () => {},
    unread: new Unread(1000),
  } as never as Connections
  const responder = new UwsResponder(socket.res as never as HttpResponse, false, connections)
  responder.bodyRead = true
  const ahead = new StreamAhead(responder)
  responder.beginChunks(200, {})
  return ahead
}

test('a slow socket gets small chunks: a large chunk is written only after all kept bytes were taken', async () => {
  const socket = new Socket()
  const ahead = streamInto(socket)
  void ahead.take(new Uint8Array(4 * STREAM_BACKED_BYTES))
  expect(socket.written).toEqual([STREAM_WRITE_BYTES])
  for (let i = 0; i < 5; i++) expect(socket.writable()).toEqual([STREAM_PROBE_BYTES])
  socket.takes = true
  const [probe, ...large] = socket.writable()
  expect(probe).toBe(STREAM_PROBE_BYTES)
  expect(large.slice(0, 3)).toEqual([STREAM_BACKED_BYTES, STREAM_BACKED_BYTES, STREAM_BACKED_BYTES])
  // Outside of that call all fits in the cork buffer again.
  socket.written.length = 0
  void ahead.take(new Uint8Array(3 * STREAM_WRITE_BYTES))
  expect(socket.written).toEqual(Array(3).fill(STREAM_WRITE_BYTES))
})
