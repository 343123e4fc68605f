/**
 * Resolvers of applications and of the environment. A secret is shown to callers with
 * `application:admin` alone: whoever reads it can act as that application.
 */
import {
  createApplication,
  deleteApplication,
  modifyApplication,
  modifyEnvironment,
} from '../../catalog/change/change-application.ts'
import type { Scope } from '../../catalog/documents/model.ts'
import { change, changeInTurn, found, lookups, removing } from './changes.ts'
import { requireScope } from './context.ts'
import { refusing } from './graphql-errors.ts'
import { emptyPage, pageOfDocuments } from './list-page.ts'
import type { Enums, Inputs, Resolvers } from './schema-types.ts'
import { MANAGE_APPLICATIONS, READ_ASSIGNED_POLICIES } from './scopes.ts'

const SCOPE: Readonly<Record<Enums['ApplicationScope'], Scope>> = {
  ADMIN: 'admin',
  APPLICATION_ADMIN: 'application:admin',
  DATA_POOL_QUERY: 'data_pool:query',
  DATA_POOL_READ: 'data_pool:read',
  DATA_POOL_STATS: 'data_pool:stats',
  DATA_POOL_WRITE: 'data_pool:write',
  ENVIRONMENT_ADMIN: 'environment:admin',
  METRIC_QUERY: 'metric:query',
  METRIC_READ: 'metric:read',
  METRIC_STATS: 'metric:stats',
}
const NAMES = Object.entries(SCOPE) as readonly (readonly [Enums['ApplicationScope'], Scope])[]

const applications = lookups('Application', read => read.applications)

export const applicationQueries = {
  application: applications.byId,
  applicationByName: applications.byName,
  applications: applications.page,
} satisfies Partial<Resolvers['Query']>

export const environmentQueries = {
  environment: (_, { id }, { deps }) => found(deps.catalog.read.environmentOf(id), 'Environment'),
} satisfies Partial<Resolvers['Query']>

export const applicationMutations = {
  createApplication: async (_, { input }, context) => {
    const made = await changeInTurn(context, by => createApplication(withScopes(input), by))
    // Clients read the failure of a creation, and ignore that of a modification.
    return 'badRequest' in made
      ? { __typename: 'FailureResponse' as const, error: { code: null, message: made.badRequest } }
      : { __typename: 'ApplicationResponse' as const, application: made }
  },
  modifyApplication: async (_, { input }, context) => {
    const { idOrUniqueName, ...asked } = input
    const operation = (by: string) => modifyApplication(idOrUniqueName, withScopes(asked), by)
    const application = await change(context, operation, 'Application')
    return { __typename: 'ApplicationResponse' as const, application }
  },
  deleteApplication: removing(deleteApplication),
  deleteApplicationByName: removing(deleteApplication),
} satisfies Partial<Resolvers['Mutation']>

export const environmentMutations = {
  createEnvironment: refusing(
    'A server has one Environment, its data folder: run another server for another one.',
  ),
  modifyEnvironment: async (_, { input: { id, ...asked } }, context) => ({
    environment: await change(context, by => modifyEnvironment(id, asked, by), 'Environment'),
  }),
} satisfies Partial<Resolvers['Mutation']>

export const applicationFields: Omit<Resolvers['Application'], 'account' | 'environment'> = {
  clientId: ({ id }) => id,
  secret: ({ secret }, _, context) => {
    requireScope(context, ...MANAGE_APPLICATIONS)
    return secret
  },
  // In the order given, which Terraform compares.
  scopes: ({ scopes }) => scopes.flatMap(scope => NAMES.find(([, each]) => each === scope)?.[0] ?? []),
  policies: (_, args) => emptyPage(args),
  dataPoolAccessPolicies: ({ id }, args, context) => {
    requireScope(context, ...READ_ASSIGNED_POLICIES)
    const { read } = context.deps.catalog
    return pageOfDocuments(read.policies, read.policiesOf(id), args, context)
  },
}

function withScopes(input: Inputs['createApplicationInput']) {
  return { ...input, scopes: input.scopes?.map(name => SCOPE[name]) }
}
