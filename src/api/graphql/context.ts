/**
 * The context of a request's resolvers: the other stages as functions, the caller, and the
 * request's costs.
 */
import type { CatalogService } from '../../catalog/catalog-types.ts'
import type { Pool, Scope } from '../../catalog/model.ts'
import type { BadQuery } from '../../query/query-types.ts'
import type { Answered, Question } from '../../query/question.ts'
import type { Refusal } from '../../util/errors.ts'
import type { Budget } from './budget.ts'
import { lacksScope } from './errors.ts'
import type { Slices } from './share.ts'

/** The application that sent the request, and its scopes. */
export interface Caller {
  readonly applicationId: string
  readonly scopes: ReadonlySet<Scope>
}

export interface GraphqlDeps {
  readonly catalog: CatalogService
  /** A refusal is 401, or 429 after too many wrong secrets. */
  verify(authorization: string | undefined, address: string): Promise<Caller | Refusal>
  /** The public URL of a webhook id. The API shows it and does not store it. */
  webhookUrl(webhookId: string): string
  /** Answers a question about a pool. Rejects with Unavailable or SegmentDamaged. */
  ask(question: Question, pool: Pool, query: unknown, applicationId: string): Promise<Answered | BadQuery>
}

export interface Context {
  readonly deps: GraphqlDeps
  readonly caller: Caller
  readonly budget: Budget
  readonly slices: Slices
}

/** Throws FORBIDDEN unless the caller has one of `scopes`; the message names the last. */
export function requireScope(
  { caller }: Context,
  action: string,
  ...scopes: readonly [Scope, ...Scope[]]
): void {
  if (scopes.some(scope => caller.scopes.has(scope))) return
  throw lacksScope(caller.applicationId, action, scopes.at(-1) ?? '')
}
