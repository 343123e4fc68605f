/**
 * What a preset holds: the settings with which a source takes the requests of one sender, a key
 * under which the sender's retries are exact, and what to enter at the sender.
 */
import type { HandshakeKind } from '../../format/handshake.ts'
import type { ColumnType } from '../../format/schema.ts'
import type { Accept, GenericHmac, SignatureScheme } from '../../format/sender.ts'

export interface PresetColumn {
  readonly name: string
  readonly type: ColumnType
  readonly jsonProperty: string
  /** Columns of the key are required whatever this says. */
  readonly nullable: boolean
  readonly coerce: boolean
}

/** How a sender signs. The secrets come with the source. */
export interface PresetSignature {
  readonly scheme: SignatureScheme
  /** GENERIC_HMAC only. */
  readonly generic: GenericHmac | null
}

export interface Preset {
  /** The sender's name for people. */
  readonly title: string
  /** null: the sender does not sign, or in a way that Weir does not verify. */
  readonly signature: PresetSignature | null
  /** Who makes the secret: the operator enters his own there, or copies the one that is shown. */
  readonly secret: 'OWN' | 'SHOWN' | null
  /** The handshakes that a source with the preset answers. */
  readonly handshakes: readonly HandshakeKind[]
  readonly accept: readonly Accept[]
  readonly eventsPath: string | null
  readonly columns: readonly PresetColumn[]
  /** A column that is in every event and the same in every try. null: the time of arrival. */
  readonly timestamp: string | null
  /** null: the sender gives its events no id, so every event is a record of its own. */
  readonly uniqueId: string | null
  /** `tableSettings.orderBy`: the key where it is not (timestamp, uniqueId). */
  readonly orderBy: readonly string[] | null
  /** What a retry of the sender does to the stored rows, and what else its requests do. */
  readonly delivery: string
  /** Steps at the sender, with {url}, {secret} and {verifyToken} in them. */
  readonly steps: readonly string[]
}

/** The parts of a preset that most of them share. */
const PLAIN = {
  signature: null,
  secret: null,
  handshakes: [],
  accept: [],
  eventsPath: null,
  timestamp: null,
  uniqueId: null,
  orderBy: null,
} as const satisfies Partial<Preset>

type Given = Omit<Preset, keyof typeof PLAIN> & Partial<Preset>

/** A preset that differs from PLAIN in what is given. */
export function preset(given: Given): Preset {
  return { ...PLAIN, ...given }
}

/** A column that every event has. */
export function required(name: string, type: ColumnType, jsonProperty = name): PresetColumn {
  return { name, type, jsonProperty, nullable: false, coerce: false }
}

/** A column that is null in events without the property. */
export function optional(name: string, type: ColumnType, jsonProperty = name): PresetColumn {
  return { name, type, jsonProperty, nullable: true, coerce: false }
}

/** The same column, which also takes numbers, booleans and dates that stand in strings. */
export function lenient(column: PresetColumn): PresetColumn {
  return { ...column, coerce: true }
}

/** The scheme of a sender that has one of its own. */
export function signedBy(scheme: Exclude<SignatureScheme, 'GENERIC_HMAC'>): PresetSignature {
  return { scheme, generic: null }
}

/** A signature of the body alone: SHA-256 in hexadecimal digits unless `other` says otherwise. */
export function hmac(header: string, other: Partial<GenericHmac> = {}): PresetSignature {
  const generic: GenericHmac = {
    header,
    algorithm: 'SHA256',
    encoding: 'HEX',
    prefix: '',
    signed: '{body}',
    timestampHeader: null,
    idHeader: null,
    ...other,
  }
  return { scheme: 'GENERIC_HMAC', generic }
}
