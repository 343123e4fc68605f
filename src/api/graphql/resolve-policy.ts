/**
 * Resolvers of data pool access policies. The older policies of metrics do not exist here: they are
 * refused by name, and a deletion of one finds nothing.
 */
import {
  assignPolicy,
  createPolicy,
  deletePolicy,
  modifyPolicy,
  unassignPolicy,
} from '../../catalog/change/change-policy.ts'
import { change, changedId, changeInTurn, found, lookups, poolNamed, removing } from './changes.ts'
import { checkTexts, shownFilters, storedFilters } from './filters.ts'
import { missing, refusing } from './graphql-errors.ts'
import { pageOfDocuments } from './list-page.ts'
import type { Resolvers } from './schema-types.ts'

const POLICY = 'Data Pool Access Policy'
const NO_METRIC_POLICIES =
  'Weir has no policies of metrics: create a Data Pool Access Policy and assign it to the Application.'

export const policyQueries = {
  dataPoolAccessPolicy: lookups(POLICY, read => read.policies).byId,
  policy: missing('Policy'),
} satisfies Partial<Resolvers['Query']>

export const policyMutations = {
  createDataPoolAccessPolicy: async (_, { input }, context) => {
    const { dataPool, rows, ...asked } = input
    const pool = poolNamed(dataPool, context)
    await checkTexts(pool, { filters: rows, filterSql: asked.filterSql }, context, 'placeholders')
    const policy = { ...asked, poolId: pool.id, rows: storedFilters(rows) }
    return { dataPoolAccessPolicy: await change(context, by => createPolicy(policy, by), 'Data Pool') }
  },
  modifyDataPoolAccessPolicy: async (_, { input }, context) => {
    const { id, rows, ...asked } = input
    const { policies, pools } = context.deps.catalog.read
    const policy = found(policies.find(id), POLICY)
    const pool = found(pools.get(policy.poolId), POLICY)
    await checkTexts(pool, { filters: rows, filterSql: asked.filterSql }, context, 'placeholders')
    const fields = { ...asked, rows: storedFilters(rows) }
    return { dataPoolAccessPolicy: await change(context, by => modifyPolicy({ id }, fields, by), POLICY) }
  },
  deleteDataPoolAccessPolicy: removing(deletePolicy),
  assignDataPoolAccessPolicyToApplication: async (_, args, context) => {
    const { dataPoolAccessPolicy: policyId, application } = args
    const { catalog } = context.deps
    found(catalog.read.policies.find(policyId), POLICY)
    found(catalog.read.applications.find(application), 'Application')
    return changedId(await changeInTurn(context, by => assignPolicy(policyId, application, by)))
  },
  unAssignDataPoolAccessPolicyFromApplication: async (_, args, context) => {
    const { dataPoolAccessPolicy: policyId, application } = args
    return changedId(await changeInTurn(context, by => unassignPolicy(policyId, application, by)))
  },
  createPolicy: refusing(NO_METRIC_POLICIES),
  modifyPolicy: refusing(NO_METRIC_POLICIES),
  deletePolicy: () => null,
} satisfies Partial<Resolvers['Mutation']>

export const policyFields: Omit<Resolvers['DataPoolAccessPolicy'], 'account' | 'environment'> = {
  dataPool: (policy, _, { deps }) => found(deps.catalog.read.pools.get(policy.poolId), 'Data Pool'),
  rows: ({ rows }) => shownFilters(rows),
  applications: ({ applicationIds }, args, context) => {
    const { applications } = context.deps.catalog.read
    const { positionOf } = applications
    const assigned = applicationIds.flatMap(id => applications.get(id) ?? [])
    assigned.sort((a, b) => (positionOf(a) < positionOf(b) ? -1 : 1))
    return pageOfDocuments(applications, assigned, args, context)
  },
}
