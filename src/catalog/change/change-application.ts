/**
 * Changes of applications (the callers of the API, their secrets and their scopes), of their
 * environment, and of the key that signs their tokens.
 */
import { randomBytes } from 'node:crypto'
import { SECRET_BYTES } from '../../util/limits.ts'
import type { IdOrName } from '../documents/catalog-types.ts'
import { keys } from '../documents/memory.ts'
import {
  type Application,
  type Environment,
  PROPELLERS,
  type Propeller,
  SCOPES,
  type Scope,
} from '../documents/model.ts'
import { acceptedKeys, makeSigningKey } from '../documents/signing-keys.ts'
import {
  changing,
  creating,
  type Decide,
  deleting,
  modifying,
  type Named,
  namedProblem,
  renamed,
  replacing,
  unchanged,
} from './change.ts'
import { policiesWithout } from './change-policy.ts'

/** Keys whose tokens are accepted: the newest, and those that it followed within TOKEN_SECONDS. */
export const SIGNING_KEYS_MAX = 16

/** No scopes, absent or [], means all of them: Terraform sends [] where none are configured. */
export interface ApplicationInput extends Named {
  readonly propeller?: Propeller | null | undefined
  readonly scopes?: readonly Scope[] | null | undefined
}

export function createApplication(input: ApplicationInput, by: string): Decide<Application> {
  return creating('applications', input, by, () => ({
    secret: newSecret(),
    propeller: input.propeller ?? PROPELLERS[0],
    scopes: scopesOf(input.scopes) ?? SCOPES,
  }))
}

export function modifyApplication(
  which: IdOrName,
  input: ApplicationInput,
  by: string,
): Decide<Application | null> {
  return modifying('applications', which, input, by, found => ({
    propeller: input.propeller ?? found.propeller,
    scopes: scopesOf(input.scopes) ?? found.scopes,
  }))
}

/** Tokens for the old secret end. */
export function rotateSecret(which: IdOrName, by: string): Decide<Application | null> {
  return changing('applications', which, (found, _, nowMs) =>
    replacing(keys.application(found.id), found, { secret: newSecret() }, by, nowMs),
  )
}

/** Its tokens end at once. */
export function deleteApplication(which: IdOrName, by: string): Decide<string | null> {
  return deleting('applications', which, (found, memory, nowMs) =>
    policiesWithout(memory, found.id, by, nowMs),
  )
}

export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

/** Each scope once, in the order given, which Terraform compares; undefined where none is. */
function scopesOf(given: readonly Scope[] | null | undefined): readonly Scope[] | undefined {
  if (given === null || given === undefined || given.length === 0) return undefined
  return [...new Set(given)]
}

/** A data folder has one environment, which is there from its first start. */
export function modifyEnvironment(id: string, input: Named, by: string): Decide<Environment | null> {
  return (memory, nowMs) => {
    const environment = memory.environmentOf(id)
    if (environment === undefined) return unchanged(null)
    const problem = namedProblem(input)
    if (problem !== undefined) return { badRequest: problem }
    return replacing(keys.environment, environment, renamed(environment, input), by, nowMs)
  }
}

interface RotatedKey {
  readonly kid: string
  readonly createdAt: string
  /** Keys whose tokens are refused from now on. */
  readonly ended: number
}

/**
 * Signs tokens with a new key from now on, and removes the keys whose tokens have expired.
 * @param endTokens removes all older keys: every token that was given before is refused
 */
export function rotateSigningKey(endTokens: boolean): Decide<RotatedKey> {
  return (memory, nowMs) => {
    const known = memory.signingKeys()
    const made = makeSigningKey(known, nowMs)
    const kept = endTokens ? [] : acceptedKeys([made, ...known], nowMs)
    if (kept.length > SIGNING_KEYS_MAX)
      return {
        badRequest: `The tokens of ${known.length} keys are still valid, which is the limit: rotate again within the hour, or end those tokens.`,
      }
    const ended = known.filter(key => !kept.includes(key))
    return {
      puts: [[keys.signingKey(made.kid), made]],
      removes: ended.map(({ kid }) => keys.signingKey(kid)),
      result: { kid: made.kid, createdAt: made.createdAt, ended: ended.length },
    }
  }
}
