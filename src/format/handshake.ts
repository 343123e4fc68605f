/**
 * Handshakes: requests by which a sender asks whether a webhook wants its events. A sender posts
 * events only after the answer that it expects. A handshake stores nothing.
 *
 * A source answers the handshakes of its preset, of its signature scheme and of its verify token,
 * and no others. parse/sender/body-handshake.ts answers those that stand in a body, and
 * api/ingest/handshakes.ts those that need no body.
 */
import type { SignatureScheme } from './sender.ts'

export type HandshakeKind =
  | 'ASANA'
  | 'CLOUDEVENTS'
  | 'DISCORD'
  | 'DROPBOX'
  | 'EVENT_GRID'
  | 'HEAD'
  | 'META'
  | 'MICROSOFT_GRAPH'
  | 'OKTA'
  | 'SLACK'
  | 'TWITCH'
  | 'ZOOM'

/** The answer to a handshake. It is sent with `X-Content-Type-Options: nosniff`. */
export interface HandshakeReply {
  readonly status: number
  readonly contentType: string
  /** "" sends no body. */
  readonly body: string
}

/**
 * Bytes in UTF-8 of a text that an answer repeats. The senders' texts have up to some 200 bytes. A
 * request with a longer one is no handshake.
 */
const ECHO_BYTES_MAX = 1_024

/** True for a text that an answer may repeat. */
export function mayEcho(text: string): boolean {
  return text !== '' && Buffer.byteLength(text) <= ECHO_BYTES_MAX
}

const BY_SCHEME: Readonly<Partial<Record<SignatureScheme, HandshakeKind>>> = {
  DISCORD: 'DISCORD',
  SLACK: 'SLACK',
  TWITCH: 'TWITCH',
  ZOOM: 'ZOOM',
}

/**
 * The handshakes that a source answers. @param ofPreset those of its preset
 * @param scheme null where the source takes unsigned requests
 * @param verifyToken null where the source has none
 */
export function handshakesOf(
  ofPreset: readonly HandshakeKind[],
  scheme: SignatureScheme | null,
  verifyToken: string | null,
): readonly HandshakeKind[] {
  const kinds = new Set(ofPreset)
  const byScheme = scheme === null ? undefined : BY_SCHEME[scheme]
  if (byScheme !== undefined) kinds.add(byScheme)
  if (verifyToken !== null && verifyToken !== '') kinds.add('META')
  return [...kinds]
}
