/**
 * Verifies the signature of a request over its bytes as they were received: one verifier for all
 * schemes (signature-schemes.ts).
 *
 * Each secret makes its signature of the request, and each is compared with every signature that
 * the request has, in constant time and without an early end. So neither the work nor its time
 * tells how much of a wrong signature was right, and no answer holds the right one.
 *
 * A replay within the tolerance passes: the id of the delivery as the pool's key makes it harmless.
 */

import { createHmac, type KeyObject, timingSafeEqual, verify } from 'node:crypto'
import type { SignatureError, SignatureSettings, SignedHead } from '../../format/sender.ts'
import { secretDigest } from '../../util/authorization.ts'
import { getOrMake } from '../../util/get-or-make.ts'
import { KiB } from '../../util/limits.ts'
import { withoutMark } from '../json-scan.ts'
import { TimeReader } from '../timestamp.ts'
import type { Key } from './signature-keys.ts'
import { type Encoding, type Form, formOf, formsOf, type Place } from './signature-schemes.ts'
import { fillIn, type Pieces } from './signed-text.ts'

/**
 * Signatures of a request that are tried; further ones are ignored. A sender whose secret is
 * rotated sends two.
 */
const SIGNATURES_MAX = 10
/**
 * Checks of a signature with a public key, each of some 0.1 ms: with more than one key, fewer
 * signatures are tried. So whoever sends ten wrong ones takes a millisecond, whatever the keys.
 */
const PUBLIC_KEY_CHECKS_MAX = 10
/** Characters of a header that is read; a longer one is malformed. */
const HEADER_CHARACTERS_MAX = 8 * KiB

/**
 * Only ASCII has the same bytes in every encoding, so only ASCII can be signed safely.
 * REPEATED_HEADER is a control character.
 */
const PRINTABLE_ASCII = /^[\x20-\x7e]+$/

/** A form of the scheme, with the keys of the secrets that it takes. */
interface KeyedForm {
  readonly form: Form
  readonly keys: readonly Key[]
}

/** The keys of settings are made once, and live as long as the settings. */
const keyedForms = new WeakMap<SignatureSettings, readonly KeyedForm[]>()

/** Lower-case names of the headers that `verifySignature` reads with these settings. */
export function signatureHeaders(settings: SignatureSettings): readonly string[] {
  return [...new Set(keyedFormsOf(settings).flatMap(({ form }) => headersOf(form)))]
}

/**
 * Returns undefined where one of the secrets signed the request, else the failed part of the check.
 * @param body as received, before it is inflated; it may be in shared memory
 */
export function verifySignature(
  settings: SignatureSettings,
  head: SignedHead,
  body: Uint8Array,
): SignatureError | undefined {
  const errors = keyedFormsOf(settings).map(keyed => checkForm(keyed, settings.toleranceSeconds, head, body))
  return errors.includes(undefined) ? undefined : (FURTHEST.find(error => errors.includes(error)) ?? MISMATCH)
}

const MISMATCH: SignatureError = 'signature_mismatch'

/** Where the forms of a scheme have different errors, that of the latest check is answered. */
const FURTHEST: readonly SignatureError[] = [
  MISMATCH,
  'signature_expired',
  'signature_malformed',
  'signature_missing',
]

/** A secret that cannot be read is left out, so nothing passes by it. */
function keyedFormsOf(settings: SignatureSettings): readonly KeyedForm[] {
  return getOrMake(keyedForms, settings, () => {
    const forms = formsOf(settings)
    return forms
      .map(form => ({
        form,
        keys: settings.secrets
          .filter(secret => secret !== '' && formOf(forms, secret) === form)
          .map(secret => form.key.read(secret))
          .filter(key => key !== undefined),
      }))
      .filter(({ keys }) => keys.length > 0)
  })
}

function headersOf({ signature, timestamp, idHeader }: Form): string[] {
  const names = [signature.header]
  if (timestamp !== undefined && 'header' in timestamp) names.push(timestamp.header)
  if (idHeader !== undefined) names.push(idHeader)
  return names
}

function checkForm(
  { form, keys }: KeyedForm,
  toleranceSeconds: number | null,
  head: SignedHead,
  body: Uint8Array,
): SignatureError | undefined {
  const { signature, encoding, algorithm, timestamp, idHeader } = form
  const problem = headersProblem(headersOf(form), head)
  if (problem !== undefined) return problem
  const sent = itemsOf(signature, head)
    .slice(0, SIGNATURES_MAX)
    .map(text => decode(text, encoding, algorithm))
    .filter(bytes => bytes !== undefined)
  if (sent.length === 0) return 'signature_malformed'

  const inHeader = timestamp !== undefined && 'header' in timestamp
  const times = inHeader ? itemsOf(timestamp, head) : []
  if (inHeader && times.length !== 1) return 'signature_malformed'
  const timeProblem = (text: string | undefined) =>
    timestampProblem(text, toleranceSeconds ?? form.toleranceSeconds, head.receivedAtMs)
  const early = inHeader ? timeProblem(times[0]) : undefined
  if (early !== undefined) return early

  const id = idHeader === undefined ? '' : head.headers[idHeader]!
  const request = { head, body, id, timestamp: times[0] ?? '' }
  const texts = form.signed.map(template => fillIn(template, request))
  if (texts.includes(undefined) || !isSigned(form, keys, texts as Pieces[], sent)) return MISMATCH
  // A time in the body is read after its signature has been verified.
  return timestamp === undefined || inHeader ? undefined : timeProblem(numberIn(body, timestamp.property))
}

