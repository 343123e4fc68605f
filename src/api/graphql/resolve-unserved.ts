/**
 * Resolvers of what Weir does not have: boosters, materialized views and syncs. Look-ups find
 * nothing, deletions find nothing to delete, and the others say in one sentence what to do instead.
 */
import { missing, refusing } from './graphql-errors.ts'
import { emptyPage } from './list-page.ts'
import type { Resolvers } from './schema-types.ts'

const NO_VIEWS = 'This version of Weir has no Materialized Views: query the Data Pool itself.'
const NO_BOOSTERS = 'Weir has no Boosters: each query reads columnar segments. Query the Metric itself.'

export const boosterQueries = { booster: missing('Booster') } satisfies Partial<Resolvers['Query']>
export const boosterMutations = {
  createBooster: refusing(NO_BOOSTERS),
  deleteBooster: () => null,
} satisfies Partial<Resolvers['Mutation']>

export const syncQueries = { sync: missing('Sync') } satisfies Partial<Resolvers['Query']>

export const viewQueries = {
  materializedView: missing('Materialized View'),
  materializedViewByName: missing('Materialized View'),
  materializedViews: (_, args) => emptyPage(args),
} satisfies Partial<Resolvers['Query']>

export const viewMutations = {
  createMaterializedView: refusing(NO_VIEWS),
  modifyMaterializedView: missing('Materialized View'),
  deleteMaterializedView: () => null,
} satisfies Partial<Resolvers['Mutation']>
