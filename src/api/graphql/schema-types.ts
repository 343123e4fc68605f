/** The types of the GraphQL schema. Change the .graphql files, then run `npm run generate`. */
import type { Context } from './context.ts'
import type { Parents } from './parents.ts'

type Maybe<T> = T | null | undefined
type NoArguments = Readonly<Record<string, never>>

/** A field: its arguments and its result. */
interface F<Args, Result> {
  readonly args: Args
  readonly result: Result
}
type ResultOf<Field> = Field extends F<infer _, infer Result> ? Result : never
type Resolver<Parent, Field> =
  Field extends F<infer Args, infer Result>
    ? (parent: Parent, args: Args, context: Context) => Result | Promise<Result> | Items<Result>
    : never
/** A list whose items come, or fail, one by one. */
type Items<Result> = Result extends readonly (infer Item)[] ? readonly Promise<Item>[] : never

/** The fields that the parent itself has, with a value of the right type. They need no resolver. */
type OwnKeys<Parent, T> = {
  [K in keyof T]: K extends keyof Parent ? (Parent[K] extends ResultOf<T[K]> ? K : never) : never
}[keyof T]
type ResolversOf<Parent, T> = { readonly [K in Exclude<keyof T, OwnKeys<Parent, T>>]: Resolver<Parent, T[K]> } & {
  readonly [K in OwnKeys<Parent, T>]?: Resolver<Parent, T[K]>
}
type ParentOf<K> = K extends keyof Parents ? Parents[K] : unknown

/** Every resolver that the schema needs. */
export type Resolvers = { readonly [K in keyof Fields]: ResolversOf<ParentOf<K>, Fields[K]> }

export interface Enums {
  ApplicationScope: 'ADMIN' | 'APPLICATION_ADMIN' | 'DATA_POOL_QUERY' | 'DATA_POOL_READ' | 'DATA_POOL_STATS' | 'DATA_POOL_WRITE' | 'ENVIRONMENT_ADMIN' | 'METRIC_QUERY' | 'METRIC_STATS' | 'METRIC_READ'
  Propeller: 'P1_X_SMALL' | 'P1_SMALL' | 'P1_MEDIUM' | 'P1_LARGE' | 'P1_X_LARGE'
  ColumnType: 'BOOLEAN' | 'STRING' | 'FLOAT' | 'DOUBLE' | 'INT8' | 'INT16' | 'INT32' | 'INT64' | 'DATE' | 'TIMESTAMP' | 'JSON' | 'CLICKHOUSE'
  FilterOperator: 'EQUALS' | 'NOT_EQUALS' | 'GREATER_THAN' | 'GREATER_THAN_OR_EQUAL_TO' | 'LESS_THAN' | 'LESS_THAN_OR_EQUAL_TO' | 'IS_NULL' | 'IS_NOT_NULL' | 'LIKE' | 'NOT_LIKE'
  JobStatus: 'CREATED' | 'IN_PROGRESS' | 'SUCCEEDED' | 'FAILED'
  MetricType: 'COUNT' | 'SUM' | 'COUNT_DISTINCT' | 'AVERAGE' | 'MIN' | 'MAX' | 'CUSTOM'
  BoosterStatus: 'CREATED' | 'OPTIMIZING' | 'LIVE' | 'FAILED' | 'DELETING'
  PolicyType: 'ALL_ACCESS' | 'TENANT_ACCESS'
  DataPoolStatus: 'CREATED' | 'PENDING' | 'LIVE' | 'SETUP_FAILED' | 'CONNECTING' | 'CONNECTED' | 'BROKEN' | 'PAUSING' | 'PAUSED' | 'DELETING'
  DataPoolSetupTaskStatus: 'NOT_STARTED' | 'SUCCEEDED' | 'FAILED'
  DataPoolSyncStatus: 'ENABLED' | 'DISABLING' | 'DISABLED'
  DataPoolSyncInterval: 'EVERY_1_MINUTE' | 'EVERY_5_MINUTES' | 'EVERY_15_MINUTES' | 'EVERY_30_MINUTES' | 'EVERY_1_HOUR' | 'EVERY_4_HOURS' | 'EVERY_12_HOURS' | 'EVERY_24_HOURS'
  RelativeTimeRange: 'THIS_HOUR' | 'TODAY' | 'THIS_WEEK' | 'THIS_MONTH' | 'THIS_QUARTER' | 'THIS_YEAR' | 'PREVIOUS_HOUR' | 'YESTERDAY' | 'PREVIOUS_WEEK' | 'PREVIOUS_MONTH' | 'PREVIOUS_QUARTER' | 'PREVIOUS_YEAR' | 'NEXT_HOUR' | 'TOMORROW' | 'NEXT_WEEK' | 'NEXT_MONTH' | 'NEXT_QUARTER' | 'NEXT_YEAR' | 'LAST_N_MINUTES' | 'LAST_N_HOURS' | 'LAST_N_DAYS' | 'LAST_N_WEEKS' | 'LAST_N_MONTHS' | 'LAST_N_QUARTERS' | 'LAST_N_YEARS' | 'LAST_15_MINUTES' | 'LAST_30_MINUTES' | 'LAST_HOUR' | 'LAST_4_HOURS' | 'LAST_12_HOURS' | 'LAST_24_HOURS' | 'LAST_7_DAYS' | 'LAST_30_DAYS' | 'LAST_90_DAYS' | 'LAST_3_MONTHS' | 'LAST_6_MONTHS' | 'LAST_YEAR' | 'LAST_2_YEARS' | 'LAST_5_YEARS'
  TimeSeriesGranularity: 'MINUTE' | 'FIVE_MINUTES' | 'TEN_MINUTES' | 'FIFTEEN_MINUTES' | 'HOUR' | 'DAY' | 'WEEK' | 'MONTH' | 'YEAR'
  Sort: 'ASC' | 'DESC'
  SqlDialectV1: 'POSTGRESQL' | 'CLICKHOUSE'
  QueryStatus: 'COMPLETED' | 'ERROR' | 'TIMED_OUT'
  QueryType: 'METRIC' | 'STATS' | 'REPORT' | 'RECORDS' | 'RECORDS_BY_UNIQUE_ID' | 'SELECT' | 'SQL' | 'TOP_VALUES'
  QuerySubtype: 'COUNTER' | 'TIME_SERIES' | 'LEADERBOARD'
  DataSourceType: 'WEBHOOK' | 'S3' | 'Redshift' | 'POSTGRESQL' | 'KAFKA' | 'Http' | 'CLICKHOUSE' | 'Snowflake' | 'INTERNAL'
  DataSourceStatus: 'CREATED' | 'CONNECTING' | 'CONNECTED' | 'BROKEN' | 'DELETING'
  DataSourceCheckStatus: 'NOT_STARTED' | 'SUCCEEDED' | 'FAILED'
  TableEngineType: 'MERGE_TREE' | 'REPLACING_MERGE_TREE' | 'SUMMING_MERGE_TREE' | 'AGGREGATING_MERGE_TREE' | 'POSTGRESQL'
  TableIntrospectionStatus: 'NOT_STARTED' | 'STARTED' | 'SUCCEEDED' | 'FAILED'
  SyncStatus: 'SYNCING' | 'SUCCEEDED' | 'FAILED' | 'DELETING'
  SyncsFilter: 'EMPTY' | 'NOT_EMPTY' | 'ALL'
}

