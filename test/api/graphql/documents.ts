/**
 * Documents of existing clients, in the clients' own form: one large read of a source and a pool.
 */

const COMMON = /* GraphQL */ `
  fragment CommonParts on Common {
    uniqueName description account { id } environment { id } createdAt modifiedAt createdBy modifiedBy
  }
`

const SETTINGS = /* GraphQL */ `
  fragment SettingsParts on TableSettings {
    engine {
      ... on MergeTreeTableEngine { type }
      ... on ReplacingMergeTreeTableEngine { type ver }
      ... on SummingMergeTreeTableEngine { type columns }
      ... on AggregatingMergeTreeTableEngine { type }
    }
    partitionBy primaryKey orderBy
  }
`

const SOURCE = /* GraphQL */ `
  fragment SourceParts on DataSource {
    id ...CommonParts type status error { message }
    dataPools { nodes { id accessControlEnabled timestamp { columnName } } }
    connectionSettings {
      __typename
      ... on SnowflakeConnectionSettings { account database warehouse schema username role }
      ... on HttpConnectionSettings {
        basicAuth { username password } tables { id name columns { name type nullable } }
      }
      ... on S3ConnectionSettings { bucket awsAccessKeyId tables { id name path columns { name type nullable } } }
      ... on WebhookConnectionSettings {
        basicAuth { username password } columns { name type jsonProperty nullable }
        tenant timestamp uniqueId tableSettings { ...SettingsParts } webhookUrl
      }
      ... on KafkaConnectionSettings { auth user password tls bootstrapServers }
      ... on ClickHouseConnectionSettings { url database user password }
    }
    tables(first: 100) { nodes { id name columns(first: 100) { nodes { name type isNullable } } } }
    checks { name description status error { code message } checkedAt }
    tableIntrospections(first: 100) {
      nodes { dataSource { id } status createdAt createdBy modifiedAt modifiedBy numTables }
    }
  }
  ${COMMON} ${SETTINGS}
`

/** Terraform. */
export const TERRAFORM = {
  create: `mutation CreateWebhookDataSource($input: CreateWebhookDataSourceInput!) {
    createWebhookDataSource(input: $input) { dataSource { ...SourceParts } } } ${SOURCE}`,
  source: `query DataSource($id: ID!) { dataSource(id: $id) { ...SourceParts } } ${SOURCE}`,
  sources: `query DataSources($first: Int, $last: Int, $after: String, $before: String) {
    dataSources(first: $first, last: $last, after: $after, before: $before) {
      pageInfo { startCursor endCursor hasNextPage hasPreviousPage } edges { node { ...SourceParts } } } } ${SOURCE}`,
  pool: `query DataPool($id: ID!) { dataPool(id: $id) {
    id ...CommonParts dataSource { ...SourceParts } status error { message } table
    timestamp { columnName type } tenant { columnName type } uniqueId { columnName }
    columns { nodes { columnName type clickHouseType isNullable } }
    availableMeasures { nodes { columnName type isNullable } }
    setupTasks { name description status error { code message } completedAt }
    syncing { status interval lastSyncedAt }
    syncs { nodes { id status newRecords updatedRecords deletedRecords invalidRecords error { message } } }
    accessControlEnabled dataPoolAccessPolicies { nodes { id } } tableSettings { ...SettingsParts ttl }
  } } ${SOURCE}`,
  deletePool: 'mutation DeleteDataPool($id: ID!) { deleteDataPool(id: $id) }',
  deleteSource: 'mutation DeleteDataSource($id: ID!) { deleteDataSource(id: $id) }',
}

const GO_SOURCE =
  'id,status,uniqueName,connectionSettings{... on WebhookConnectionSettings{webhookUrl,basicAuth{username,password},columns{name,type,nullable,jsonProperty},timestamp,uniqueId,tableSettings{primaryKey,partitionBy,orderBy}}},createdAt'

/**
 * The Go client: anonymous operations, letter by letter as it sends them; `engine` is of a later
 * version of it.
 */
export const GO_CLIENT = {
  create: `mutation ($input:CreateWebhookDataSourceInput!){createWebhookDataSource(input: $input){dataSource{${GO_SOURCE}}}}`,
  source: `query ($dataSourceUniqueName:String!){dataSourceByName (uniqueName: $dataSourceUniqueName){${GO_SOURCE}}}`,
  sourceWithEngine: `query ($dataSourceUniqueName:String!){dataSourceByName(uniqueName: $dataSourceUniqueName){
    connectionSettings{... on WebhookConnectionSettings{
    tableSettings{primaryKey partitionBy orderBy engine{... on ReplacingMergeTreeTableEngine{ver}}}}}}}`,
  pool: 'query ($dataPoolUniqueName:String!){dataPoolByName (uniqueName: $dataPoolUniqueName){id,timestamp{columnName},uniqueId{columnName},tableSettings{primaryKey,partitionBy,orderBy},orderByColumns{columnName,type,isNullable}}}',
  deletePool: 'mutation ($n:String!){deleteDataPoolByName(uniqueName: $n)}',
  deleteSource: 'mutation ($n:String!){deleteDataSourceByName(uniqueName: $n)}',
}

/** The React kit. */
export const UI_KIT = {
  columns: `\n    query DataPoolColumns($dataPoolId: ID!) {
  dataPool(id: $dataPoolId) { columns { nodes { columnName type } } } }\n`,
  columnsByName: `\n    query DataPoolColumnsByName($dataPoolName: String!) {
  dataPoolByName(uniqueName: $dataPoolName) { columns { nodes { columnName type } } } }\n`,
  counter: `\n    query Counter($counterInput: CounterInput!) {\n  counter(input: $counterInput) {\n    value\n  }\n}\n    `,
  timeSeries: `\n    query TimeSeries($timeSeriesInput: TimeSeriesInput!) {\n  timeSeries(input: $timeSeriesInput) {
    labels\n    values\n    groups {\n      group\n      labels\n      values\n    }\n  }\n}\n    `,
  leaderboard: `\n    query Leaderboard($leaderboardInput: LeaderboardInput!) {
  leaderboard(input: $leaderboardInput) {\n    headers\n    rows\n  }\n}\n    `,
  topValues: `\n    query TopValues($topValuesInput: TopValuesInput!) {
  topValues(input: $topValuesInput) {\n    values\n  }\n}\n    `,
}
