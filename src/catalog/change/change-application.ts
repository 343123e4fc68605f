/** Changes of applications: the callers of the API, their secrets and their scopes. */

import { randomBytes } from 'node:crypto'
import { SECRET_BYTES } from '../../util/limits.ts'
import type { IdOrName } from '../documents/catalog-types.ts'
import { keys } from '../documents/memory.ts'
import { type Application, PROPELLERS, type Propeller, SCOPES, type Scope } from '../documents/model.ts'
import { changing, creating, type Decide, deleting, modifying, type Named, replacing } from './change.ts'
import { policiesWithout } from './change-policy.ts'

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