function headersProblem(names: readonly string[], { headers }: SignedHead): SignatureError | undefined {
  for (const name of names)
    if (!Object.hasOwn(headers, name) || headers[name] === '') return 'signature_missing'
  for (const name of names) {
    const value = headers[name]!
    if (value.length > HEADER_CHARACTERS_MAX || !PRINTABLE_ASCII.test(value)) return 'signature_malformed'
  }
  return undefined
}

/** The items at a place, without their prefix. */
function itemsOf({ header, separator, prefix = '' }: Place, { headers }: SignedHead): string[] {
  const value = headers[header]!
  const items = separator === undefined ? [value] : value.split(separator)
  return items.filter(item => item.startsWith(prefix)).map(item => item.slice(prefix.length))
}

const SIGNATURE_BYTES = { SHA1: 20, SHA256: 32, SHA384: 48, SHA512: 64, ED25519: 64 }

/** The bytes of a signature; undefined where it is not written as the form's are. */
function decode(text: string, encoding: Encoding, algorithm: Form['algorithm']): Buffer | undefined {
  if (algorithm === 'TOKEN') return secretDigest(text)
  const bytes = decodeText(text, encoding)
  const isWhole = algorithm === 'P256' || bytes?.length === SIGNATURE_BYTES[algorithm]
  return isWhole ? bytes : undefined
}

/** Decodes what its own encoder would have written, and nothing else. */
function decodeText(text: string, encoding: Encoding): Buffer | undefined {
  if (encoding === 'HEX_ANY_CASE') return decodeText(text.toLowerCase(), 'HEX')
  const name = encoding === 'HEX' ? 'hex' : encoding === 'BASE64URL' ? 'base64url' : 'base64'
  const bytes = Buffer.from(text, name)
  const written = name === 'base64url' ? text.replace(/=/g, '') : text
  return bytes.toString(name) === written ? bytes : undefined
}

/** True when one of the keys made one of the signatures of one of the texts. */
function isSigned(
  { algorithm }: Form,
  keys: readonly Key[],
  texts: readonly Pieces[],
  sent: readonly Buffer[],
): boolean {
  if (algorithm === 'ED25519' || algorithm === 'P256')
    return texts.some(text => isSignedByOwner(algorithm, keys as readonly KeyObject[], text, sent))
  let signed = false
  for (const key of keys as readonly Buffer[])
    if (algorithm === 'TOKEN') signed = isAnyOf(sent, key) || signed
    else for (const text of texts) signed = isAnyOf(sent, hmac(algorithm, key, text)) || signed
  return signed
}

function hmac(algorithm: string, key: Buffer, text: Pieces): Buffer {
  const made = createHmac(algorithm, key)
  for (const piece of text) made.update(piece)
  return made.digest()
}

/** All of them have the length of `made`. */
function isAnyOf(sent: readonly Buffer[], made: Buffer): boolean {
  let found = false
  for (const bytes of sent) found = timingSafeEqual(bytes, made) || found
  return found
}

/** A public key is no secret, so this may end early. */
function isSignedByOwner(
  algorithm: 'ED25519' | 'P256',
  keys: readonly KeyObject[],
  text: Pieces,
  sent: readonly Buffer[],
): boolean {
  const hash = algorithm === 'P256' ? 'sha256' : null
  const bytes = Buffer.concat(text.map(piece => (typeof piece === 'string' ? Buffer.from(piece) : piece)))
  const tried = sent.slice(0, Math.floor(PUBLIC_KEY_CHECKS_MAX / keys.length))
  return keys.some(key => tried.some(signature => verify(hash, bytes, key, signature)))
}

function timestampProblem(
  text: string | undefined,
  toleranceSeconds: number | undefined,
  receivedAtMs: number,
): SignatureError | undefined {
  const signedAtMs = text === undefined ? Number.NaN : timestampMs(text)
  if (Number.isNaN(signedAtMs)) return 'signature_malformed'
  const isNear = Math.abs(receivedAtMs - signedAtMs) <= 1000 * (toleranceSeconds ?? 0)
  return isNear ? undefined : 'signature_expired'
}

/** An epoch number below this is in seconds, as in a TIMESTAMP column. */
const SECONDS_BELOW = 1e11
const timeReader = new TimeReader()

/** Milliseconds since 1970 of epoch seconds, epoch milliseconds or RFC 3339; else NaN. */
function timestampMs(text: string): number {
  if (/^\d{1,14}$/.test(text)) return Number(text) < SECONDS_BELOW ? 1000 * Number(text) : Number(text)
  const bytes = Buffer.from(text)
  if (!timeReader.timestamp(bytes, 0, bytes.length)) return Number.NaN
  return 1000 * timeReader.seconds + timeReader.micros / 1000
}

/** The text of a number in a signed body of JSON; undefined where there is none of that name. */
function numberIn(body: Uint8Array, property: string): string | undefined {
  try {
    const { buffer, byteOffset, byteLength } = withoutMark(body)
    const text = Buffer.from(buffer, byteOffset, byteLength).toString()
    const value = (JSON.parse(text) as Record<string, unknown> | null)?.[property]
    return typeof value === 'number' ? String(value) : undefined
  } catch {
    return undefined
  }
}
