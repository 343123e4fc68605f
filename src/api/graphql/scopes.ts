/**
 * The scopes that each operation needs. graphql-schema.ts checks them before the resolver of a root
 * field runs, so an operation without an entry here does not compile.
 *
 *   admin              data sources, data pools, metrics, access policies, jobs
 *   application:admin  applications and their secrets
 *   environment:admin  the environment
 *   data_pool:query    questions about a pool; metric:query: questions about predefined metrics
 */
import type { Scope } from '../../catalog/documents/model.ts'
import type { Resolvers } from './schema-types.ts'

/**
 * What the operation does, in a message, and the scopes of which one is enough; it names the last.
 */
export type Rule = readonly [action: string, ...scopes: [Scope, ...Scope[]]]

export const MANAGE_SOURCES: Rule = ['manage Data Sources', 'admin']
const MANAGE_POOLS: Rule = ['manage Data Pools', 'admin']
/** An application that may query a pool may read its columns. */
export const READ_POOLS: Rule = [
  'read Data Pools',
  'admin',
  'data_pool:read',
  'data_pool:stats',
  'data_pool:query',
]
const MANAGE_METRICS: Rule = ['manage Metrics', 'admin']
export const READ_METRICS: Rule = ['read Metrics', 'admin', 'metric:read', 'metric:stats', 'metric:query']
/** Of the columns that are dimensions of metrics: whoever queries the metric groups by them. */
export const READ_STATISTICS: Rule = [
  'read statistics',
  'data_pool:query',
  'data_pool:stats',
  'metric:stats',
  'metric:query',
]
export const MANAGE_POLICIES: Rule = ['manage Data Pool Access Policies', 'admin']
/** The policies of one application. Terraform reads them with every application. */
export const READ_ASSIGNED_POLICIES: Rule = ['read Data Pool Access Policies', 'application:admin', 'admin']
export const MANAGE_JOBS: Rule = ['manage jobs', 'admin']
export const MANAGE_APPLICATIONS: Rule = ['manage Applications', 'application:admin']
const MANAGE_ENVIRONMENTS: Rule = ['manage Environments', 'environment:admin']
const READ_ENVIRONMENTS: Rule = ['read Environments', 'admin', 'environment:admin']
const MANAGE_BOOSTERS: Rule = ['manage Boosters', 'admin']
const MANAGE_VIEWS: Rule = ['manage Materialized Views', 'admin']
const QUERY_POOLS: Rule = ['query Data Pools', 'data_pool:query']
const QUERY_METRICS: Rule = ['query Metrics', 'data_pool:query', 'metric:query']
/** The question decides, because it depends on the metric. */
const BY_QUESTION = null

export const QUERY_SCOPES: Readonly<Record<keyof Resolvers['Query'], Rule | null>> = {
  addColumnToDataPoolJob: MANAGE_JOBS,
  addColumnToDataPoolJobByStatus: MANAGE_JOBS,
  application: MANAGE_APPLICATIONS,
  applicationByName: MANAGE_APPLICATIONS,
  applications: MANAGE_APPLICATIONS,
  booster: MANAGE_BOOSTERS,
  counter: BY_QUESTION,
  counters: BY_QUESTION,
  dataGrid: QUERY_POOLS,
  dataPool: READ_POOLS,
  dataPoolAccessPolicy: MANAGE_POLICIES,
  dataPoolByName: READ_POOLS,
  dataPools: READ_POOLS,
  dataSource: MANAGE_SOURCES,
  dataSourceByName: MANAGE_SOURCES,
  dataSources: MANAGE_SOURCES,
  deletionJob: MANAGE_JOBS,
  describeSqlV1: QUERY_POOLS,
  environment: READ_ENVIRONMENTS,
  leaderboard: QUERY_METRICS,
  materializedView: MANAGE_VIEWS,
  materializedViewByName: MANAGE_VIEWS,
  materializedViews: MANAGE_VIEWS,
  metric: READ_METRICS,
  metricByName: READ_METRICS,
  metricReport: QUERY_METRICS,
  metrics: READ_METRICS,
  percentile: QUERY_POOLS,
  policy: MANAGE_POLICIES,
  recordsByUniqueId: QUERY_POOLS,
  sqlV1: QUERY_POOLS,
  sync: MANAGE_SOURCES,
  table: MANAGE_SOURCES,
  timeSeries: QUERY_METRICS,
  topValues: QUERY_POOLS,
  updateDataPoolRecordsJob: MANAGE_JOBS,
  updateDataPoolRecordsJobByStatus: MANAGE_JOBS,
}

