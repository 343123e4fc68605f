/** One admitted ingest request: its body's place in a slab and its way back. */
import type { Admission } from './admit.ts'
import type { Responder } from './reply.ts'
import type { Slab } from './slab.ts'

/**
 *   new       no byte of the body seen
 *   waiting   no room: the bytes seen are held, the socket is paused
 *   placed    the body goes into its place in a slab
 *   ready     the body is complete in its slab; the slab's user until the end
 *   over      answered before that, or gone
 */
type RequestState = 'new' | 'waiting' | 'placed' | 'ready' | 'over'

const NO_BYTES = new Uint8Array(0)

export class IngestRequest {
  readonly admission: Admission
  readonly responder: Responder
  state: RequestState = 'new'
  slab: Slab<IngestRequest> | undefined
  /** Byte offset of the body in the slab. */
  offset = 0
  /** Bytes kept for the body in the slab. */
  capacity = 0
  /** Bytes of the body in the slab so far. */
  bytes = 0
  /** Of a complete body: its bytes decoded, and those of its batch, are no more (job.ts). */
  bytesMax = 0
  cutBytesMax = 0
  /** Bytes that have no place yet are its first `heldBytes`. */
  held: Uint8Array = NO_BYTES
  heldBytes = 0
  /** The last chunk was seen. */
  complete = false
  /** Wall clock, whole milliseconds, when the body was complete. */
  receivedAtMs = 0
  /** Monotonic: when the last chunk came; kept for bodies of more than one piece. */
  progressMs = 0
  /** Monotonic: when waiting ends with 429, or the body with 408. */
  untilMs = 0

  constructor(admission: Admission, responder: Responder) {
    this.admission = admission
    this.responder = responder
  }
}
