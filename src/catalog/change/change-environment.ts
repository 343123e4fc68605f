/** The change of the environment. A data folder has one, which is there from its first start. */

import { keys } from '../documents/memory.ts'
import type { Environment } from '../documents/model.ts'
import { type Decide, type Named, namedProblem, renamed, replacing, unchanged } from './change.ts'

export function modifyEnvironment(id: string, input: Named, by: string): Decide<Environment | null> {
  return (memory, nowMs) => {
    const environment = memory.environmentOf(id)
    if (environment === undefined) return unchanged(null)
    const problem = namedProblem(input)
    if (problem !== undefined) return { badRequest: problem }
    return replacing(keys.environment, environment, renamed(environment, input), by, nowMs)
  }
}
