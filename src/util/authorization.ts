/**
 * Reads an `Authorization` header. The ingest route and every control route share this parser. It
 * reads each character once, in linear time: a regular expression with two adjacent repetitions
 * took seconds for 60,000 spaces.
 */
import { createHash } from 'node:crypto'
import { AUTHORIZATION_CHARACTERS_MAX } from './limits.ts'

/** The two parts of a header such as `Basic dXNlcjpwYXNz`. */
interface Authorization {
  /** In lower case: `basic`, `bearer`. */
  readonly scheme: string
  /** The text after the scheme, without spaces around it. It may be empty. */
  readonly value: string
}

const SPACE = 0x20

/** Scheme and value of a header; undefined for a missing header and for one that is too long. */
export function readAuthorization(header: string | undefined): Authorization | undefined {
  if (header === undefined || header === '' || header.length > AUTHORIZATION_CHARACTERS_MAX) return undefined
  const space = header.indexOf(' ')
  if (space < 0) return { scheme: header.toLowerCase(), value: '' }
  let from = space
  let to = header.length
  while (from < to && header.charCodeAt(from) === SPACE) from += 1
  while (to > from && header.charCodeAt(to - 1) === SPACE) to -= 1
  return { scheme: header.slice(0, space).toLowerCase(), value: header.slice(from, to) }
}

/** Base64 and base64url, with or without padding. One repetition of one class takes linear time. */
const BASE64 = /^[A-Za-z0-9+/_=-]*$/

/**
 * `user:password` of a Basic header; empty where it is not base64, undefined for another scheme.
 */
export function readBasic(header: string | undefined): Buffer | undefined {
  const read = readAuthorization(header)
  if (read?.scheme !== 'basic') return undefined
  return Buffer.from(BASE64.test(read.value) ? read.value : '', 'base64')
}

/** The token of a Bearer header; undefined for another scheme and for a token with a space. */
export function readBearer(header: string | undefined): string | undefined {
  const read = readAuthorization(header)
  if (read?.scheme !== 'bearer' || read.value === '' || read.value.includes(' ')) return undefined
  return read.value
}

/** SHA-256 of a secret, for timingSafeEqual, which needs two values of equal length. */
export function secretDigest(secret: string | Uint8Array): Buffer {
  return createHash('sha256').update(secret).digest()
}
