/** For tests of proposals. */
import { inferColumns, type Proposal } from '../../../src/parse/infer/infer.ts'
import type { Sample } from '../../../src/parse/infer/samples.ts'

/** The proposal for these samples. @throws where they have a problem */
export function propose(...samples: readonly (Sample | string)[]): Proposal {
  const result = inferColumns(samples.map(each => (typeof each === 'string' ? { body: each } : each)))
  if ('problem' in result) throw new Error(result.problem.message)
  return result
}

/** The code of the problem with these samples; "ok" where there is none. */
export function problemOf(...samples: readonly (Sample | string)[]): string {
  const result = inferColumns(samples.map(each => (typeof each === 'string' ? { body: each } : each)))
  return 'problem' in result ? result.problem.code : 'ok'
}
