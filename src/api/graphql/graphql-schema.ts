/**
 * The GraphQL schema: its text from the .graphql files, which stand beside this file in src/ and
 * are not compiled, and its resolvers. The resolvers are thin: catalog and query stage decide.
 *
 * Before the resolver of a root field runs, the caller's scopes are checked (scopes.ts). After a
 * mutation there is an entry in the audit trail (audit.ts).
 */

import { readdirSync, readFileSync } from 'node:fs'
import type { GraphQLEnumType, GraphQLFieldResolver, GraphQLSchema } from 'graphql'
import { DIST } from '../../util/build-files.ts'
import { assert } from '../../util/errors.ts'
import { audited } from './audit.ts'
import { type Context, meterLists, requireScope } from './context.ts'
import { type GraphQLError, graphql, Kind } from './library.ts'
import {
  applicationFields,
  applicationMutations,
  applicationQueries,
  environmentMutations,
  environmentQueries,
} from './resolve-application.ts'
import {
  addColumnJobFields,
  deletionJobFields,
  jobMutations,
  jobQueries,
  replayJobFields,
  updateJobFields,
} from './resolve-job.ts'
import { dimensionFields, metricFields, metricMutations, metricQueries } from './resolve-metric.ts'
import { policyFields, policyMutations, policyQueries } from './resolve-policy.ts'
import { poolFields, poolMutations, poolQueries } from './resolve-pool.ts'
import { counterQueries, metricQuestions, poolQuestions, statisticsFields } from './resolve-question.ts'
import { senderQueries } from './resolve-sender.ts'
import { serverFields, serverQueries } from './resolve-server.ts'
import { sourceFields, sourceMutations, sourceQueries } from './resolve-source.ts'
import { sqlQueries } from './resolve-sql.ts'
import { tableFields } from './resolve-table.ts'
import {
  boosterMutations,
  boosterQueries,
  syncQueries,
  viewMutations,
  viewQueries,
} from './resolve-unserved.ts'
import { PAGES, type Resolvers } from './schema-types.ts'
import {
  MANAGE_APPLICATIONS,
  MANAGE_BOOSTERS,
  MANAGE_ENVIRONMENTS,
  MANAGE_JOBS,
  MANAGE_METRICS,
  MANAGE_POLICIES,
  MANAGE_POOLS,
  MANAGE_SOURCES,
  MANAGE_VIEWS,
  QUERY_METRICS,
  QUERY_POOLS,
  READ_ENVIRONMENTS,
  READ_METRICS,
  READ_POOLS,
  READ_SERVER,
  RULES,
  type Rule,
  ruled,
} from './scopes.ts'

const FOLDER = new URL('../src/api/graphql/', DIST)

const owner = {
  account: (_: unknown, __: unknown, { deps }: Context) => ({ id: deps.catalog.read.meta().accountId }),
  environment: (_: unknown, __: unknown, { deps }: Context) => deps.catalog.read.environment(),
}

const resolvers: Resolvers = {
  Query: {
    ...ruled(MANAGE_SOURCES, { ...sourceQueries, ...senderQueries, ...syncQueries }),
    ...ruled(READ_POOLS, poolQueries),
    ...ruled(READ_SERVER, serverQueries),
    ...ruled(READ_METRICS, metricQueries),
    ...ruled(MANAGE_POLICIES, policyQueries),
    ...ruled(MANAGE_APPLICATIONS, applicationQueries),
    ...ruled(READ_ENVIRONMENTS, environmentQueries),
    ...ruled(MANAGE_JOBS, jobQueries),
    ...ruled(MANAGE_BOOSTERS, boosterQueries),
    ...ruled(MANAGE_VIEWS, viewQueries),
    ...ruled(null, counterQueries),
    ...ruled(QUERY_METRICS, metricQuestions),
    ...ruled(QUERY_POOLS, { ...poolQuestions, ...sqlQueries }),
  },
  Mutation: {
    ...ruled(MANAGE_SOURCES, sourceMutations),
    ...ruled(MANAGE_POOLS, poolMutations),
    ...ruled(MANAGE_METRICS, metricMutations),
    ...ruled(MANAGE_POLICIES, policyMutations),
    ...ruled(MANAGE_APPLICATIONS, applicationMutations),
    ...ruled(MANAGE_ENVIRONMENTS, environmentMutations),
    ...ruled(MANAGE_JOBS, jobMutations),
    ...ruled(MANAGE_BOOSTERS, boosterMutations),
    ...ruled(MANAGE_VIEWS, viewMutations),
  },
  AddColumnToDataPoolJob: { ...owner, ...addColumnJobFields },
  Application: { ...owner, ...applicationFields },
  DataPool: { ...owner, ...poolFields },
  DataPoolAccessPolicy: { ...owner, ...policyFields },
  DataSource: { ...owner, ...sourceFields },
  DeletionJob: { ...owner, ...deletionJobFields },
  ReplayRejectedEventsJob: { ...owner, ...replayJobFields },
  Dimension: dimensionFields,
  DimensionStatistics: statisticsFields,
  Environment: { account: owner.account },
  Metric: { ...owner, ...metricFields },
  ServerStatus: serverFields,
  Table: tableFields,
  UpdateDataPoolRecordsJob: { ...owner, ...updateJobFields },
}

