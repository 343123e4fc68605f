/**
 * The settings of a webhook for foreign senders (format/sender.ts) as callers give them: filled by
 * the preset, checked, and changed later.
 *
 * A preset that signs needs the sender's secret. Where the operator makes the secret and gives
 * none, a random one is made. A webhook with such a preset takes unsigned requests only where the
 * caller says so with `signatureEnabled: false`, such as while the sender has not shown its secret.
 */
import { randomBytes } from 'node:crypto'
import {
  type GenericHmac,
  type SenderSettings,
  SIGNATURE_SECRETS_MAX,
  type SignatureSettings,
} from '../../format/sender.ts'
import { type Form, formOf, formsOf } from '../../parse/sender/signature-schemes.ts'
import { PLACEHOLDERS, splitTemplate } from '../../parse/sender/signed-text.ts'
import { CREDENTIAL_BYTES_MAX, SECRET_BYTES } from '../../util/limits.ts'
import { likelyName } from '../../util/misspelt.ts'
import type { BadRequest, NewWebhookSource, SenderGiven, SignatureGiven } from '../documents/catalog-types.ts'
import type { Preset } from '../presets/preset.ts'
import { PRESET_NAMES, presetNamed } from '../presets.ts'
import { orNull, textProblem } from './rules.ts'

/** Of an unknown preset, in a message. */
const NAME_CHARACTERS_SHOWN = 64

type Refusable<T> = T | BadRequest

/** A signature without a secret cannot be checked; it is the base of one that gets secrets. */
type Base = SignatureSettings | null

/**
 * The input with what the preset fills: columns, key and eventsPath where the caller left them out.
 * The key is filled as a whole, and only beside the preset's columns, because it names them.
 */
export function filledByPreset(input: NewWebhookSource): NewWebhookSource {
  const preset = presetNamed(input.preset)
  if (preset === undefined) return input
  const { columns, timestamp, uniqueId, orderBy } = preset
  const hasColumns = (input.columns ?? []).length > 0
  const hasKey = orNull(input.timestamp) ?? orNull(input.uniqueId) ?? input.tableSettings ?? null
  return {
    ...input,
    eventsPath: orNull(input.eventsPath) ?? preset.eventsPath,
    ...(hasColumns ? {} : { columns }),
    ...(hasColumns || hasKey !== null
      ? {}
      : { timestamp, uniqueId, tableSettings: orderBy === null ? null : { orderBy } }),
  }
}

/** The settings of a new source, null where it has none. */
export function newSender(given: SenderGiven): Refusable<SenderSettings | null> {
  const name = orNull(given.preset)
  const preset = presetNamed(name)
  if (name !== null && preset === undefined) return unknownPreset(name)
  const base = presetSignature(preset, preset?.secret === 'OWN' ? [randomSecret()] : [])
  const asked = given.signatureEnabled === false ? null : (given.signature ?? (base === null ? null : {}))
  const signature = asked === null ? null : readSignature(asked, base, preset)
  if (signature !== null && 'badRequest' in signature) return signature
  const token = preset?.handshakes.includes('META') === true ? randomSecret() : null
  return checkedSender({
    accept: given.accept ?? preset?.accept ?? [],
    signature,
    preset: name,
    verifyToken: orNull(given.verifyToken) ?? token,
  })
}

/** The settings after a change. "" clears a text, and absent and null leave it as it is. */
export function changedSender(
  before: SenderSettings | null,
  given: SenderGiven,
): Refusable<SenderSettings | null> {
  const name = orNull(given.preset ?? before?.preset)
  const preset = presetNamed(name)
  // A later version may lack the preset that a source was made with.
  if (name !== null && preset === undefined && name !== before?.preset) return unknownPreset(name)
  const old = before?.signature ?? null
  const asked = given.signatureEnabled === false ? null : given.signature
  const changed = asked ? readSignature(asked, old ?? presetSignature(preset, []), preset) : old
  const signature = given.signatureEnabled === false ? null : changed
  if (signature !== null && 'badRequest' in signature) return signature
  return checkedSender({
    accept: given.accept ?? before?.accept ?? [],
    signature,
    preset: name,
    verifyToken: orNull(given.verifyToken ?? before?.verifyToken),
  })
}

/**
 * The settings with a secret that the sender handed over. The newest secret is the first: each
 * webhook at the sender has its own, and the oldest one goes where there are too many.
 */
