/**
 * Resolvers of applications and of the environment. A secret is shown to callers with
 * `application:admin` alone: whoever reads it can act as that application.
 */
import { createApplication, deleteApplication, modifyApplication } from '../../catalog/change-application.ts'
import { modifyEnvironment } from '../../catalog/change-environment.ts'
import type { Scope } from '../../catalog/model.ts'
import { change, found, remove } from './changes.ts'
import { requireScope } from './context.ts'
import { badRequest } from './errors.ts'
import { emptyPage, pageOfDocuments } from './page.ts'
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

export const applicationQueries = {
  application: (_, { id }, { deps }) => found(deps.catalog.read.applications.find(id), 'Application'),
  applicationByName: (_, { uniqueName }, { deps }) =>
    found(deps.catalog.read.applications.byName(uniqueName), 'Application'),
  applications: (_, args, context) => {
    const { applications } = context.deps.catalog.read
    return pageOfDocuments(applications, applications.all(), args, context)
  },
  environment: (_, { id }, { deps }) => {
    return found(deps.catalog.read.environmentOf(id), 'Environment')
  },
} satisfies Partial<Resolvers['Query']>

export const applicationMutations = {
  createApplication: async (_, { input }, { deps, caller }) => {
    const made = await deps.catalog.change(createApplication(withScopes(input), caller.applicationId))
    // Clients read the failure of a creation, and ignore that of a modification.
    return 'badRequest' in made
      ? { __typename: 'FailureResponse' as const, error: { code: null, message: made.badRequest } }
      : { __typename: 'ApplicationResponse' as const, application: made }
  },
  modifyApplication: async (_, { input }, context) => {
    const { idOrUniqueName, ...asked } = input
    const decide = modifyApplication(idOrUniqueName, withScopes(asked), context.caller.applicationId)
    const application = await change(context, decide, 'Application')
    return { __typename: 'ApplicationResponse' as const, application }
  },
  deleteApplication: (_, { id }, context) => remove(context, { id }, removal(context.caller.applicationId)),
  deleteApplicationByName: (_, { uniqueName }, context) =>
    remove(context, { uniqueName }, removal(context.caller.applicationId)),
  createEnvironment: () => {
    throw badRequest('A server has one Environment, its data folder: run another server for another one.')
  },
  modifyEnvironment: async (_, { input: { id, ...asked } }, context) => {
    const decide = modifyEnvironment(id, asked, context.caller.applicationId)
    return { environment: await change(context, decide, 'Environment') }
  },
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

function removal(by: string) {
  return (which: Parameters<typeof deleteApplication>[0]) => deleteApplication(which, by)
}
