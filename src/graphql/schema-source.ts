/**
 * SDL: data sources. Connection settings of kinds that Weir does not have are here because clients' documents
 * name them; no object of theirs is ever answered.
 */
export const SOURCE_SDL = /* GraphQL */ `
  type Query {
    dataSource(id: ID!): DataSource
    dataSourceByName(uniqueName: String!): DataSource
    dataSources(first: Int, after: String, last: Int, before: String): DataSourceConnection
  }

  type Mutation {
    createWebhookDataSource(input: CreateWebhookDataSourceInput!): DataSourceResponse!
    deleteDataSource(id: ID!): ID
    deleteDataSourceByName(uniqueName: String!): ID
  }

  input CreateWebhookDataSourceInput {
    connectionSettings: WebhookConnectionSettingsInput!
    description: String
    uniqueName: String
  }

  input WebhookConnectionSettingsInput {
    accessControlEnabled: Boolean
    basicAuth: HttpBasicAuthInput
    columns: [WebhookDataSourceColumnInput!]
    tableSettings: TableSettingsInput
    tenant: String @deprecated
    timestamp: String
    uniqueId: String @deprecated
  }

  input WebhookDataSourceColumnInput {
    name: String!
    jsonProperty: String!
    type: ColumnType!
    nullable: Boolean!
  }

  type DataSourceResponse {
    dataSource: DataSource
  }

  type DataSource implements Node & Common {
    id: ID!
    uniqueName: String!
    description: String!
    account: Account!
    environment: Environment!
    createdAt: DateTime!
    modifiedAt: DateTime!
    createdBy: String!
    modifiedBy: String!
    type: DataSourceType!
    status: DataSourceStatus!
    error: Error @deprecated
    connectionSettings: ConnectionSettings!
    tables(first: Int, after: String, last: Int, before: String): TableConnection
    tableIntrospections(first: Int, after: String, last: Int, before: String): TableIntrospectionConnection
    checks: [DataSourceCheck!]
    dataPools(first: Int, after: String, last: Int, before: String): DataPoolConnection
  }

  type DataSourceConnection {
    edges: [DataSourceEdge!]!
    nodes: [DataSource!]!
    pageInfo: PageInfo!
  }

  type DataSourceEdge {
    cursor: String!
    node: DataSource!
  }

  enum DataSourceType {
    WEBHOOK
    S3
    Redshift
    POSTGRESQL
    KAFKA
    Http
    CLICKHOUSE
    Snowflake
    INTERNAL
  }

  enum DataSourceStatus {
    CREATED
    CONNECTING
    CONNECTED
    BROKEN
    DELETING
  }

  type DataSourceCheck {
    name: String!
    description: String
    status: DataSourceCheckStatus!
    error: Error
    checkedAt: DateTime
  }

  enum DataSourceCheckStatus {
    NOT_STARTED
    SUCCEEDED
    FAILED
  }

  union ConnectionSettings =
      SnowflakeConnectionSettings
    | InternalConnectionSettings
    | ClickHouseConnectionSettings
    | HttpConnectionSettings
    | KafkaConnectionSettings
    | PostgreSqlConnectionSettings
    | S3ConnectionSettings
    | WebhookConnectionSettings

  type WebhookConnectionSettings {
    accessControlEnabled: Boolean
    basicAuth: HttpBasicAuthSettings
    columns: [WebhookDataSourceColumn!]
    tableSettings: TableSettings
    tenant: String @deprecated
    timestamp: String
    uniqueId: String @deprecated
    webhookUrl: String!
  }

  type WebhookDataSourceColumn {
    name: String!
    jsonProperty: String!
    type: ColumnType!
    nullable: Boolean!
  }

  type InternalConnectionSettings {
    _: Boolean
  }

  type HttpConnectionSettings {
    basicAuth: HttpBasicAuthSettings
    tables: [HttpDataSourceTable!]!
  }

  type HttpDataSourceTable {
    id: ID!
    name: String!
    columns: [HttpDataSourceColumn!]!
  }

  type HttpDataSourceColumn {
    name: String!
    type: ColumnType!
    clickHouseType: String
    nullable: Boolean!
  }

  type S3ConnectionSettings {
    awsAccessKeyId: String!
    bucket: String!
    tables: [S3DataSourceTable!]!
  }

  type S3DataSourceTable {
    id: ID!
    name: String!
    path: String
    columns: [S3DataSourceColumn!]!
  }

  type S3DataSourceColumn {
    name: String!
    type: ColumnType!
    nullable: Boolean!
  }

  type SnowflakeConnectionSettings {
    account: String!
    database: String!
    warehouse: String!
    schema: String!
    username: String!
    role: String!
  }

  type KafkaConnectionSettings {
    auth: String!
    bootstrapServers: [String!]!
    password: String!
    tls: Boolean
    user: String!
  }

  type ClickHouseConnectionSettings {
    database: String!
    password: String!
    readonly: Boolean
    url: String!
    user: String!
  }

  type PostgreSqlConnectionSettings {
    database: String
    host: String!
    port: Int
    schema: String
    user: String!
  }
`
