/**
 * The rules for a source's signature settings. A source whose settings have a problem is refused at
 * its creation, so that no typing error accepts everything, or nothing.
 *
 * A message names a secret by its position, and never repeats it.
 */
import { type GenericHmac, SIGNATURE_SECRETS_MAX, type SignatureSettings } from '../../format/sender.ts'
import { type Form, formOf, formsOf } from './signature-schemes.ts'
import { PLACEHOLDERS, splitTemplate } from './signed-text.ts'

/** Bytes of a secret in UTF-8. The longest that a vendor gives is SendGrid's key of 124. */
const SECRET_BYTES_MAX = 1_024
/** A week: nobody's clock is further off, and no sender repeats a delivery for longer. */
const TOLERANCE_SECONDS_MAX = 7 * 86_400
/** Characters of a template. */
const TEMPLATE_CHARACTERS_MAX = 1_024

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,128}$/
const PREFIX = /^[\x20-\x7e]{0,64}$/
const SURROGATE = /\p{Surrogate}/u

/** The sentence that says why a source cannot have these settings; undefined where it can. */
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
