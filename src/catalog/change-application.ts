/** Changes of applications: the callers of the API, their secrets and their scopes. */

import { randomBytes } from 'node:crypto'
import { APPLICATIONS_MAX, SECRET_BYTES } from '../util/limits.ts'
import type { IdOrName } from './catalog-types.ts'
import {
  changing,
  type Decide,
  fullProblem,
  type Named,
  namedProblem,
  nameProblem,
  newCommon,
  renamed,
  replacing,
  unusedId,
} from './change.ts'
import { policiesWithout } from './change-policy.ts'
import { keys } from './memory.ts'
import { type Application, PROPELLERS, type Propeller, SCOPES, type Scope } from './model.ts'

/** No scopes, absent or [], means all of them: Terraform sends [] where none are configured. */
export interface ApplicationInput extends Named {
  readonly propeller?: Propeller | null | undefined
  readonly scopes?: readonly Scope[] | null | undefined
}

/** Makes an application with a new secret. */
export function createApplication(input: ApplicationInput, by: string): Decide<Application> {
  return (memory, nowMs) => {
    const problem =
      namedProblem(input) ??
      nameProblem('Application', memory.applications, input.uniqueName) ??
      fullProblem('Applications', memory.applications, APPLICATIONS_MAX)
    if (problem !== undefined) return { badRequest: problem }
    const application: Application = {
      ...newCommon(unusedId('APP', nowMs, memory.applications), input, by, nowMs),
      secret: newSecret(),
      propeller: input.propeller ?? PROPELLERS[0],
      scopes: scopesOf(input.scopes) ?? SCOPES,
    }
    return { puts: [[keys.application(application.id), application]], removes: [], result: application }
  }
}

/** Changes an application. The result is null where there is none. */
export function modifyApplication(
  which: IdOrName,
  input: ApplicationInput,
  by: string,
): Decide<Application | null> {
  return changing(
    ({ applications }) => applications,
    which,
    (found, memory, nowMs) => {
      const problem =
        namedProblem(input) ?? nameProblem('Application', memory.applications, input.uniqueName, found)
      if (problem !== undefined) return { badRequest: problem }
      const change: Partial<Application> = {
        ...renamed(found, input),
        propeller: input.propeller ?? found.propeller,
        scopes: scopesOf(input.scopes) ?? found.scopes,
      }
      return replacing(keys.application(found.id), found, change, by, nowMs)
    },
  )
}

/** Gives an application a new secret: tokens for the old one end. null where there is none. */
export function rotateSecret(which: IdOrName, by: string): Decide<Application | null> {
  return changing(
    ({ applications }) => applications,
    which,
    (found, _, nowMs) => {
      return replacing(keys.application(found.id), found, { secret: newSecret() }, by, nowMs)
    },
  )
}

/** The result is the id, or null where there is no such application. Its tokens end at once. */
export function deleteApplication(which: IdOrName, by: string): Decide<string | null> {
  return changing(
    ({ applications }) => applications,
    which,
    (found, memory, nowMs) => {
      return {
        puts: policiesWithout(memory, found.id, by, nowMs),
        removes: [keys.application(found.id)],
        result: found.id,
      }
    },
  )
}

/** A new secret, as text. */
export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

/** Each scope once, in the order given, which Terraform compares; undefined where none is. */
function scopesOf(given: readonly Scope[] | null | undefined): readonly Scope[] | undefined {
  if (given === null || given === undefined || given.length === 0) return undefined
  return [...new Set(given)]
}