export const MUTATION_SCOPES: Readonly<Record<keyof Resolvers['Mutation'], Rule>> = {
  assignDataPoolAccessPolicyToApplication: MANAGE_POLICIES,
  cancelJob: MANAGE_JOBS,
  createAddColumnToDataPoolJob: MANAGE_JOBS,
  createApplication: MANAGE_APPLICATIONS,
  createAverageMetric: MANAGE_METRICS,
  createBooster: MANAGE_BOOSTERS,
  createClickHouseDataSource: MANAGE_SOURCES,
  createCountDistinctMetric: MANAGE_METRICS,
  createCountMetric: MANAGE_METRICS,
  createCustomMetric: MANAGE_METRICS,
  createDataPoolAccessPolicy: MANAGE_POLICIES,
  createDataPoolV2: MANAGE_POOLS,
  createDeletionJob: MANAGE_JOBS,
  createEnvironment: MANAGE_ENVIRONMENTS,
  createHttpDataSource: MANAGE_SOURCES,
  createKafkaDataSource: MANAGE_SOURCES,
  createMaterializedView: MANAGE_VIEWS,
  createMaxMetric: MANAGE_METRICS,
  createMinMetric: MANAGE_METRICS,
  createPolicy: MANAGE_POLICIES,
  createPostgreSqlDataSource: MANAGE_SOURCES,
  createS3DataSource: MANAGE_SOURCES,
  createSnowflakeDataSource: MANAGE_SOURCES,
  createSumMetric: MANAGE_METRICS,
  createUpdateDataPoolRecordsJob: MANAGE_JOBS,
  createWebhookDataSource: MANAGE_SOURCES,
  deleteApplication: MANAGE_APPLICATIONS,
  deleteApplicationByName: MANAGE_APPLICATIONS,
  deleteBooster: MANAGE_BOOSTERS,
  deleteDataPool: MANAGE_POOLS,
  deleteDataPoolAccessPolicy: MANAGE_POLICIES,
  deleteDataPoolByName: MANAGE_POOLS,
  deleteDataSource: MANAGE_SOURCES,
  deleteDataSourceByName: MANAGE_SOURCES,
  deleteMaterializedView: MANAGE_VIEWS,
  deleteMetric: MANAGE_METRICS,
  deleteMetricByName: MANAGE_METRICS,
  deletePolicy: MANAGE_POLICIES,
  disableSyncing: MANAGE_POOLS,
  enableSyncing: MANAGE_POOLS,
  inspectDataPoolSchema: MANAGE_POOLS,
  introspectTables: MANAGE_SOURCES,
  migrateMetric: MANAGE_METRICS,
  modifyApplication: MANAGE_APPLICATIONS,
  modifyClickHouseDataSource: MANAGE_SOURCES,
  modifyDataPool: MANAGE_POOLS,
  modifyDataPoolAccessPolicy: MANAGE_POLICIES,
  modifyEnvironment: MANAGE_ENVIRONMENTS,
  modifyHttpDataSource: MANAGE_SOURCES,
  modifyKafkaDataSource: MANAGE_SOURCES,
  modifyMaterializedView: MANAGE_VIEWS,
  modifyMetric: MANAGE_METRICS,
  modifyPolicy: MANAGE_POLICIES,
  modifyPostgreSqlDataSource: MANAGE_SOURCES,
  modifyS3DataSource: MANAGE_SOURCES,
  modifySnowflakeDataSource: MANAGE_SOURCES,
  modifyWebhookDataSource: MANAGE_SOURCES,
  reconnectDataPool: MANAGE_POOLS,
  reconnectDataSource: MANAGE_SOURCES,
  requestDelete: MANAGE_JOBS,
  resyncDataPool: MANAGE_POOLS,
  retryDataPoolSetup: MANAGE_POOLS,
  retryDataPoolSetupByName: MANAGE_POOLS,
  syncDataPool: MANAGE_POOLS,
  testDataPool: MANAGE_POOLS,
  testDataSource: MANAGE_SOURCES,
  unAssignDataPoolAccessPolicyFromApplication: MANAGE_POLICIES,
}
