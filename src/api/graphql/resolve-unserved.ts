/**
 * Resolvers of what Weir does not have: boosters, materialized views and syncs. Look-ups find
 * nothing, deletions find nothing to delete, and the others say in one sentence what to do instead.
 */
import { badRequest, notFound } from './errors.ts'
import { emptyPage } from './page.ts'
import type { Resolvers } from './schema-types.ts'

const NO_VIEWS = 'This version of Weir has no Materialized Views: query the Data Pool itself.'
const NO_BOOSTERS = 'Weir has no Boosters: each query reads columnar segments. Query the Metric itself.'

export const unservedQueries = {
  booster: () => {
    throw notFound('Booster')
  },
  sync: () => {
    throw notFound('Sync')
  },
  materializedView: () => {
    throw notFound('Materialized View')
  },
  materializedViewByName: () => {
    throw notFound('Materialized View')
  },
  materializedViews: (_, args) => emptyPage(args),
} satisfies Partial<Resolvers['Query']>

export const unservedMutations = {
  createBooster: () => {
    throw badRequest(NO_BOOSTERS)
  },
  deleteBooster: () => null,
  createMaterializedView: () => {
    throw badRequest(NO_VIEWS)
  },
  modifyMaterializedView: () => {
    throw notFound('Materialized View')
  },
  deleteMaterializedView: () => null,
} satisfies Partial<Resolvers['Mutation']>
