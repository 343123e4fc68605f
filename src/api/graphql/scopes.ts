/**
 * The scopes that operations need. graphql-schema.ts names a rule for each group of root fields and
 * checks it before a resolver runs. It builds no schema with a field that has no rule.
 *
 *   admin              data sources, data pools, metrics, access policies, jobs
 *   application:admin  applications and their secrets
 *   environment:admin  the environment
 *   data_pool:query    questions about a pool; metric:query: questions about predefined metrics
 */
import type { Scope } from '../../catalog/documents/model.ts'

/** What the operation does, in messages, and the scopes of which one is enough. */
export type Rule = readonly [action: string, ...scopes: [Scope, ...Scope[]]]

export const MANAGE_SOURCES: Rule = ['manage Data Sources', 'admin']
export const READ_SERVER: Rule = ['read the state of the server', 'admin']
export const MANAGE_POOLS: Rule = ['manage Data Pools', 'admin']
/** An application that may query a pool may read its columns. */
const POOL_READERS = ['admin', 'data_pool:read', 'data_pool:stats', 'data_pool:query'] as const
export const READ_POOLS: Rule = ['read Data Pools', ...POOL_READERS]
export const MANAGE_METRICS: Rule = ['manage Metrics', 'admin']
export const READ_METRICS: Rule = ['read Metrics', 'admin', 'metric:read', 'metric:stats', 'metric:query']
/** Of the columns that are dimensions of metrics: whoever queries the metric groups by them. */
const STATISTICS_READERS = ['data_pool:query', 'data_pool:stats', 'metric:stats', 'metric:query'] as const
export const READ_STATISTICS: Rule = ['read statistics', ...STATISTICS_READERS]
export const MANAGE_POLICIES: Rule = ['manage Data Pool Access Policies', 'admin']
/** The policies of one application. Terraform reads them with every application. */
export const READ_ASSIGNED_POLICIES: Rule = ['read Data Pool Access Policies', 'application:admin', 'admin']
export const MANAGE_JOBS: Rule = ['manage jobs', 'admin']
export const MANAGE_APPLICATIONS: Rule = ['manage Applications', 'application:admin']
export const MANAGE_ENVIRONMENTS: Rule = ['manage Environments', 'environment:admin']
export const READ_ENVIRONMENTS: Rule = ['read Environments', 'admin', 'environment:admin']
export const MANAGE_BOOSTERS: Rule = ['manage Boosters', 'admin']
export const MANAGE_VIEWS: Rule = ['manage Materialized Views', 'admin']
export const QUERY_POOLS: Rule = ['query Data Pools', 'data_pool:query']
export const QUERY_METRICS: Rule = ['query Metrics', 'data_pool:query', 'metric:query']

/** The rule of each root field; null where the question decides, by its metric. */
export const RULES = new Map<string, Rule | null>()

/** Resolvers of root fields, of which each needs `rule`. */
export function ruled<Fields extends object>(rule: Rule | null, fields: Fields): Fields {
  for (const name of Object.keys(fields)) RULES.set(name, rule)
  return fields
}