/** The whole schema as text. A test validates it, so a start does not. */
export function schemaText(): string {
  return readdirSync(FOLDER)
    .filter(name => name.endsWith('.graphql'))
    .sort()
    .map(name => readFileSync(new URL(name, FOLDER), 'utf8'))
    .concat(PAGES)
    .join('\n')
}

export function makeSchema(): GraphQLSchema {
  const schema = graphql.buildSchema(schemaText(), { assumeValidSDL: true, noLocation: true })
  for (const [typeName, fields] of Object.entries(resolvers)) {
    const type = schema.getType(typeName)
    assert(graphql.isObjectType(type), `${typeName} is an object type`)
    for (const [fieldName, resolve] of Object.entries(fields)) {
      const field = type.getFields()[fieldName]
      assert(field !== undefined, `${typeName}.${fieldName} is in the schema`)
      // The compiler has checked each resolver against schema-types.ts.
      field.resolve = guarded(typeName, fieldName, resolve as unknown as Resolve)
    }
  }
  guardPools(schema)
  const dateTime = schema.getType('DateTime')
  assert(graphql.isScalarType(dateTime), 'DateTime is a scalar')
  dateTime.serialize = serializeDateTime
  dateTime.parseValue = parseDateTime
  dateTime.parseLiteral = parseDateTimeLiteral
  for (const type of Object.values(schema.getTypeMap())) if (graphql.isEnumType(type)) nameValues(type)
  meterLists(schema)
  return schema
}

/** Errors of an enum's input list its values, where graphql names one that is spelt alike. */
function nameValues(type: GraphQLEnumType): void {
  const values = type.getValues().map(({ name }) => name)
  const naming =
    <A extends readonly unknown[]>(read: (...args: A) => unknown) =>
    (...args: A): unknown => {
      try {
        return read(...args)
      } catch (error) {
        const { message, nodes } = error as GraphQLError
        throw new graphql.GraphQLError(`${message} ${type.name} is one of ${values.join(', ')}.`, {
          nodes: nodes ?? null,
        })
      }
    }
  type.parseValue = naming(type.parseValue.bind(type))
  type.parseLiteral = naming(type.parseLiteral.bind(type))
}

/**
 * A pool's id needs no scope: Terraform reads it of a policy, and may manage applications alone.
 */
function guardPools(schema: GraphQLSchema): void {
  const type = schema.getType('DataPool')
  assert(graphql.isObjectType(type), 'DataPool is an object type')
  for (const field of Object.values(type.getFields()))
    if (field.name !== 'id') field.resolve = scoped(READ_POOLS, field.resolve ?? graphql.defaultFieldResolver)
}

type Resolve = GraphQLFieldResolver<unknown, Context>

/** Adds the check of its scope and the audit entry to the resolver of a root field. */
function guarded(typeName: string, fieldName: string, resolve: Resolve): Resolve {
  if (typeName !== 'Query' && typeName !== 'Mutation') return resolve
  const rule = RULES.get(fieldName)
  assert(rule !== undefined, `${fieldName} has a rule`)
  const checked = rule === null ? resolve : scoped(rule, resolve)
  return typeName === 'Query' ? checked : audited(fieldName, checked)
}

function scoped(rule: Rule, resolve: Resolve): Resolve {
  return (parent, args, context, info) => {
    requireScope(context, ...rule)
    return resolve(parent, args, context, info)
  }
}

const DATE_TIME =
  /^\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,18})?)?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$/

/** ISO 8601 in UTC with milliseconds, from the catalog's ISO text. */
function serializeDateTime(value: unknown): string {
  return new Date(value as string).toISOString()
}

/** Checks the form of a variable and passes its text on; the query planner reads the value. */
function parseDateTime(value: unknown): string {
  if (typeof value === 'string' && DATE_TIME.test(value)) return value
  throw new graphql.GraphQLError('DateTime must be an ISO 8601 date, or a date with time.')
}

function parseDateTimeLiteral(node: { readonly kind: string; readonly value?: unknown }): string {
  return parseDateTime(node.kind === Kind.STRING ? node.value : undefined)
}
