/** SDL: what everything else is made of. */
export const COMMON_SDL = /* GraphQL */ `
  scalar DateTime

  interface Node {
    id: ID!
  }

  interface Common {
    uniqueName: String!
    description: String!
    account: Account!
    environment: Environment!
    createdAt: DateTime!
    modifiedAt: DateTime!
    createdBy: String!
    modifiedBy: String!
  }

  type Account {
    id: ID!
  }

  type Environment {
    id: ID!
    uniqueName: String
    description: String
    createdAt: DateTime
    modifiedAt: DateTime
    createdBy: String
    modifiedBy: String
    account: Account
  }

  type Error {
    code: Int
    message: String!
  }

  type FailureResponse {
    error: Error!
  }

  input idOrUniqueName {
    id: String
    uniqueName: String
  }

  type PageInfo {
    startCursor: String
    endCursor: String
    hasNextPage: Boolean!
    hasPreviousPage: Boolean!
  }

  enum ColumnType {
    BOOLEAN
    STRING
    FLOAT
    DOUBLE
    INT8
    INT16
    INT32
    INT64
    DATE
    TIMESTAMP
    JSON
    CLICKHOUSE
  }

  input HttpBasicAuthInput {
    username: String!
    password: String!
  }

  type HttpBasicAuthSettings {
    username: String!
    password: String!
  }

  input TableSettingsInput {
    engine: TableEngineInput
    partitionBy: [String!]
    primaryKey: [String!]
    orderBy: [String!]
    ttl: String
  }

  input TableEngineInput {
    mergeTree: MergeTreeTableEngineInput
    replacingMergeTree: ReplacingMergeTreeTableEngineInput
    summingMergeTree: SummingMergeTreeTableEngineInput
    aggregatingMergeTree: AggregatingMergeTreeTableEngineInput
    postgreSql: PostgreSqlTableEngineInput
  }

  enum TableEngineType {
    MERGE_TREE
    REPLACING_MERGE_TREE
    SUMMING_MERGE_TREE
    AGGREGATING_MERGE_TREE
    POSTGRESQL
  }

  input MergeTreeTableEngineInput {
    type: TableEngineType
  }

  input ReplacingMergeTreeTableEngineInput {
    type: TableEngineType
    ver: String
  }

  input SummingMergeTreeTableEngineInput {
    type: TableEngineType
    columns: [String!]
  }

  input AggregatingMergeTreeTableEngineInput {
    type: TableEngineType
  }

  input PostgreSqlTableEngineInput {
    type: TableEngineType
  }

  type TableSettings {
    engine: TableEngine
    partitionBy: [String!]
    primaryKey: [String!]
    orderBy: [String!]
    ttl: String
  }

  interface HasTableEngineType {
    type: TableEngineType!
  }

  union TableEngine =
      MergeTreeTableEngine
    | ReplacingMergeTreeTableEngine
    | SummingMergeTreeTableEngine
    | AggregatingMergeTreeTableEngine
    | PostgreSqlTableEngine

  type MergeTreeTableEngine implements HasTableEngineType {
    type: TableEngineType!
  }

  type ReplacingMergeTreeTableEngine implements HasTableEngineType {
    type: TableEngineType!
    ver: String
  }

  type SummingMergeTreeTableEngine implements HasTableEngineType {
    type: TableEngineType!
    columns: [String!]
  }

  type AggregatingMergeTreeTableEngine implements HasTableEngineType {
    type: TableEngineType!
  }

  type PostgreSqlTableEngine implements HasTableEngineType {
    type: TableEngineType!
  }
`
