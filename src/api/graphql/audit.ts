/**
 * The audit trail: one entry for each mutation that ran, whatever its outcome. docs/operating.md
 * says where it goes. An entry holds no secrets: it names an object by its id, or by the id or name
 * that was asked for, never by its content.
 */

import type { GraphQLFieldResolver } from 'graphql'
import { isObject } from '../../util/json.ts'
import { AUDIT_ID_CHARACTERS_MAX } from '../../util/limits.ts'
import type { AuditEntry, Context } from './context.ts'
import { codeOf } from './graphql-errors.ts'

type Resolve = GraphQLFieldResolver<unknown, Context>

export function audited(mutation: string, resolve: Resolve): Resolve {
  return async (parent, args, context, info) => {
    const { deps, caller } = context
    const named = nameIn(args as object, TARGETS)
    const partner = partnerOf(mutation, args as object, context)
    const note = (object: string | null, outcome: AuditEntry['outcome']) => {
      const target = outcome === 'done' ? (partner ?? named) : named
      deps.audit({
        mutation,
        applicationId: caller.applicationId,
        object: object === null ? null : object.slice(0, AUDIT_ID_CHARACTERS_MAX),
        ...(target === null ? {} : { target: target.slice(0, AUDIT_ID_CHARACTERS_MAX) }),
        outcome,
      })
    }
    try {
      context.budget.mutation()
      const result = await resolve(parent, args, context, info)
      note(idIn(result) ?? nameIn(args as object, NAMES), outcomeOf(result))
      return result
    } catch (error) {
      note(nameIn(args as object, NAMES), codeOf(error))
      throw error
    }
  }
}

function outcomeOf(result: unknown): AuditEntry['outcome'] {
  if (result === null) return 'absent'
  return isObject(result) && result['__typename'] === 'FailureResponse' ? 'BAD_REQUEST' : 'done'
}

/** The id that a deletion returns, of the object itself, or of the one object in a response. */
function idIn(result: unknown): string | null {
  if (typeof result === 'string') return result
  if (!isObject(result)) return null
  for (const object of [result, ...Object.values(result)])
    if (isObject(object) && typeof object['id'] === 'string') return object['id']
  return null
}

/** Fields that name the object or its pool, by precedence: a uniqueName behind an id is new. */
const NAMES = [
  'id',
  'idOrUniqueName',
  'metric',
  'metricId',
  'policy',
  'dataPoolAccessPolicy',
  'uniqueName',
  'dataPool',
  'dataPoolId',
] as const
const TARGETS = ['application', 'newDataPoolId'] as const

/** The id of what a deletion takes along: a pool's webhook source, or a webhook source's pool. */
function partnerOf(mutation: string, args: object, { deps }: Context): string | undefined {
  const { pools, sources } = deps.catalog.read
  const name = nameIn(args, NAMES) ?? ''
  switch (mutation) {
    case 'deleteDataPool':
    case 'deleteDataPoolByName': {
      const source = sources.get(pools.find(name)?.dataSourceId ?? '')
      return source?.webhook ? source.id : undefined
    }
    case 'deleteDataSource':
    case 'deleteDataSourceByName':
      return sources.find(name)?.webhook?.poolId
    default:
      return undefined
  }
}

function nameIn(args: object, names: readonly string[]): string | null {
  const { input = args } = args as { readonly input?: object | null }
  if (input === null) return null
  for (const name of names) {
    const value = (input as Record<string, unknown>)[name]
    if (typeof value === 'string' && value !== '') return value
    if (name === 'idOrUniqueName' && isObject(value)) return nameIn(value, names)
  }
  return null
}