/** Inputs as resolvers get them. */
export interface Inputs {
  createApplicationInput: {
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly propeller?: Maybe<Enums['Propeller']>
    readonly scopes?: Maybe<readonly (Enums['ApplicationScope'])[]>
  }
  modifyApplicationInput: {
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly propeller?: Maybe<Enums['Propeller']>
    readonly scopes?: Maybe<readonly (Enums['ApplicationScope'])[]>
  }
  CreateEnvironmentInput: {
    readonly uniqueName: string
    readonly description?: Maybe<string>
  }
  ModifyEnvironmentInput: {
    readonly id: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
  }
  idOrUniqueName: {
    readonly id?: Maybe<string>
    readonly uniqueName?: Maybe<string>
  }
  HttpBasicAuthInput: {
    readonly username: string
    readonly password: string
  }
  FilterInput: {
    readonly column: string
    readonly operator: Enums['FilterOperator']
    readonly value?: Maybe<string>
    readonly and?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly or?: Maybe<readonly (Inputs['FilterInput'])[]>
  }
  DimensionInput: {
    readonly columnName: string
  }
  DataPoolInput: {
    readonly id?: Maybe<string>
    readonly name?: Maybe<string>
  }
  createSnowflakeDataSourceInput: {
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly connectionSettings: Inputs['SnowflakeConnectionSettingsInput']
  }
  modifySnowflakeDataSourceInput: {
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly connectionSettings?: Maybe<Inputs['PartialSnowflakeConnectionSettingsInput']>
  }
  SnowflakeConnectionSettingsInput: {
    readonly account: string
    readonly database: string
    readonly warehouse: string
    readonly schema: string
    readonly username: string
    readonly password: string
    readonly role: string
  }
  PartialSnowflakeConnectionSettingsInput: {
    readonly account?: Maybe<string>
    readonly database?: Maybe<string>
    readonly warehouse?: Maybe<string>
    readonly schema?: Maybe<string>
    readonly username?: Maybe<string>
    readonly password?: Maybe<string>
    readonly role?: Maybe<string>
  }
  CreateS3DataSourceInput: {
    readonly connectionSettings: Inputs['S3ConnectionSettingsInput']
    readonly description?: Maybe<string>
    readonly uniqueName?: Maybe<string>
  }
  ModifyS3DataSourceInput: {
    readonly connectionSettings?: Maybe<Inputs['PartialS3ConnectionSettingsInput']>
    readonly description?: Maybe<string>
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
  }
  S3ConnectionSettingsInput: {
    readonly awsAccessKeyId: string
    readonly awsSecretAccessKey: string
    readonly bucket: string
    readonly tables: readonly (Inputs['S3DataSourceTableInput'])[]
  }
  PartialS3ConnectionSettingsInput: {
    readonly awsAccessKeyId?: Maybe<string>
    readonly awsSecretAccessKey?: Maybe<string>
    readonly bucket?: Maybe<string>
    readonly tables?: Maybe<readonly (Inputs['S3DataSourceTableInput'])[]>
  }
  S3DataSourceTableInput: {
    readonly name: string
    readonly path?: Maybe<string>
    readonly columns: readonly (Inputs['S3DataSourceColumnInput'])[]
  }
  S3DataSourceColumnInput: {
    readonly name: string
    readonly type: Enums['ColumnType']
    readonly nullable: boolean
  }
  CreateKafkaDataSourceInput: {
    readonly connectionSettings: Inputs['KafkaConnectionSettingsInput']
    readonly description?: Maybe<string>
    readonly uniqueName?: Maybe<string>
  }
  ModifyKafkaDataSourceInput: {
    readonly connectionSettings?: Maybe<Inputs['PartialKafkaConnectionSettingsInput']>
    readonly description?: Maybe<string>
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
  }
  KafkaConnectionSettingsInput: {
    readonly auth: string
    readonly bootstrapServers: readonly (string)[]
    readonly password: string
    readonly tls?: Maybe<boolean>
    readonly user: string
  }
  PartialKafkaConnectionSettingsInput: {
    readonly auth?: Maybe<string>
    readonly bootstrapServers: readonly (string)[]
    readonly password?: Maybe<string>
    readonly tls?: Maybe<boolean>
    readonly user?: Maybe<string>
  }
  CreateClickHouseDataSourceInput: {
    readonly connectionSettings: Inputs['ClickHouseConnectionSettingsInput']
    readonly description?: Maybe<string>
    readonly uniqueName?: Maybe<string>
  }
  ModifyClickHouseDataSourceInput: {
    readonly connectionSettings?: Maybe<Inputs['PartialClickHouseConnectionSettingsInput']>
    readonly description?: Maybe<string>
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
  }
  ClickHouseConnectionSettingsInput: {
    readonly database: string
    readonly password: string
    readonly url: string
    readonly user: string
  }
  PartialClickHouseConnectionSettingsInput: {
    readonly database?: Maybe<string>
    readonly password?: Maybe<string>
    readonly url?: Maybe<string>
    readonly user?: Maybe<string>
  }
  CreatePostgreSqlDataSourceInput: {
    readonly connectionSettings: Inputs['PostgreSqlConnectionSettingsInput']
    readonly description?: Maybe<string>
    readonly uniqueName?: Maybe<string>
  }
  ModifyPostgreSqlDataSourceInput: {
    readonly connectionSettings?: Maybe<Inputs['PartialPostgreSqlConnectionSettingsInput']>
    readonly description?: Maybe<string>
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
  }
  PostgreSqlConnectionSettingsInput: {
    readonly database?: Maybe<string>
    readonly host: string
    readonly password: string
    readonly port?: Maybe<number>
    readonly schema?: Maybe<string>
    readonly user: string
  }
  PartialPostgreSqlConnectionSettingsInput: {
    readonly database?: Maybe<string>
    readonly host?: Maybe<string>
    readonly password?: Maybe<string>
    readonly port?: Maybe<number>
    readonly schema?: Maybe<string>
    readonly user?: Maybe<string>
  }
  CreateAddColumnToDataPoolJobInput: {
    readonly dataPool: string
    readonly columnName: string
    readonly columnType: Enums['ColumnType']
    readonly columnClickHouseType?: Maybe<string>
    readonly jsonProperty?: Maybe<string>
  }
  CreateDeletionJobInput: {
    readonly dataPool: string
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
  }
  DeletionRequestInput: {
    readonly dataPool: string
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
  }
  CreateUpdateDataPoolRecordsJobInput: {
    readonly dataPool: string
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly set: readonly (Inputs['UpdateDataPoolRecordsJobSetColumnInput'])[]
  }
  UpdateDataPoolRecordsJobSetColumnInput: {
    readonly column: string
    readonly expression: string
  }
  CreateCountMetricInput: {
    readonly dataPool: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly dimensions?: Maybe<readonly (Inputs['DimensionInput'])[]>
  }
  CreateSumMetricInput: {
    readonly dataPool: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly dimensions?: Maybe<readonly (Inputs['DimensionInput'])[]>
    readonly measure: Inputs['DimensionInput']
  }
  CreateCountDistinctMetricInput: {
    readonly dataPool: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly dimensions?: Maybe<readonly (Inputs['DimensionInput'])[]>
    readonly dimension: Inputs['DimensionInput']
  }
  CreateAverageMetricInput: {
    readonly dataPool: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly dimensions?: Maybe<readonly (Inputs['DimensionInput'])[]>
    readonly measure: Inputs['DimensionInput']
  }
  CreateMinMetricInput: {
    readonly dataPool: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly dimensions?: Maybe<readonly (Inputs['DimensionInput'])[]>
    readonly measure: Inputs['DimensionInput']
  }
  CreateMaxMetricInput: {
    readonly dataPool: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly dimensions?: Maybe<readonly (Inputs['DimensionInput'])[]>
    readonly measure: Inputs['DimensionInput']
  }
  CreateCustomMetricInput: {
    readonly dataPool: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly dimensions?: Maybe<readonly (Inputs['DimensionInput'])[]>
    readonly expression: string
  }
  ModifyMetricInput: {
    readonly metric: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly dimensions?: Maybe<readonly (Inputs['DimensionInput'])[]>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly accessControlEnabled?: Maybe<boolean>
  }
  MigrateMetricInput: {
    readonly metricId: string
    readonly newDataPoolId: string
  }
  CreateBoosterInput: {
    readonly metric: string
    readonly dimensions: readonly (Inputs['DimensionInput'])[]
  }
  CreateDataPoolAccessPolicyInput: {
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly dataPool: string
    readonly columns: readonly (string)[]
    readonly rows?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
  }
  ModifyDataPoolAccessPolicyInput: {
    readonly id: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly columns?: Maybe<readonly (string)[]>
    readonly rows?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
  }
  CreatePolicyInput: {
    readonly metric: string
    readonly type: Enums['PolicyType']
    readonly application: string
  }
  ModifyPolicyInput: {
    readonly policy: string
    readonly type: Enums['PolicyType']
  }
  DataPoolColumnInput: {
    readonly columnName: string
    readonly type: Enums['ColumnType']
    readonly clickHouseType?: Maybe<string>
    readonly isNullable: boolean
  }
  CreateDataPoolInputV2: {
    readonly dataSource?: Maybe<string>
    readonly table?: Maybe<string>
    readonly timestamp?: Maybe<Inputs['TimestampInput']>
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly columns?: Maybe<readonly (Inputs['DataPoolColumnInput'])[]>
    readonly tenant?: Maybe<Inputs['TenantInput']>
    readonly uniqueId?: Maybe<Inputs['UniqueIdInput']>
    readonly syncing?: Maybe<Inputs['DataPoolSyncingInput']>
    readonly accessControlEnabled?: Maybe<boolean>
    readonly tableSettings?: Maybe<Inputs['TableSettingsInput']>
  }
  modifyDataPoolInput: {
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly dataRetentionInDays?: Maybe<number>
    readonly syncing?: Maybe<Inputs['DataPoolSyncingInput']>
    readonly timestamp?: Maybe<Inputs['TimestampInput']>
    readonly accessControlEnabled?: Maybe<boolean>
  }
  DataPoolSyncingInput: {
    readonly interval: Enums['DataPoolSyncInterval']
  }
  TimestampInput: {
    readonly columnName: string
  }
  TenantInput: {
    readonly columnName: string
  }
  UniqueIdInput: {
    readonly columnName: string
  }
  MetricInput: {
    readonly id?: Maybe<string>
    readonly name?: Maybe<string>
    readonly custom?: Maybe<Inputs['CustomMetricQueryInput']>
    readonly count?: Maybe<Inputs['CountMetricQueryInput']>
    readonly sum?: Maybe<Inputs['SumMetricQueryInput']>
    readonly average?: Maybe<Inputs['AverageMetricQueryInput']>
    readonly min?: Maybe<Inputs['MinMetricQueryInput']>
    readonly max?: Maybe<Inputs['MaxMetricQueryInput']>
    readonly countDistinct?: Maybe<Inputs['CountDistinctMetricQueryInput']>
  }
  CountMetricQueryInput: {
    readonly dataPool: Inputs['DataPoolInput']
  }
  SumMetricQueryInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly measure: Inputs['DimensionInput']
  }
  AverageMetricQueryInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly measure: Inputs['DimensionInput']
  }
  MinMetricQueryInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly measure: Inputs['DimensionInput']
  }
  MaxMetricQueryInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly measure: Inputs['DimensionInput']
  }
  CountDistinctMetricQueryInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly dimension: Inputs['DimensionInput']
  }
  CustomMetricQueryInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly expression: string
  }
  TimeRangeInput: {
    readonly timestamp?: Maybe<string>
    readonly relative?: Maybe<Enums['RelativeTimeRange']>
    readonly n?: Maybe<number>
    readonly start?: Maybe<string>
    readonly stop?: Maybe<string>
  }
  CounterInput: {
    readonly metricId?: Maybe<string>
    readonly metricName?: Maybe<string>
    readonly metric?: Maybe<Inputs['MetricInput']>
    readonly timeRange?: Maybe<Inputs['TimeRangeInput']>
    readonly timeZone?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
  }
  TimeSeriesInput: {
    readonly metricId?: Maybe<string>
    readonly metricName?: Maybe<string>
    readonly metric?: Maybe<Inputs['MetricInput']>
    readonly timeRange?: Maybe<Inputs['TimeRangeInput']>
    readonly timeZone?: Maybe<string>
    readonly granularity: Enums['TimeSeriesGranularity']
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly groupBy?: Maybe<readonly (string)[]>
  }
  LeaderboardInput: {
    readonly metricId?: Maybe<string>
    readonly metricName?: Maybe<string>
    readonly metric?: Maybe<Inputs['MetricInput']>
    readonly timeRange?: Maybe<Inputs['TimeRangeInput']>
    readonly timeZone?: Maybe<string>
    readonly dimensions: readonly (Inputs['DimensionInput'])[]
    readonly sort?: Maybe<Enums['Sort']>
    readonly rowLimit: number
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
  }
  DataGridInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly timeRange?: Maybe<Inputs['TimeRangeInput']>
    readonly timeZone?: Maybe<string>
    readonly columns: readonly (string)[]
    readonly orderByColumn?: Maybe<number>
    readonly sort?: Maybe<Enums['Sort']>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly first?: Maybe<number>
    readonly after?: Maybe<string>
    readonly last?: Maybe<number>
    readonly before?: Maybe<string>
  }
  MetricReportInput: {
    readonly timeRange?: Maybe<Inputs['TimeRangeInput']>
    readonly timeZone?: Maybe<string>
    readonly dimensions: readonly (Inputs['MetricReportDimensionInput'])[]
    readonly metrics: readonly (Inputs['MetricReportMetricInput'])[]
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly orderByColumn?: Maybe<number>
    readonly first?: Maybe<number>
    readonly after?: Maybe<string>
    readonly last?: Maybe<number>
    readonly before?: Maybe<string>
  }
  MetricReportDimensionInput: {
    readonly columnName: string
    readonly displayName?: Maybe<string>
    readonly sort?: Maybe<Enums['Sort']>
  }
  MetricReportMetricInput: {
    readonly uniqueName?: Maybe<string>
    readonly id?: Maybe<string>
    readonly metric?: Maybe<Inputs['MetricInput']>
    readonly displayName?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
    readonly sort?: Maybe<Enums['Sort']>
  }
  RecordsByUniqueIdInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly columns: readonly (string)[]
    readonly uniqueIds: readonly (string)[]
  }
  TopValuesInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly columnName: string
    readonly timeRange?: Maybe<Inputs['TimeRangeInput']>
    readonly timeZone?: Maybe<string>
    readonly maxValues?: Maybe<number>
  }
  PercentileInput: {
    readonly dataPool: Inputs['DataPoolInput']
    readonly columnName: string
    readonly fractions: readonly (number)[]
    readonly timeRange?: Maybe<Inputs['TimeRangeInput']>
    readonly timeZone?: Maybe<string>
    readonly filters?: Maybe<readonly (Inputs['FilterInput'])[]>
    readonly filterSql?: Maybe<string>
  }
  SqlV1Input: {
    readonly query: string
    readonly dialect?: Maybe<Enums['SqlDialectV1']>
  }
  DescribeSqlV1Input: {
    readonly query: string
    readonly dialect?: Maybe<Enums['SqlDialectV1']>
  }
  CreateWebhookDataSourceInput: {
    readonly connectionSettings: Inputs['WebhookConnectionSettingsInput']
    readonly description?: Maybe<string>
    readonly uniqueName?: Maybe<string>
  }
  ModifyWebhookDataSourceInput: {
    readonly connectionSettings?: Maybe<Inputs['PartialWebhookConnectionSettingsInput']>
    readonly description?: Maybe<string>
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
  }
  WebhookConnectionSettingsInput: {
    readonly accessControlEnabled?: Maybe<boolean>
    readonly basicAuth?: Maybe<Inputs['HttpBasicAuthInput']>
    readonly columns?: Maybe<readonly (Inputs['WebhookDataSourceColumnInput'])[]>
    readonly tableSettings?: Maybe<Inputs['TableSettingsInput']>
    readonly tenant?: Maybe<string>
    readonly timestamp?: Maybe<string>
    readonly uniqueId?: Maybe<string>
  }
  PartialWebhookConnectionSettingsInput: {
    readonly basicAuth?: Maybe<Inputs['HttpBasicAuthInput']>
    readonly basicAuthEnabled?: Maybe<boolean>
  }
  WebhookDataSourceColumnInput: {
    readonly name: string
    readonly jsonProperty: string
    readonly type: Enums['ColumnType']
    readonly nullable: boolean
  }
  CreateHttpDataSourceInput: {
    readonly connectionSettings: Inputs['HttpConnectionSettingsInput']
    readonly description?: Maybe<string>
    readonly uniqueName?: Maybe<string>
  }
  ModifyHttpDataSourceInput: {
    readonly connectionSettings?: Maybe<Inputs['PartialHttpConnectionSettingsInput']>
    readonly description?: Maybe<string>
    readonly idOrUniqueName: Inputs['idOrUniqueName']
    readonly uniqueName?: Maybe<string>
  }
  HttpConnectionSettingsInput: {
    readonly basicAuth?: Maybe<Inputs['HttpBasicAuthInput']>
    readonly tables: readonly (Inputs['HttpDataSourceTableInput'])[]
  }
  PartialHttpConnectionSettingsInput: {
    readonly basicAuth?: Maybe<Inputs['HttpBasicAuthInput']>
    readonly basicAuthEnabled?: Maybe<boolean>
    readonly tables?: Maybe<readonly (Inputs['HttpDataSourceTableInput'])[]>
  }
  HttpDataSourceTableInput: {
    readonly name: string
    readonly columns: readonly (Inputs['HttpDataSourceColumnInput'])[]
  }
  HttpDataSourceColumnInput: {
    readonly name: string
    readonly type: Enums['ColumnType']
    readonly clickHouseType?: Maybe<string>
    readonly nullable: boolean
  }
  TableSettingsInput: {
    readonly engine?: Maybe<Inputs['TableEngineInput']>
    readonly partitionBy?: Maybe<readonly (string)[]>
    readonly primaryKey?: Maybe<readonly (string)[]>
    readonly orderBy?: Maybe<readonly (string)[]>
    readonly ttl?: Maybe<string>
  }
  TableEngineInput: {
    readonly mergeTree?: Maybe<Inputs['MergeTreeTableEngineInput']>
    readonly replacingMergeTree?: Maybe<Inputs['ReplacingMergeTreeTableEngineInput']>
    readonly summingMergeTree?: Maybe<Inputs['SummingMergeTreeTableEngineInput']>
    readonly aggregatingMergeTree?: Maybe<Inputs['AggregatingMergeTreeTableEngineInput']>
    readonly postgreSql?: Maybe<Inputs['PostgreSqlTableEngineInput']>
  }
  MergeTreeTableEngineInput: {
    readonly type?: Maybe<Enums['TableEngineType']>
  }
  ReplacingMergeTreeTableEngineInput: {
    readonly type?: Maybe<Enums['TableEngineType']>
    readonly ver?: Maybe<string>
  }
  SummingMergeTreeTableEngineInput: {
    readonly type?: Maybe<Enums['TableEngineType']>
    readonly columns?: Maybe<readonly (string)[]>
  }
  AggregatingMergeTreeTableEngineInput: {
    readonly type?: Maybe<Enums['TableEngineType']>
  }
  PostgreSqlTableEngineInput: {
    readonly type?: Maybe<Enums['TableEngineType']>
  }
  CreateMaterializedViewInput: {
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly sql: string
    readonly destination: Inputs['CreateMaterializedViewDestinationInput']
    readonly backfillOptions?: Maybe<Inputs['BackfillOptionsInput']>
  }
  CreateMaterializedViewDestinationInput: {
    readonly existingDataPool?: Maybe<Inputs['DataPoolInput']>
    readonly newDataPool?: Maybe<Inputs['CreateMaterializedViewDestinationNewDataPoolInput']>
  }
  CreateMaterializedViewDestinationNewDataPoolInput: {
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
    readonly timestamp?: Maybe<Inputs['TimestampInput']>
    readonly uniqueId?: Maybe<Inputs['UniqueIdInput']>
    readonly accessControlEnabled?: Maybe<boolean>
    readonly tableSettings?: Maybe<Inputs['TableSettingsInput']>
  }
  BackfillOptionsInput: {
    readonly backfill?: Maybe<boolean>
  }
  ModifyMaterializedViewInput: {
    readonly id: string
    readonly uniqueName?: Maybe<string>
    readonly description?: Maybe<string>
  }
}