export function withSecret(
  before: SenderSettings,
  secret: string,
  secretsMax: number,
): SenderSettings | null {
  const base = before.signature ?? presetSignature(presetNamed(before.preset), [])
  if (base === null) return null
  const others = base.secrets.filter(each => each !== secret)
  return { ...before, signature: { ...base, secrets: [secret, ...others].slice(0, secretsMax) } }
}

function checkedSender(settings: SenderSettings): Refusable<SenderSettings | null> {
  const { accept, signature, verifyToken } = settings
  const badRequest =
    textProblem('verifyToken', verifyToken, CREDENTIAL_BYTES_MAX) ??
    // Callers give the parameters of GENERIC_HMAC as fields of the signature itself.
    (signature && signatureProblem(signature))?.replaceAll('signature.generic.', 'signature.')
  if (badRequest !== undefined) return { badRequest }
  const isNone = Object.values(settings)
    .flat()
    .every(value => value === null)
  return isNone ? null : { ...settings, accept: [...new Set(accept)] }
}

/** @param base what the caller leaves out is taken from it, unless he gives another scheme */
function readSignature(
  given: SignatureGiven,
  base: Base,
  preset: Preset | undefined,
): Refusable<SignatureSettings> {
  const scheme = given.scheme ?? base?.scheme
  if (scheme === undefined)
    return { badRequest: 'signature.scheme is missing: it says how requests are signed.' }
  const same = base?.scheme === scheme ? base : null
  const generic = readGeneric(given, scheme, same?.generic ?? null)
  if (generic !== null && 'badRequest' in generic) return generic
  const secrets = given.secrets ?? same?.secrets ?? []
  if (secrets.length === 0) return { badRequest: noSecret(scheme, preset) }
  const toleranceSeconds = given.toleranceSeconds ?? same?.toleranceSeconds ?? null
  return { scheme, secrets, toleranceSeconds, generic }
}

function noSecret(scheme: string, preset: Preset | undefined): string {
  const who = preset === undefined ? `The signature scheme ${scheme}` : `The preset of ${preset.title}`
  return `${who} needs a secret: give it in signature.secrets. Where the sender shows its secret only later, create the webhook with signatureEnabled: false, which takes unsigned requests until signature.secrets is given by a change.`
}

function readGeneric(
  given: SignatureGiven,
  scheme: string,
  base: GenericHmac | null,
): Refusable<GenericHmac | null> {
  const { header, algorithm, encoding, prefix, signed, timestampHeader, idHeader } = given
  const fields = { header, algorithm, encoding, prefix, signed, timestampHeader, idHeader }
  const stray = Object.entries(fields).find(([, value]) => value !== null && value !== undefined)
  if (scheme !== 'GENERIC_HMAC')
    return stray === undefined
      ? null
      : { badRequest: `signature.${stray[0]} is for GENERIC_HMAC, and the scheme is ${scheme}.` }
  const name = lower(header) ?? base?.header
  if (name === undefined)
    return { badRequest: 'signature.header is missing: GENERIC_HMAC needs the header with the signature.' }
  return {
    header: name,
    algorithm: algorithm ?? base?.algorithm ?? 'SHA256',
    encoding: encoding ?? base?.encoding ?? 'HEX',
    prefix: prefix ?? base?.prefix ?? '',
    signed: signed ?? base?.signed ?? '{body}',
    timestampHeader: lower(timestampHeader) ?? base?.timestampHeader ?? null,
    idHeader: lower(idHeader) ?? base?.idHeader ?? null,
  }
}

/** Names of headers have no case. */
function lower(name: string | null | undefined): string | undefined {
  return orNull(name)?.toLowerCase()
}

function presetSignature(preset: Preset | undefined, secrets: readonly string[]): Base {
  return preset?.signature ? { ...preset.signature, secrets, toleranceSeconds: null } : null
}

function randomSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

function unknownPreset(name: string): BadRequest {
  const likely = likelyName(name, PRESET_NAMES)
  const meant = likely === undefined ? '' : ` ${likely} may be meant.`
  return {
    badRequest: `There is no preset ${JSON.stringify(name.slice(0, NAME_CHARACTERS_SHOWN))}.${meant} There are ${PRESET_NAMES.join(', ')}.`,
  }
}

/** Bytes of a secret in UTF-8. The longest that a vendor gives is SendGrid's key of 124. */
const SECRET_BYTES_MAX = 1_024
/** A week: nobody's clock is further off, and no sender repeats a delivery for longer. */
const TOLERANCE_SECONDS_MAX = 7 * 86_400
/** Characters of a template. */
const TEMPLATE_CHARACTERS_MAX = 1_024

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,128}$/
const PREFIX = /^[\x20-\x7e]{0,64}$/
const SURROGATE = /\p{Surrogate}/u

