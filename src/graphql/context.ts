/** What resolvers are given: the other stages as functions, and who calls. */

import type { Pool, Scope } from '../catalog/model.ts'
import type { CatalogService } from '../catalog/protocol.ts'
import type { Refusal } from '../errors.ts'
import type { BadQuery, CounterQuery } from '../query/protocol.ts'
import type { Budget } from './budget.ts'
import { lacksScope } from './errors.ts'

/** Who calls, and what they may do. */
export interface Caller {
  readonly applicationId: string
  readonly scopes: ReadonlySet<Scope>
}

export interface CounterResult {
  readonly value: string | null
  readonly info: {
    readonly recordsProcessed: number
    readonly bytesProcessed: number
    readonly durationMs: number
    readonly sql: string
  }
}

export interface GraphqlServices {
  readonly catalog: CatalogService
  /** A refusal is always 401. */
  verify(authorization: string | undefined): Promise<Caller | Refusal>
  /** The public URL of a webhook id; built on reading. */
  webhookUrl(webhookId: string): string
  /** Rejects with Unavailable or SegmentDamaged. */
  counter(pool: Pool, query: CounterQuery, applicationId: string): Promise<CounterResult | BadQuery>
}

export interface Context {
  readonly services: GraphqlServices
  readonly caller: Caller
  readonly budget: Budget
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