/** Objects as resolvers give them. */
interface Objects {
  Application: Parents['Application']
  ApplicationConnection: {
    readonly edges: readonly (Objects['ApplicationEdge'])[]
    readonly nodes: readonly (Objects['Application'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  ApplicationEdge: {
    readonly cursor: string
    readonly node: Objects['Application']
  }
  ApplicationResponse: {
    readonly application?: Maybe<Objects['Application']>
  }
  Environment: Parents['Environment']
  EnvironmentResponse: {
    readonly environment?: Maybe<Objects['Environment']>
  }
  Account: {
    readonly id: string
  }
  PageInfo: {
    readonly startCursor?: Maybe<string>
    readonly endCursor?: Maybe<string>
    readonly hasNextPage: boolean
    readonly hasPreviousPage: boolean
  }
  Error: {
    readonly code?: Maybe<number>
    readonly message: string
  }
  FailureResponse: {
    readonly error: Objects['Error']
  }
  HttpBasicAuthSettings: {
    readonly username: string
    readonly password: string
  }
  Filter: {
    readonly column: string
    readonly operator: Enums['FilterOperator']
    readonly value?: Maybe<string>
    readonly and?: Maybe<readonly (Objects['Filter'])[]>
    readonly or?: Maybe<readonly (Objects['Filter'])[]>
  }
  SnowflakeConnectionSettings: {
    readonly account: string
    readonly database: string
    readonly warehouse: string
    readonly schema: string
    readonly username: string
    readonly role: string
  }
  S3ConnectionSettings: {
    readonly awsAccessKeyId: string
    readonly bucket: string
    readonly tables: readonly (Objects['S3DataSourceTable'])[]
  }
  S3DataSourceTable: {
    readonly id: string
    readonly name: string
    readonly path?: Maybe<string>
    readonly columns: readonly (Objects['S3DataSourceColumn'])[]
  }
  S3DataSourceColumn: {
    readonly name: string
    readonly type: Enums['ColumnType']
    readonly nullable: boolean
  }
  KafkaConnectionSettings: {
    readonly auth: string
    readonly bootstrapServers: readonly (string)[]
    readonly password: string
    readonly tls?: Maybe<boolean>
    readonly user: string
  }
  ClickHouseConnectionSettings: {
    readonly database: string
    readonly password: string
    readonly readonly?: Maybe<boolean>
    readonly url: string
    readonly user: string
  }
  PostgreSqlConnectionSettings: {
    readonly database?: Maybe<string>
    readonly host: string
    readonly port?: Maybe<number>
    readonly schema?: Maybe<string>
    readonly user: string
  }
  CancelJobResponse: {
    readonly id: string
    readonly status: Enums['JobStatus']
    readonly error?: Maybe<Objects['Error']>
  }
  AddColumnToDataPoolJob: Parents['AddColumnToDataPoolJob']
  AddColumnToDataPoolJobConnection: {
    readonly edges: readonly (Objects['AddColumnToDataPoolJobEdge'])[]
    readonly nodes: readonly (Objects['AddColumnToDataPoolJob'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  AddColumnToDataPoolJobEdge: {
    readonly cursor: string
    readonly node: Objects['AddColumnToDataPoolJob']
  }
  AddColumnToDataPoolJobResponse: {
    readonly job: Objects['AddColumnToDataPoolJob']
  }
  DeletionJob: Parents['DeletionJob']
  DeletionJobConnection: {
    readonly edges: readonly (Objects['DeletionJobEdge'])[]
    readonly nodes: readonly (Objects['DeletionJob'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  DeletionJobEdge: {
    readonly cursor: string
    readonly node: Objects['DeletionJob']
  }
  DeletionJobResponse: {
    readonly job: Objects['DeletionJob']
  }
  RequestDeleteResponse: {
    readonly job: Objects['DeletionJob']
  }
  UpdateDataPoolRecordsJob: Parents['UpdateDataPoolRecordsJob']
  UpdateDataPoolRecordsJobConnection: {
    readonly edges: readonly (Objects['UpdateDataPoolRecordsJobEdge'])[]
    readonly nodes: readonly (Objects['UpdateDataPoolRecordsJob'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  UpdateDataPoolRecordsJobEdge: {
    readonly cursor: string
    readonly node: Objects['UpdateDataPoolRecordsJob']
  }
  UpdateDataPoolRecordsJobSetColumn: {
    readonly column: string
    readonly expression: string
  }
  UpdateDataPoolRecordsJobResponse: {
    readonly job: Objects['UpdateDataPoolRecordsJob']
  }
  Metric: Parents['Metric']
  MetricConnection: {
    readonly edges: readonly (Objects['MetricEdge'])[]
    readonly nodes: readonly (Objects['Metric'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  MetricEdge: {
    readonly cursor: string
    readonly node: Objects['Metric']
  }
  CountMetricSettings: {
    readonly filters?: Maybe<readonly (Objects['Filter'])[]>
    readonly filterSql?: Maybe<string>
  }
  SumMetricSettings: {
    readonly filters?: Maybe<readonly (Objects['Filter'])[]>
    readonly filterSql?: Maybe<string>
    readonly measure: Objects['Dimension']
  }
  CountDistinctMetricSettings: {
    readonly filters?: Maybe<readonly (Objects['Filter'])[]>
    readonly filterSql?: Maybe<string>
    readonly dimension: Objects['Dimension']
  }
  AverageMetricSettings: {
    readonly filters?: Maybe<readonly (Objects['Filter'])[]>
    readonly filterSql?: Maybe<string>
    readonly measure: Objects['Dimension']
  }
  MinMetricSettings: {
    readonly filters?: Maybe<readonly (Objects['Filter'])[]>
    readonly filterSql?: Maybe<string>
    readonly measure: Objects['Dimension']
  }
  MaxMetricSettings: {
    readonly filters?: Maybe<readonly (Objects['Filter'])[]>
    readonly filterSql?: Maybe<string>
    readonly measure: Objects['Dimension']
  }
  CustomMetricSettings: {
    readonly filters?: Maybe<readonly (Objects['Filter'])[]>
    readonly filterSql?: Maybe<string>
    readonly expression: string
  }
  Dimension: Parents['Dimension']
  DimensionStatistics: Parents['DimensionStatistics']
  MetricResponse: {
    readonly metric?: Maybe<Objects['Metric']>
  }
  Booster: Parents['Booster']
  BoosterConnection: {
    readonly edges: readonly (Objects['BoosterEdge'])[]
    readonly nodes: readonly (Objects['Booster'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  BoosterEdge: {
    readonly cursor: string
    readonly node: Objects['Booster']
  }
  BoosterResponse: {
    readonly booster?: Maybe<Objects['Booster']>
  }
  DataPoolAccessPolicy: Parents['DataPoolAccessPolicy']
  DataPoolAccessPolicyConnection: {
    readonly edges: readonly (Objects['DataPoolAccessPolicyEdge'])[]
    readonly nodes: readonly (Objects['DataPoolAccessPolicy'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  DataPoolAccessPolicyEdge: {
    readonly cursor: string
    readonly node: Objects['DataPoolAccessPolicy']
  }
  DataPoolAccessPolicyResponse: {
    readonly dataPoolAccessPolicy: Objects['DataPoolAccessPolicy']
  }
  Policy: Parents['Policy']
  PolicyConnection: {
    readonly edges: readonly (Objects['PolicyEdge'])[]
    readonly nodes: readonly (Objects['Policy'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  PolicyEdge: {
    readonly cursor: string
    readonly node: Objects['Policy']
  }
  PolicyResponse: {
    readonly policy?: Maybe<Objects['Policy']>
  }
  DataPool: Parents['DataPool']
  DataPoolConnection: {
    readonly edges: readonly (Objects['DataPoolEdge'])[]
    readonly nodes: readonly (Objects['DataPool'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  DataPoolEdge: {
    readonly cursor: string
    readonly node: Objects['DataPool']
  }
  DataPoolColumn: {
    readonly name?: Maybe<string>
    readonly columnName: string
    readonly type: Enums['ColumnType']
    readonly clickHouseType: string
    readonly isNullable: boolean
  }
  DataPoolColumnConnection: {
    readonly edges: readonly (Objects['DataPoolColumnEdge'])[]
    readonly nodes: readonly (Objects['DataPoolColumn'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  DataPoolColumnEdge: {
    readonly cursor: string
    readonly node: Objects['DataPoolColumn']
  }
  DataPoolResponse: {
    readonly dataPool?: Maybe<Objects['DataPool']>
  }
  DataPoolSetupTask: {
    readonly name: string
    readonly description?: Maybe<string>
    readonly status: Enums['DataPoolSetupTaskStatus']
    readonly error?: Maybe<Objects['Error']>
    readonly completedAt?: Maybe<string>
  }
  DataPoolSyncing: {
    readonly status: Enums['DataPoolSyncStatus']
    readonly interval?: Maybe<Enums['DataPoolSyncInterval']>
    readonly lastSyncedAt?: Maybe<string>
  }
  Timestamp: {
    readonly columnName: string
    readonly type: string
  }
  Tenant: {
    readonly columnName: string
    readonly type: string
  }
  UniqueId: {
    readonly columnName: string
  }
  ValidateExpressionResult: {
    readonly valid: boolean
    readonly reason?: Maybe<string>
  }
  CounterResponse: {
    readonly value?: Maybe<string>
    readonly query: Objects['QueryInfo']
  }
  TimeSeriesResponse: {
    readonly labels: readonly (string)[]
    readonly values: readonly (Maybe<string>)[]
    readonly groups?: Maybe<readonly (Objects['TimeSeriesResponseGroup'])[]>
    readonly query: Objects['QueryInfo']
  }
  TimeSeriesResponseGroup: {
    readonly group: readonly (Maybe<string>)[]
    readonly labels: readonly (string)[]
    readonly values: readonly (Maybe<string>)[]
  }
  LeaderboardResponse: {
    readonly headers: readonly (string)[]
    readonly rows: readonly (readonly (Maybe<string>)[])[]
    readonly query: Objects['QueryInfo']
  }
  DataGridConnection: {
    readonly headers: readonly (string)[]
    readonly rows: readonly (readonly (Maybe<string>)[])[]
    readonly query: Objects['QueryInfo']
    readonly pageInfo: Objects['PageInfo']
    readonly edges: readonly (Objects['DataGridEdge'])[]
    readonly nodes: readonly (Objects['DataGridNode'])[]
  }
  DataGridEdge: {
    readonly node: Objects['DataGridNode']
    readonly cursor: string
  }
  DataGridNode: {
    readonly headers: readonly (string)[]
    readonly row: readonly (Maybe<string>)[]
  }
  MetricReportConnection: {
    readonly pageInfo: Objects['PageInfo']
    readonly edges: readonly (Objects['MetricReportEdge'])[]
    readonly nodes: readonly (Objects['MetricReportNode'])[]
    readonly headers: readonly (Maybe<string>)[]
    readonly rows: readonly (readonly (Maybe<string>)[])[]
    readonly query: Objects['QueryInfo']
  }
  MetricReportEdge: {
    readonly node: Objects['MetricReportNode']
    readonly cursor: string
  }
  MetricReportNode: {
    readonly headers: readonly (Maybe<string>)[]
    readonly row: readonly (Maybe<string>)[]
  }
  RecordsByUniqueIdResponse: {
    readonly columns: readonly (string)[]
    readonly values: readonly (readonly (Maybe<string>)[])[]
    readonly query: Objects['QueryInfo']
  }
  TopValuesResponse: {
    readonly values: readonly (string)[]
  }
  PercentileResponse: {
    readonly values: readonly (Maybe<string>)[]
    readonly query: Objects['QueryInfo']
  }
  SqlResponse: {
    readonly columns: readonly (Objects['SqlColumnResponse'])[]
    readonly rows: readonly (readonly (Maybe<string>)[])[]
    readonly info: Objects['QueryInfo']
  }
  SqlColumnResponse: {
    readonly columnName: string
    readonly type: Enums['ColumnType']
    readonly isNullable: boolean
  }
  DescribeSqlResponse: {
    readonly columns: readonly (Objects['SqlColumnResponse'])[]
  }
  QueryInfo: {
    readonly id: string
    readonly createdAt: string
    readonly createdBy: string
    readonly modifiedAt: string
    readonly modifiedBy: string
    readonly bytesProcessed: string
    readonly durationInMilliseconds: number
    readonly recordsProcessed: string
    readonly resultingBytes: number
    readonly resultingRecords: number
    readonly booster?: Maybe<Objects['Booster']>
    readonly propeller?: Maybe<Enums['Propeller']>
    readonly status: Enums['QueryStatus']
    readonly type: Enums['QueryType']
    readonly subtype?: Maybe<Enums['QuerySubtype']>
    readonly sql: string
  }
  DataSource: Parents['DataSource']
  DataSourceConnection: {
    readonly edges: readonly (Objects['DataSourceEdge'])[]
    readonly nodes: readonly (Objects['DataSource'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  DataSourceEdge: {
    readonly cursor: string
    readonly node: Objects['DataSource']
  }
  DataSourceCheck: {
    readonly name: string
    readonly description?: Maybe<string>
    readonly status: Enums['DataSourceCheckStatus']
    readonly error?: Maybe<Objects['Error']>
    readonly checkedAt?: Maybe<string>
  }
  DataSourceResponse: {
    readonly dataSource?: Maybe<Objects['DataSource']>
  }
  WebhookConnectionSettings: {
    readonly accessControlEnabled?: Maybe<boolean>
    readonly basicAuth?: Maybe<Objects['HttpBasicAuthSettings']>
    readonly columns?: Maybe<readonly (Objects['WebhookDataSourceColumn'])[]>
    readonly tableSettings?: Maybe<Objects['TableSettings']>
    readonly tenant?: Maybe<string>
    readonly timestamp?: Maybe<string>
    readonly uniqueId?: Maybe<string>
    readonly webhookUrl: string
  }
  WebhookDataSourceColumn: {
    readonly name: string
    readonly jsonProperty: string
    readonly type: Enums['ColumnType']
    readonly nullable: boolean
  }
  HttpConnectionSettings: {
    readonly basicAuth?: Maybe<Objects['HttpBasicAuthSettings']>
    readonly tables: readonly (Objects['HttpDataSourceTable'])[]
  }
  HttpDataSourceTable: {
    readonly id: string
    readonly name: string
    readonly columns: readonly (Objects['HttpDataSourceColumn'])[]
  }
  HttpDataSourceColumn: {
    readonly name: string
    readonly type: Enums['ColumnType']
    readonly clickHouseType?: Maybe<string>
    readonly nullable: boolean
  }
  InternalConnectionSettings: {
    readonly _?: Maybe<boolean>
  }
  TableSettings: {
    readonly engine?: Maybe<Unions['TableEngine']>
    readonly partitionBy?: Maybe<readonly (string)[]>
    readonly primaryKey?: Maybe<readonly (string)[]>
    readonly orderBy?: Maybe<readonly (string)[]>
    readonly ttl?: Maybe<string>
  }
  MergeTreeTableEngine: {
    readonly type: Enums['TableEngineType']
  }
  ReplacingMergeTreeTableEngine: {
    readonly type: Enums['TableEngineType']
    readonly ver?: Maybe<string>
  }
  SummingMergeTreeTableEngine: {
    readonly type: Enums['TableEngineType']
    readonly columns?: Maybe<readonly (string)[]>
  }
  AggregatingMergeTreeTableEngine: {
    readonly type: Enums['TableEngineType']
  }
  PostgreSqlTableEngine: {
    readonly type: Enums['TableEngineType']
  }
  Table: Parents['Table']
  TableConnection: {
    readonly edges: readonly (Objects['TableEdge'])[]
    readonly nodes: readonly (Objects['Table'])[]
    readonly pageInfo: Objects['PageInfo']
    readonly cachedAt: string
  }
  TableEdge: {
    readonly cursor: string
    readonly node: Objects['Table']
  }
  Column: Parents['Column']
  ColumnConnection: {
    readonly edges: readonly (Objects['ColumnEdge'])[]
    readonly nodes: readonly (Objects['Column'])[]
    readonly pageInfo: Objects['PageInfo']
    readonly cachedAt: string
  }
  ColumnEdge: {
    readonly cursor: string
    readonly node: Objects['Column']
  }
  TableIntrospection: Parents['TableIntrospection']
  TableIntrospectionConnection: {
    readonly edges: readonly (Objects['TableIntrospectionEdge'])[]
    readonly nodes: readonly (Objects['TableIntrospection'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  TableIntrospectionEdge: {
    readonly cursor: string
    readonly node: Objects['TableIntrospection']
  }
  Sync: Parents['Sync']
  SyncConnection: {
    readonly edges: readonly (Objects['SyncEdge'])[]
    readonly nodes: readonly (Objects['Sync'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  SyncEdge: {
    readonly cursor: string
    readonly node: Objects['Sync']
  }
  MaterializedView: Parents['MaterializedView']
  MaterializedViewConnection: {
    readonly edges: readonly (Objects['MaterializedViewEdge'])[]
    readonly nodes: readonly (Objects['MaterializedView'])[]
    readonly pageInfo: Objects['PageInfo']
  }
  MaterializedViewEdge: {
    readonly cursor: string
    readonly node: Objects['MaterializedView']
  }
  MaterializedViewResponse: {
    readonly materializedView: Objects['MaterializedView']
  }
}

interface Unions {
  ApplicationOrFailureResponse: (Objects['ApplicationResponse'] & { readonly __typename: 'ApplicationResponse' }) | (Objects['FailureResponse'] & { readonly __typename: 'FailureResponse' })
  MetricSettings: (Objects['CountMetricSettings'] & { readonly __typename: 'CountMetricSettings' }) | (Objects['SumMetricSettings'] & { readonly __typename: 'SumMetricSettings' }) | (Objects['CountDistinctMetricSettings'] & { readonly __typename: 'CountDistinctMetricSettings' }) | (Objects['AverageMetricSettings'] & { readonly __typename: 'AverageMetricSettings' }) | (Objects['MinMetricSettings'] & { readonly __typename: 'MinMetricSettings' }) | (Objects['MaxMetricSettings'] & { readonly __typename: 'MaxMetricSettings' }) | (Objects['CustomMetricSettings'] & { readonly __typename: 'CustomMetricSettings' })
  DataPoolOrFailureResponse: (Objects['DataPoolResponse'] & { readonly __typename: 'DataPoolResponse' }) | (Objects['FailureResponse'] & { readonly __typename: 'FailureResponse' })
  ConnectionSettings: (Objects['SnowflakeConnectionSettings'] & { readonly __typename: 'SnowflakeConnectionSettings' }) | (Objects['InternalConnectionSettings'] & { readonly __typename: 'InternalConnectionSettings' }) | (Objects['ClickHouseConnectionSettings'] & { readonly __typename: 'ClickHouseConnectionSettings' }) | (Objects['HttpConnectionSettings'] & { readonly __typename: 'HttpConnectionSettings' }) | (Objects['KafkaConnectionSettings'] & { readonly __typename: 'KafkaConnectionSettings' }) | (Objects['PostgreSqlConnectionSettings'] & { readonly __typename: 'PostgreSqlConnectionSettings' }) | (Objects['S3ConnectionSettings'] & { readonly __typename: 'S3ConnectionSettings' }) | (Objects['WebhookConnectionSettings'] & { readonly __typename: 'WebhookConnectionSettings' })
  DataSourceOrFailureResponse: (Objects['DataSourceResponse'] & { readonly __typename: 'DataSourceResponse' }) | (Objects['FailureResponse'] & { readonly __typename: 'FailureResponse' })
  TableEngine: (Objects['MergeTreeTableEngine'] & { readonly __typename: 'MergeTreeTableEngine' }) | (Objects['ReplacingMergeTreeTableEngine'] & { readonly __typename: 'ReplacingMergeTreeTableEngine' }) | (Objects['SummingMergeTreeTableEngine'] & { readonly __typename: 'SummingMergeTreeTableEngine' }) | (Objects['AggregatingMergeTreeTableEngine'] & { readonly __typename: 'AggregatingMergeTreeTableEngine' }) | (Objects['PostgreSqlTableEngine'] & { readonly __typename: 'PostgreSqlTableEngine' })
}

interface Fields {
  Application: {
    id: F<NoArguments, string>
    uniqueName: F<NoArguments, string>
    description: F<NoArguments, string>
    account: F<NoArguments, Objects['Account']>
    environment: F<NoArguments, Objects['Environment']>
    createdAt: F<NoArguments, string>
    modifiedAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    modifiedBy: F<NoArguments, string>
    clientId: F<NoArguments, string>
    secret: F<NoArguments, Maybe<string>>
    propeller: F<NoArguments, Enums['Propeller']>
    scopes: F<NoArguments, readonly (Enums['ApplicationScope'])[]>
    policies: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Objects['PolicyConnection']>
    dataPoolAccessPolicies: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Objects['DataPoolAccessPolicyConnection']>
  }
  Environment: {
    id: F<NoArguments, string>
    uniqueName: F<NoArguments, Maybe<string>>
    description: F<NoArguments, Maybe<string>>
    createdAt: F<NoArguments, Maybe<string>>
    modifiedAt: F<NoArguments, Maybe<string>>
    createdBy: F<NoArguments, Maybe<string>>
    modifiedBy: F<NoArguments, Maybe<string>>
    account: F<NoArguments, Maybe<Objects['Account']>>
  }
  Query: {
    application: F<{ readonly id: string }, Maybe<Objects['Application']>>
    applicationByName: F<{ readonly uniqueName: string }, Maybe<Objects['Application']>>
    applications: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['ApplicationConnection']>>
    environment: F<{ readonly id: string }, Maybe<Objects['Environment']>>
    deletionJob: F<{ readonly id: string }, Maybe<Objects['DeletionJob']>>
    addColumnToDataPoolJob: F<{ readonly id: string }, Maybe<Objects['AddColumnToDataPoolJob']>>
    addColumnToDataPoolJobByStatus: F<{ readonly status: Enums['JobStatus']; readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Objects['AddColumnToDataPoolJobConnection']>
    updateDataPoolRecordsJob: F<{ readonly id: string }, Maybe<Objects['UpdateDataPoolRecordsJob']>>
    updateDataPoolRecordsJobByStatus: F<{ readonly status: Enums['JobStatus']; readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Objects['UpdateDataPoolRecordsJobConnection']>
    metric: F<{ readonly id: string }, Maybe<Objects['Metric']>>
    metricByName: F<{ readonly uniqueName: string }, Maybe<Objects['Metric']>>
    metrics: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['MetricConnection']>>
    booster: F<{ readonly id: string }, Maybe<Objects['Booster']>>
    dataPoolAccessPolicy: F<{ readonly id: string }, Maybe<Objects['DataPoolAccessPolicy']>>
    policy: F<{ readonly id: string }, Maybe<Objects['Policy']>>
    dataPool: F<{ readonly id: string }, Maybe<Objects['DataPool']>>
    dataPoolByName: F<{ readonly uniqueName: string }, Maybe<Objects['DataPool']>>
    dataPools: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['DataPoolConnection']>>
    metricReport: F<{ readonly input: Inputs['MetricReportInput'] }, Maybe<Objects['MetricReportConnection']>>
    sqlV1: F<{ readonly input: Inputs['SqlV1Input'] }, Objects['SqlResponse']>
    describeSqlV1: F<{ readonly input: Inputs['DescribeSqlV1Input'] }, Objects['DescribeSqlResponse']>
    dataGrid: F<{ readonly input: Inputs['DataGridInput'] }, Objects['DataGridConnection']>
    recordsByUniqueId: F<{ readonly input: Inputs['RecordsByUniqueIdInput'] }, Objects['RecordsByUniqueIdResponse']>
    topValues: F<{ readonly input: Inputs['TopValuesInput'] }, Objects['TopValuesResponse']>
    percentile: F<{ readonly input: Inputs['PercentileInput'] }, Objects['PercentileResponse']>
    counter: F<{ readonly input: Inputs['CounterInput'] }, Maybe<Objects['CounterResponse']>>
    counters: F<{ readonly input: readonly (Inputs['CounterInput'])[] }, readonly (Maybe<Objects['CounterResponse']>)[]>
    timeSeries: F<{ readonly input: Inputs['TimeSeriesInput'] }, Maybe<Objects['TimeSeriesResponse']>>
    leaderboard: F<{ readonly input: Inputs['LeaderboardInput'] }, Maybe<Objects['LeaderboardResponse']>>
    dataSource: F<{ readonly id: string }, Maybe<Objects['DataSource']>>
    dataSourceByName: F<{ readonly uniqueName: string }, Maybe<Objects['DataSource']>>
    dataSources: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['DataSourceConnection']>>
    sync: F<{ readonly id: string }, Maybe<Objects['Sync']>>
    table: F<{ readonly id: string }, Maybe<Objects['Table']>>
    materializedViews: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['MaterializedViewConnection']>>
    materializedView: F<{ readonly id: string }, Maybe<Objects['MaterializedView']>>
    materializedViewByName: F<{ readonly uniqueName: string }, Maybe<Objects['MaterializedView']>>
  }
  Mutation: {
    createEnvironment: F<{ readonly input: Inputs['CreateEnvironmentInput'] }, Objects['EnvironmentResponse']>
    modifyEnvironment: F<{ readonly input: Inputs['ModifyEnvironmentInput'] }, Objects['EnvironmentResponse']>
    createApplication: F<{ readonly input: Inputs['createApplicationInput'] }, Maybe<Unions['ApplicationOrFailureResponse']>>
    modifyApplication: F<{ readonly input: Inputs['modifyApplicationInput'] }, Maybe<Unions['ApplicationOrFailureResponse']>>
    deleteApplication: F<{ readonly id: string }, Maybe<string>>
    deleteApplicationByName: F<{ readonly uniqueName: string }, Maybe<string>>
    createSnowflakeDataSource: F<{ readonly input: Inputs['createSnowflakeDataSourceInput'] }, Maybe<Unions['DataSourceOrFailureResponse']>>
    modifySnowflakeDataSource: F<{ readonly input: Inputs['modifySnowflakeDataSourceInput'] }, Maybe<Unions['DataSourceOrFailureResponse']>>
    createClickHouseDataSource: F<{ readonly input: Inputs['CreateClickHouseDataSourceInput'] }, Objects['DataSourceResponse']>
    modifyClickHouseDataSource: F<{ readonly input: Inputs['ModifyClickHouseDataSourceInput'] }, Objects['DataSourceResponse']>
    createKafkaDataSource: F<{ readonly input: Inputs['CreateKafkaDataSourceInput'] }, Objects['DataSourceResponse']>
    modifyKafkaDataSource: F<{ readonly input: Inputs['ModifyKafkaDataSourceInput'] }, Objects['DataSourceResponse']>
    createPostgreSqlDataSource: F<{ readonly input: Inputs['CreatePostgreSqlDataSourceInput'] }, Objects['DataSourceResponse']>
    modifyPostgreSqlDataSource: F<{ readonly input: Inputs['ModifyPostgreSqlDataSourceInput'] }, Objects['DataSourceResponse']>
    createS3DataSource: F<{ readonly input: Inputs['CreateS3DataSourceInput'] }, Objects['DataSourceResponse']>
    modifyS3DataSource: F<{ readonly input: Inputs['ModifyS3DataSourceInput'] }, Objects['DataSourceResponse']>
    requestDelete: F<{ readonly input: Inputs['DeletionRequestInput'] }, Objects['RequestDeleteResponse']>
    createDeletionJob: F<{ readonly input: Inputs['CreateDeletionJobInput'] }, Objects['DeletionJobResponse']>
    createAddColumnToDataPoolJob: F<{ readonly input: Inputs['CreateAddColumnToDataPoolJobInput'] }, Objects['AddColumnToDataPoolJobResponse']>
    createUpdateDataPoolRecordsJob: F<{ readonly input: Inputs['CreateUpdateDataPoolRecordsJobInput'] }, Objects['UpdateDataPoolRecordsJobResponse']>
    cancelJob: F<{ readonly id: string }, Objects['CancelJobResponse']>
    createCountMetric: F<{ readonly input?: Maybe<Inputs['CreateCountMetricInput']> }, Maybe<Objects['MetricResponse']>>
    createCountDistinctMetric: F<{ readonly input?: Maybe<Inputs['CreateCountDistinctMetricInput']> }, Maybe<Objects['MetricResponse']>>
    createSumMetric: F<{ readonly input?: Maybe<Inputs['CreateSumMetricInput']> }, Maybe<Objects['MetricResponse']>>
    createAverageMetric: F<{ readonly input?: Maybe<Inputs['CreateAverageMetricInput']> }, Maybe<Objects['MetricResponse']>>
    createMinMetric: F<{ readonly input?: Maybe<Inputs['CreateMinMetricInput']> }, Maybe<Objects['MetricResponse']>>
    createMaxMetric: F<{ readonly input?: Maybe<Inputs['CreateMaxMetricInput']> }, Maybe<Objects['MetricResponse']>>
    createCustomMetric: F<{ readonly input?: Maybe<Inputs['CreateCustomMetricInput']> }, Maybe<Objects['MetricResponse']>>
    modifyMetric: F<{ readonly input?: Maybe<Inputs['ModifyMetricInput']> }, Maybe<Objects['MetricResponse']>>
    migrateMetric: F<{ readonly input: Inputs['MigrateMetricInput'] }, Maybe<Objects['Metric']>>
    deleteMetric: F<{ readonly id: string }, Maybe<string>>
    deleteMetricByName: F<{ readonly uniqueName: string }, Maybe<string>>
    createBooster: F<{ readonly input: Inputs['CreateBoosterInput'] }, Maybe<Objects['BoosterResponse']>>
    deleteBooster: F<{ readonly id: string }, Maybe<string>>
    createDataPoolAccessPolicy: F<{ readonly input: Inputs['CreateDataPoolAccessPolicyInput'] }, Objects['DataPoolAccessPolicyResponse']>
    modifyDataPoolAccessPolicy: F<{ readonly input: Inputs['ModifyDataPoolAccessPolicyInput'] }, Objects['DataPoolAccessPolicyResponse']>
    deleteDataPoolAccessPolicy: F<{ readonly id: string }, Maybe<string>>
    assignDataPoolAccessPolicyToApplication: F<{ readonly dataPoolAccessPolicy: string; readonly application: string }, Maybe<string>>
    unAssignDataPoolAccessPolicyFromApplication: F<{ readonly dataPoolAccessPolicy: string; readonly application: string }, Maybe<string>>
    createPolicy: F<{ readonly input: Inputs['CreatePolicyInput'] }, Maybe<Objects['PolicyResponse']>>
    modifyPolicy: F<{ readonly input: Inputs['ModifyPolicyInput'] }, Maybe<Objects['PolicyResponse']>>
    deletePolicy: F<{ readonly id: string }, Maybe<string>>
    createDataPoolV2: F<{ readonly input: Inputs['CreateDataPoolInputV2'] }, Maybe<Objects['DataPoolResponse']>>
    modifyDataPool: F<{ readonly input: Inputs['modifyDataPoolInput'] }, Maybe<Unions['DataPoolOrFailureResponse']>>
    reconnectDataPool: F<{ readonly input: Inputs['idOrUniqueName'] }, Maybe<Objects['DataPool']>>
    retryDataPoolSetup: F<{ readonly id: string }, Maybe<Objects['DataPool']>>
    retryDataPoolSetupByName: F<{ readonly uniqueName: string }, Maybe<Objects['DataPool']>>
    inspectDataPoolSchema: F<{ readonly input: Inputs['idOrUniqueName'] }, Maybe<Unions['DataPoolOrFailureResponse']>>
    testDataPool: F<{ readonly input: Inputs['idOrUniqueName'] }, Maybe<Unions['DataPoolOrFailureResponse']>>
    deleteDataPool: F<{ readonly id: string }, Maybe<string>>
    deleteDataPoolByName: F<{ readonly uniqueName: string }, Maybe<string>>
    disableSyncing: F<{ readonly id: string }, Maybe<Objects['DataPool']>>
    enableSyncing: F<{ readonly id: string }, Maybe<Objects['DataPool']>>
    reconnectDataSource: F<{ readonly input: Inputs['idOrUniqueName'] }, Maybe<Objects['DataSource']>>
    testDataSource: F<{ readonly input: Inputs['idOrUniqueName'] }, Maybe<Unions['DataSourceOrFailureResponse']>>
    deleteDataSource: F<{ readonly id: string }, Maybe<string>>
    deleteDataSourceByName: F<{ readonly uniqueName: string }, Maybe<string>>
    createHttpDataSource: F<{ readonly input: Inputs['CreateHttpDataSourceInput'] }, Objects['DataSourceResponse']>
    modifyHttpDataSource: F<{ readonly input: Inputs['ModifyHttpDataSourceInput'] }, Objects['DataSourceResponse']>
    createWebhookDataSource: F<{ readonly input: Inputs['CreateWebhookDataSourceInput'] }, Objects['DataSourceResponse']>
    modifyWebhookDataSource: F<{ readonly input: Inputs['ModifyWebhookDataSourceInput'] }, Objects['DataSourceResponse']>
    introspectTables: F<{ readonly input: Inputs['idOrUniqueName'] }, Maybe<Objects['TableIntrospection']>>
    syncDataPool: F<{ readonly dataPoolId: string }, Maybe<Objects['Sync']>>
    resyncDataPool: F<{ readonly dataPoolId: string }, Maybe<Objects['Sync']>>
    createMaterializedView: F<{ readonly input: Inputs['CreateMaterializedViewInput'] }, Objects['MaterializedViewResponse']>
    modifyMaterializedView: F<{ readonly input: Inputs['ModifyMaterializedViewInput'] }, Objects['MaterializedViewResponse']>
    deleteMaterializedView: F<{ readonly id: string }, Maybe<string>>
  }
  AddColumnToDataPoolJob: {
    id: F<NoArguments, string>
    createdAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    modifiedAt: F<NoArguments, string>
    modifiedBy: F<NoArguments, string>
    account: F<NoArguments, Objects['Account']>
    environment: F<NoArguments, Objects['Environment']>
    dataPool: F<NoArguments, Objects['DataPool']>
    status: F<NoArguments, Enums['JobStatus']>
    columnName: F<NoArguments, string>
    columnType: F<NoArguments, Enums['ColumnType']>
    columnClickHouseType: F<NoArguments, Maybe<string>>
    jsonProperty: F<NoArguments, Maybe<string>>
    error: F<NoArguments, Maybe<Objects['Error']>>
    progress: F<NoArguments, number>
    startedAt: F<NoArguments, Maybe<string>>
    succeededAt: F<NoArguments, Maybe<string>>
    failedAt: F<NoArguments, Maybe<string>>
  }
  DeletionJob: {
    id: F<NoArguments, string>
    createdAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    modifiedAt: F<NoArguments, string>
    modifiedBy: F<NoArguments, string>
    account: F<NoArguments, Objects['Account']>
    environment: F<NoArguments, Objects['Environment']>
    dataPool: F<NoArguments, Objects['DataPool']>
    status: F<NoArguments, Enums['JobStatus']>
    filters: F<NoArguments, Maybe<readonly (Objects['Filter'])[]>>
    filterSql: F<NoArguments, Maybe<string>>
    error: F<NoArguments, Maybe<Objects['Error']>>
    progress: F<NoArguments, number>
    startedAt: F<NoArguments, Maybe<string>>
    succeededAt: F<NoArguments, Maybe<string>>
    failedAt: F<NoArguments, Maybe<string>>
  }
  UpdateDataPoolRecordsJob: {
    id: F<NoArguments, string>
    createdAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    modifiedAt: F<NoArguments, string>
    modifiedBy: F<NoArguments, string>
    account: F<NoArguments, Objects['Account']>
    environment: F<NoArguments, Objects['Environment']>
    dataPool: F<NoArguments, Objects['DataPool']>
    status: F<NoArguments, Enums['JobStatus']>
    filters: F<NoArguments, Maybe<readonly (Objects['Filter'])[]>>
    filterSql: F<NoArguments, Maybe<string>>
    set: F<NoArguments, readonly (Objects['UpdateDataPoolRecordsJobSetColumn'])[]>
    error: F<NoArguments, Maybe<Objects['Error']>>
    progress: F<NoArguments, number>
    startedAt: F<NoArguments, Maybe<string>>
    succeededAt: F<NoArguments, Maybe<string>>
    failedAt: F<NoArguments, Maybe<string>>
  }
  Metric: {
    id: F<NoArguments, string>
    uniqueName: F<NoArguments, string>
    description: F<NoArguments, string>
    account: F<NoArguments, Objects['Account']>
    environment: F<NoArguments, Objects['Environment']>
    createdAt: F<NoArguments, string>
    modifiedAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    modifiedBy: F<NoArguments, string>
    dataPool: F<NoArguments, Maybe<Objects['DataPool']>>
    dimensions: F<NoArguments, readonly (Objects['Dimension'])[]>
    timestamp: F<NoArguments, Maybe<Objects['Dimension']>>
    measure: F<NoArguments, Maybe<Objects['Dimension']>>
    boosters: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Objects['BoosterConnection']>
    type: F<NoArguments, Enums['MetricType']>
    settings: F<NoArguments, Unions['MetricSettings']>
    counter: F<{ readonly input: Inputs['CounterInput'] }, Maybe<Objects['CounterResponse']>>
    timeSeries: F<{ readonly input: Inputs['TimeSeriesInput'] }, Maybe<Objects['TimeSeriesResponse']>>
    leaderboard: F<{ readonly input: Inputs['LeaderboardInput'] }, Maybe<Objects['LeaderboardResponse']>>
    policies: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Objects['PolicyConnection']>
    accessControlEnabled: F<NoArguments, boolean>
  }
  Dimension: {
    columnName: F<NoArguments, string>
    type: F<NoArguments, string>
    isNullable: F<NoArguments, Maybe<boolean>>
    isUniqueKey: F<NoArguments, Maybe<boolean>>
    stats: F<NoArguments, Maybe<Objects['DimensionStatistics']>>
  }
  DimensionStatistics: {
    uniqueValues: F<{ readonly limit?: Maybe<number> }, Maybe<readonly (string)[]>>
    min: F<NoArguments, Maybe<string>>
    max: F<NoArguments, Maybe<string>>
    average: F<NoArguments, Maybe<string>>
    query: F<NoArguments, Objects['QueryInfo']>
  }
  DataPoolAccessPolicy: {
    id: F<NoArguments, string>
    uniqueName: F<NoArguments, string>
    description: F<NoArguments, string>
    account: F<NoArguments, Objects['Account']>
    environment: F<NoArguments, Objects['Environment']>
    createdAt: F<NoArguments, string>
    modifiedAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    modifiedBy: F<NoArguments, string>
    dataPool: F<NoArguments, Objects['DataPool']>
    columns: F<NoArguments, readonly (string)[]>
    rows: F<NoArguments, Maybe<readonly (Objects['Filter'])[]>>
    filterSql: F<NoArguments, Maybe<string>>
    applications: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Objects['ApplicationConnection']>
  }
  DataPool: {
    id: F<NoArguments, string>
    uniqueName: F<NoArguments, string>
    description: F<NoArguments, string>
    account: F<NoArguments, Objects['Account']>
    environment: F<NoArguments, Objects['Environment']>
    createdAt: F<NoArguments, string>
    modifiedAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    modifiedBy: F<NoArguments, string>
    dataSource: F<NoArguments, Objects['DataSource']>
    status: F<NoArguments, Enums['DataPoolStatus']>
    error: F<NoArguments, Maybe<Objects['Error']>>
    dataRetentionInDays: F<NoArguments, number>
    table: F<NoArguments, string>
    timestamp: F<NoArguments, Maybe<Objects['Timestamp']>>
    tenant: F<NoArguments, Maybe<Objects['Tenant']>>
    uniqueId: F<NoArguments, Maybe<Objects['UniqueId']>>
    recordCount: F<NoArguments, Maybe<string>>
    sizeInTerabytes: F<NoArguments, Maybe<number>>
    columns: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['DataPoolColumnConnection']>>
    availableMeasures: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['DataPoolColumnConnection']>>
    setupTasks: F<NoArguments, Maybe<readonly (Objects['DataPoolSetupTask'])[]>>
    syncing: F<NoArguments, Objects['DataPoolSyncing']>
    syncs: F<{ readonly filter?: Maybe<Enums['SyncsFilter']>; readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['SyncConnection']>>
    metrics: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['MetricConnection']>>
    deletionJobs: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['DeletionJobConnection']>>
    addColumnToDataPoolJobs: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['AddColumnToDataPoolJobConnection']>>
    updateDataPoolRecordsJobs: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['UpdateDataPoolRecordsJobConnection']>>
    accessControlEnabled: F<NoArguments, boolean>
    dataPoolAccessPolicies: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Objects['DataPoolAccessPolicyConnection']>
    validateExpression: F<{ readonly expression: string }, Objects['ValidateExpressionResult']>
    tableSettings: F<NoArguments, Objects['TableSettings']>
    partitionByColumns: F<NoArguments, Maybe<readonly (Objects['DataPoolColumn'])[]>>
    primaryKeyColumns: F<NoArguments, Maybe<readonly (Objects['DataPoolColumn'])[]>>
    orderByColumns: F<NoArguments, Maybe<readonly (Objects['DataPoolColumn'])[]>>
    webhookUrl: F<NoArguments, Maybe<string>>
  }
  DataSource: {
    id: F<NoArguments, string>
    uniqueName: F<NoArguments, string>
    description: F<NoArguments, string>
    account: F<NoArguments, Objects['Account']>
    environment: F<NoArguments, Objects['Environment']>
    createdAt: F<NoArguments, string>
    modifiedAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    modifiedBy: F<NoArguments, string>
    type: F<NoArguments, Enums['DataSourceType']>
    status: F<NoArguments, Enums['DataSourceStatus']>
    error: F<NoArguments, Maybe<Objects['Error']>>
    connectionSettings: F<NoArguments, Unions['ConnectionSettings']>
    tables: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['TableConnection']>>
    tableIntrospections: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['TableIntrospectionConnection']>>
    checks: F<NoArguments, Maybe<readonly (Objects['DataSourceCheck'])[]>>
    dataPools: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['DataPoolConnection']>>
  }
  Table: {
    id: F<NoArguments, string>
    name: F<NoArguments, string>
    dataSource: F<NoArguments, Maybe<Objects['DataSource']>>
    rows: F<NoArguments, Maybe<number>>
    size: F<NoArguments, Maybe<number>>
    kind: F<NoArguments, string>
    comment: F<NoArguments, string>
    clusterBy: F<NoArguments, Maybe<string>>
    owner: F<NoArguments, string>
    timeTravelRetentionInDays: F<NoArguments, Maybe<number>>
    isAutomaticClusteringEnabled: F<NoArguments, Maybe<boolean>>
    isChangeTrackingEnabled: F<NoArguments, Maybe<boolean>>
    isSearchOptimizationEnabled: F<NoArguments, Maybe<boolean>>
    isExternal: F<NoArguments, boolean>
    cachedAt: F<NoArguments, string>
    createdAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    columns: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['ColumnConnection']>>
    availableTimestamps: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['ColumnConnection']>>
    availableMeasures: F<{ readonly first?: Maybe<number>; readonly after?: Maybe<string>; readonly last?: Maybe<number>; readonly before?: Maybe<string> }, Maybe<Objects['ColumnConnection']>>
  }
  Column: {
    name: F<NoArguments, string>
    type: F<NoArguments, string>
    kind: F<NoArguments, string>
    isNullable: F<NoArguments, Maybe<boolean>>
    defaultValue: F<NoArguments, Maybe<string>>
    isPrimaryKey: F<NoArguments, Maybe<boolean>>
    isUniqueKey: F<NoArguments, Maybe<boolean>>
    comment: F<NoArguments, Maybe<string>>
    policyName: F<NoArguments, Maybe<string>>
    cachedAt: F<NoArguments, string>
    createdAt: F<NoArguments, string>
    createdBy: F<NoArguments, string>
    suggestedDataPoolColumnType: F<NoArguments, Maybe<Enums['ColumnType']>>
    supportedDataPoolColumnTypes: F<NoArguments, readonly (Enums['ColumnType'])[]>
  }
}
