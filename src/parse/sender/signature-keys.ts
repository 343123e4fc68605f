/**
 * Secrets and public keys, from the text that a vendor shows to the key that checks signatures.
 * A text that cannot be read gives undefined, so a source with it accepts nothing.
 */
import { createPublicKey, type KeyObject } from 'node:crypto'
import { secretDigest } from '../../util/authorization.ts'

/** The bytes of a secret, or a public key. */
export type Key = Buffer | KeyObject

/** A way in which vendors write secrets. */
export interface KeyKind {
  /** The key of a text; undefined where the text has another form. */
  readonly read: (secret: string) => Key | undefined
  /** The form, for the message to whoever gave another one. */
  readonly wanted: string
}

/** The bytes of the text itself. */
export const TEXT: KeyKind = { read: secret => Buffer.from(secret), wanted: 'a text' }

/** A text that stands in a header, so it is ASCII. Digests of texts have one length. */
export const TOKEN: KeyKind = {
  read: secret => (VISIBLE_ASCII.test(secret) ? secretDigest(secret) : undefined),
  wanted: 'the secret token of visible ASCII characters, or a signing token: whsec_ and base64',
}

/** Base64, with or without `whsec_` before it, as Standard Webhooks and Svix write it. */
export const WHSEC: KeyKind = {
  read(secret) {
    const bytes = readBase64(secret.startsWith('whsec_') ? secret.slice('whsec_'.length) : secret)
    return bytes?.length === 0 ? undefined : bytes
  },
  wanted: 'a secret: whsec_ and base64, or a public key: whpk_ and base64 of 32 bytes',
}

/** `whpk_` and an Ed25519 public key in base64, as Standard Webhooks and Svix write it. */
export const WHPK: KeyKind = {
  read: secret => ed25519Key(readBase64(secret.slice('whpk_'.length))),
  wanted: 'a public key: whpk_ and base64 of 32 bytes',
}

/** An Ed25519 public key in hexadecimal digits, as Discord's developer portal shows it. */
export const ED25519_HEX: KeyKind = {
  read: secret => (/^[0-9a-f]{64}$/i.test(secret) ? ed25519Key(Buffer.from(secret, 'hex')) : undefined),
  wanted: "the application's public key: 64 hexadecimal digits",
}

/** The base64 of a P-256 public key (SubjectPublicKeyInfo), as SendGrid's settings show it. */
export const P256_SPKI: KeyKind = {
  read: secret => p256Key(readBase64(secret)),
  wanted: 'the verification key: base64 of a P-256 public key',
}

const VISIBLE_ASCII = /^[\x21-\x7e]+$/

/** Base64 in its one right form; padding may lack. */
function readBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  const padded = bytes.toString('base64')
  return text === padded || text === padded.replace(/=/g, '') ? bytes : undefined
}

/**
 * Encodings of the points of small order, without their sign bit; libsodium refuses the same ones.
 * With such a key, and all zeros are one, whoever wants to can make signatures that pass.
 */
const SMALL_ORDER = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
])

function ed25519Key(bytes: Buffer | undefined): KeyObject | undefined {
  if (bytes?.length !== 32) return undefined
  const unsigned = Buffer.from(bytes)
  unsigned[31]! &= 0x7f
  if (SMALL_ORDER.has(unsigned.toString('hex'))) return undefined
  return createPublicKey({
    format: 'jwk',
    key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') },
  })
}

function p256Key(bytes: Buffer | undefined): KeyObject | undefined {
  if (bytes === undefined) return undefined
  try {
    const key = createPublicKey({ key: bytes, format: 'der', type: 'spki' })
    return key.asymmetricKeyDetails?.namedCurve === 'prime256v1' ? key : undefined
  } catch {
    return undefined
  }
}
