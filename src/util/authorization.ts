/**
 * Reads an `Authorization` header, for the ingest route and every control route, in linear time: a
 * regular expression with two adjacent repetitions took seconds for 60,000 spaces.
 */
import { createHash } from 'node:crypto'
import { AUTHORIZATION_CHARACTERS_MAX } from './limits.ts'

/**
 * The scheme in lower case, and the text behind it, which may be empty; undefined for a missing
 * header and for one that is too long.
 */
export function readAuthorization(header: string | undefined): { scheme: string; value: string } | undefined {
  if (header === undefined || header === '' || header.length > AUTHORIZATION_CHARACTERS_MAX) return undefined
  const space = header.indexOf(' ')
  if (space < 0) return { scheme: header.toLowerCase(), value: '' }
  return { scheme: header.slice(0, space).toLowerCase(), value: header.slice(space).trim() }
}

/** Base64 and base64url, with or without padding. One repetition of one class takes linear time. */
const BASE64 = /^[A-Za-z0-9+/_=-]*$/

/** `user:password` of a Basic header, empty if it is not base64; undefined for another scheme. */
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