/**
 * The sentence that says why a source cannot have these settings; undefined where it can. So no
 * typing error accepts everything, or nothing. It names a secret by its position, and never repeats
 * it.
 */
export function signatureProblem(settings: SignatureSettings): string | undefined {
  const { scheme, secrets, generic } = settings
  if (scheme === 'GENERIC_HMAC' && generic === null)
    return 'signature.generic is missing: it says how GENERIC_HMAC signs.'
  if (scheme !== 'GENERIC_HMAC' && generic !== null)
    return `signature.generic is for GENERIC_HMAC, and the scheme is ${scheme}.`
  if (secrets.length === 0 || secrets.length > SIGNATURE_SECRETS_MAX)
    return `signature.secrets has ${secrets.length} entries: a source has 1 to ${SIGNATURE_SECRETS_MAX}.`
  const wrong = generic === null ? undefined : genericProblem(generic)
  if (wrong !== undefined) return wrong
  const forms = formsOf(settings)
  for (const [index, secret] of secrets.entries()) {
    const problem = secretProblem(forms, secret)
    if (problem !== undefined) return `signature.secrets[${index}] ${problem}.`
  }
  return toleranceProblem(settings, forms)
}

function secretProblem(forms: readonly Form[], secret: string): string | undefined {
  if (secret === '') return 'is empty'
  if (Buffer.byteLength(secret) > SECRET_BYTES_MAX) return `is longer than ${SECRET_BYTES_MAX} bytes`
  if (SURROGATE.test(secret)) return 'holds an unpaired surrogate'
  if (secret !== secret.trim()) return 'begins or ends with white space'
  const key = formOf(forms, secret)?.key
  return key?.read(secret) === undefined ? `is not ${key?.wanted}` : undefined
}

function toleranceProblem(
  { scheme, toleranceSeconds }: SignatureSettings,
  forms: readonly Form[],
): string | undefined {
  if (toleranceSeconds === null) return undefined
  if (!forms.some(({ timestamp }) => timestamp !== undefined))
    return `signature.toleranceSeconds is given, but ${scheme} signs no time here.`
  const isInRange = toleranceSeconds >= 1 && toleranceSeconds <= TOLERANCE_SECONDS_MAX
  if (!Number.isInteger(toleranceSeconds) || !isInRange)
    return `signature.toleranceSeconds is ${toleranceSeconds}: it is a whole number from 1 to ${TOLERANCE_SECONDS_MAX}.`
  return undefined
}

function genericProblem(generic: GenericHmac): string | undefined {
  const { header, timestampHeader, idHeader, prefix } = generic
  for (const [field, name] of Object.entries({ header, timestampHeader, idHeader }))
    if (name !== null && !HEADER_NAME.test(name))
      return `signature.generic.${field} is no name of a header in lower case, such as x-signature.`
  if (!PREFIX.test(prefix) || prefix.startsWith(' '))
    return 'signature.generic.prefix has at most 64 characters of ASCII, and does not begin with a space.'
  return templateProblem(generic)
}

function templateProblem({ signed, timestampHeader, idHeader }: GenericHmac): string | undefined {
  const field = 'signature.generic.signed'
  if (signed.length > TEMPLATE_CHARACTERS_MAX)
    return `${field} is longer than ${TEMPLATE_CHARACTERS_MAX} characters.`
  if (SURROGATE.test(signed)) return `${field} holds an unpaired surrogate.`
  const parts = splitTemplate(signed)
  const names = parts.filter((_, index) => index % 2 === 1)
  const known = PLACEHOLDERS.map(name => `{${name}}`).join(', ')
  if (!names.every(name => PLACEHOLDERS.includes(name)) || parts.some(part => /[{}]/.test(part)))
    return `${field} has another placeholder than ${known}.`
  if (names.filter(name => name === 'body').length !== 1)
    return `${field} does not hold {body} once: a signature without the body would fit any body.`
  for (const [name, header, given] of [
    ['timestamp', 'timestampHeader', timestampHeader],
    ['id', 'idHeader', idHeader],
  ] as const) {
    if (names.includes(name) && given === null)
      return `${field} holds {${name}}, and signature.generic.${header} is not given.`
    if (!names.includes(name) && given !== null)
      return `signature.generic.${header} is given, but {${name}} is not in ${field}, so nobody signs it.`
  }
  return undefined
}
