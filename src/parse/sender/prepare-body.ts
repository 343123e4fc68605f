/**
 * Makes the JSON document of a received body, in the parse worker: checks the signature over the
 * bytes as they came, inflates, drops a byte order mark, answers a handshake, and turns the format
 * into JSON.
 */
import type { SignatureError, SignatureSettings } from '../../format/sender.ts'
import { must } from '../../util/errors.ts'
import { describeDocument } from '../event-error.ts'
import { gunzipBody } from '../gunzip.ts'
import { withoutMark } from '../json-scan.ts'
import { type BodyRefusal, isBytes, refuseBody } from './body-error.ts'
import { toJsonDocument } from './body-format.ts'
import { bodyHandshake } from './body-handshake.ts'
import type { BodyEvents, EventsSchema } from './events-in.ts'
import type { EarlyAnswer, Received } from './received.ts'
import type { Unzstd } from './unzstd.ts'
import { verifySignature } from './verify-signature.ts'

/**
 * The events, or the answer to the request.
 * @param body in memory that is used again
 * @param schema says where the events stand; null where the body itself is the events
 * @param unzstd the worker's decoder, which a body of zstd needs
 */
export function prepareBody(
  body: Uint8Array,
  { encoding, format, signature, handshakes, refused }: Received,
  schema: EventsSchema | null,
  unzstd: Unzstd | undefined,
): BodyEvents | EarlyAnswer {
  if (refused !== undefined) return refused.refusal
  const settings = signature === undefined ? undefined : settingsOf(signature.settings)
  const error =
    signature === undefined || settings === undefined
      ? undefined
      : verifySignature(settings, signature.head, body)
  if (error !== undefined) return refuseBody(error, SIGNATURE_MESSAGES[error], 401)
  const decoded = decodeBody(body, encoding, unzstd)
  if (!isBytes(decoded)) return decoded
  for (const kind of handshakes?.kinds ?? []) {
    const secret = () =>
      settings?.secrets.find(one => {
        const alone = { ...settings, secrets: [one] }
        return signature !== undefined && verifySignature(alone, signature.head, body) === undefined
      })
    const reply = bodyHandshake(kind, decoded, secret, handshakes?.headers ?? {})
    if (reply !== undefined) return reply
  }
  return toJsonDocument(format, decoded, schema)
}

const SIGNATURE_MESSAGES: Readonly<Record<SignatureError, string>> = {
  signature_missing: "the request lacks a header of the data source's signature scheme",
  signature_malformed: "a header of the signature has another form than the data source's scheme has",
  signature_expired: "the signed time differs too much from this server's clock",
  signature_mismatch: 'no secret of the data source made the signature of this request',
}

/** Settings by their JSON. The keys of a signature are made once for each object. */
const knownSettings = new Map<string, SignatureSettings>()
/** Beyond it the oldest is dropped. */
const KNOWN_SETTINGS_MAX = 1_000

function settingsOf(json: string): SignatureSettings {
  const known = knownSettings.get(json)
  if (known !== undefined) return known
  const settings = JSON.parse(json) as SignatureSettings
  if (knownSettings.size >= KNOWN_SETTINGS_MAX)
    knownSettings.delete(knownSettings.keys().next().value as string)
  knownSettings.set(json, settings)
  return settings
}

/** The bytes of a body before they were compressed, without a byte order mark. */
export function decodeBody(
  body: Uint8Array,
  encoding: Received['encoding'],
  unzstd: Unzstd | undefined,
): Uint8Array | BodyRefusal {
  if (encoding === 'identity') return withoutMark(body)
  const inflated =
    encoding === 'zstd' ? must(unzstd, 'the decoder of a task with zstd')(body) : gunzipBody(body)
  if (typeof inflated === 'number') return describeDocument(inflated)
  return isBytes(inflated) ? withoutMark(inflated) : inflated
}
