/**
 * Policy values: the values that a token carries for the placeholders `${{ name }}` of access
 * policies. A client asks for them with the form field `policy_values`, a JSON object.
 *
 * A value that is not taken refuses the whole request. No token is better than one that looks
 * limited to a tenant and is limited to another.
 */
import { isObject, jsonIn } from '../../util/json.ts'
import { KiB } from '../../util/limits.ts'

/** Bytes of `policy_values`. A token with them fits into AUTHORIZATION_CHARACTERS_MAX. */
export const POLICY_VALUES_BYTES_MAX = KiB
/** Values in `policy_values`. */
const POLICY_VALUES_MAX = 32
/** Characters of a name in `policy_values`. */
const POLICY_VALUE_NAME_CHARACTERS_MAX = 128
/** Characters of a text in `policy_values`. */
const POLICY_VALUE_CHARACTERS_MAX = 512

/** Values by name. The object has no prototype, so `constructor` is a name like any other. */
export type PolicyValues = Readonly<Record<string, string | number | boolean>>

/** The values, undefined where there is no field, or the client's mistake as one sentence. */
export function readPolicyValues(text: string): PolicyValues | undefined | string {
  if (text === '') return undefined
  if (Buffer.byteLength(text) > POLICY_VALUES_BYTES_MAX)
    return `policy_values has more than ${POLICY_VALUES_BYTES_MAX} bytes.`
  const read = jsonIn(text)
  if (read === undefined) return 'policy_values is not JSON.'
  if (!isObject(read)) return 'policy_values must be a JSON object, such as {"tenant_id":"123"}.'
  const entries = Object.entries(read)
  if (entries.length > POLICY_VALUES_MAX) return `policy_values has more than ${POLICY_VALUES_MAX} values.`
  for (const [name, value] of entries) {
    const mistake = mistakeOf(name, value)
    if (mistake !== undefined) return mistake
  }
  if (membersOf(text) > entries.length) return 'policy_values has the same name twice.'
  return withoutPrototype(entries as [string, string | number | boolean][])
}

/** The values of a verified token, which `readPolicyValues` has checked. */
export function policyValuesOfClaim(claim: unknown): PolicyValues {
  return withoutPrototype(Object.entries(claim as PolicyValues))
}

const LONE_SURROGATE = /\p{Cs}/u

function mistakeOf(name: string, value: unknown): string | undefined {
  if (name === '' || name.length > POLICY_VALUE_NAME_CHARACTERS_MAX)
    return `A name in policy_values has 1 to ${POLICY_VALUE_NAME_CHARACTERS_MAX} characters.`
  const shown = JSON.stringify(name)
  if (LONE_SURROGATE.test(name) || (typeof value === 'string' && LONE_SURROGATE.test(value)))
    return `${shown} in policy_values or its value has half of a surrogate pair.`
  if (typeof value === 'boolean') return undefined
  if (typeof value === 'string')
    return value.length > POLICY_VALUE_CHARACTERS_MAX
      ? `The value of ${shown} in policy_values has more than ${POLICY_VALUE_CHARACTERS_MAX} characters.`
      : undefined
  if (typeof value !== 'number')
    return `The value of ${shown} in policy_values must be a text, a number, true or false.`
  // The digits that a double cannot hold are lost already: the value may name another tenant.
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value)))
    return `The value of ${shown} in policy_values is a number of too many digits: send it as a text.`
  return undefined
}

/** JSON.parse keeps the last of two equal names, and another reader may keep the first. */
function membersOf(text: string): number {
  let members = 0
  let isInText = false
  for (let at = 0; at < text.length; at++) {
    const unit = text[at]
    if (unit === '\\') at += 1
    else if (unit === '"') isInText = !isInText
    else if (unit === ':' && !isInText) members += 1
  }
  return members
}

function withoutPrototype(entries: readonly (readonly [string, string | number | boolean])[]): PolicyValues {
  const values = Object.create(null) as Record<string, string | number | boolean>
  for (const [name, value] of entries) values[name] = value
  return Object.freeze(values)
}
