/**
 * A body as it was received: how it is signed, encoded and written. The parse worker makes the JSON
 * document of it that the kernel parses and the log keeps (prepare-body.ts).
 *
 * A plain JSON body of a source without such settings has none of this, and costs nothing more.
 */
import type { HandshakeKind, HandshakeReply } from '../../format/handshake.ts'
import type { SignedHead } from '../../format/sender.ts'
import type { BodyRefusal } from './body-error.ts'
import type { BodyFormat } from './body-format.ts'

export type BodyEncoding = 'identity' | 'gzip' | 'zstd'

export interface Received {
  readonly encoding: BodyEncoding
  readonly format: BodyFormat
  /** Absent for a source that takes unsigned requests. */
  readonly signature?: {
    /** SignatureSettings as JSON: workers keep the keys of each text. */
    readonly settings: string
    readonly head: SignedHead
  }
  /** The handshakes that may stand in the body, with the headers that they read. */
  readonly handshakes?: {
    readonly kinds: readonly HandshakeKind[]
    readonly headers: Readonly<Record<string, string>>
  }
  /** The request was refused by its head. Its body is read so that its text can be kept. */
  readonly refused?: { readonly refusal: BodyRefusal; readonly contentType: string | null }
}

/** The answer to a body that the kernel does not see: it was refused, or it is a handshake. */
export type EarlyAnswer = BodyRefusal | HandshakeReply
