/**
 * SDL: data pools. Fields of features that do not exist yet (metrics, jobs, expressions) are left out;
 * connections that existing clients read and that are truly empty are here.
 */
export const POOL_SDL = /* GraphQL */ `
  extend type Query {
    dataPool(id: ID!): DataPool
    dataPoolByName(uniqueName: String!): DataPool
    dataPools(first: Int, after: String, last: Int, before: String): DataPoolConnection
  }

  extend type Mutation {
    modifyDataPool(input: modifyDataPoolInput!): DataPoolOrFailureResponse
    deleteDataPool(id: ID!): ID
    deleteDataPoolByName(uniqueName: String!): ID
  }

  input modifyDataPoolInput {
    idOrUniqueName: idOrUniqueName!
    uniqueName: String
    description: String
    dataRetentionInDays: Int
    syncing: DataPoolSyncingInput
    timestamp: TimestampInput
    accessControlEnabled: Boolean
  }

  input DataPoolSyncingInput {
    interval: DataPoolSyncInterval!
  }

  input TimestampInput {
    columnName: String!
  }

  union DataPoolOrFailureResponse = DataPoolResponse | FailureResponse

  type DataPoolResponse {
    dataPool: DataPool
  }

  type DataPool implements Node & Common {
    id: ID!
    uniqueName: String!
    description: String!
    account: Account!
    environment: Environment!
    createdAt: DateTime!
    modifiedAt: DateTime!
    createdBy: String!
    modifiedBy: String!
    dataSource: DataSource!
    status: DataPoolStatus!
    error: Error @deprecated
    dataRetentionInDays: Int!
    table: String!
    timestamp: Timestamp
    tenant: Tenant @deprecated
    uniqueId: UniqueId @deprecated
    columns(first: Int, after: String, last: Int, before: String): DataPoolColumnConnection
    availableMeasures(first: Int, after: String, last: Int, before: String): DataPoolColumnConnection
    setupTasks: [DataPoolSetupTask!]
    syncing: DataPoolSyncing!
    syncs(filter: SyncsFilter, first: Int, after: String, last: Int, before: String): SyncConnection
    accessControlEnabled: Boolean!
    dataPoolAccessPolicies(
      first: Int
      after: String
      last: Int
      before: String
    ): DataPoolAccessPolicyConnection!
    tableSettings: TableSettings!
    partitionByColumns: [DataPoolColumn!]
    primaryKeyColumns: [DataPoolColumn!]
    orderByColumns: [DataPoolColumn!]
  }

  type DataPoolConnection {
    edges: [DataPoolEdge!]!
    nodes: [DataPool!]!
    pageInfo: PageInfo!
  }

  type DataPoolEdge {
    cursor: String!
    node: DataPool!
  }

  enum DataPoolStatus {
    CREATED
    PENDING
    LIVE
    SETUP_FAILED
    CONNECTING @deprecated
    CONNECTED @deprecated
    BROKEN @deprecated
    PAUSING @deprecated
    PAUSED @deprecated
    DELETING
  }

  type DataPoolColumn {
    name: String @deprecated
    columnName: String!
    type: ColumnType!
    clickHouseType: String!
    isNullable: Boolean!
  }

  type DataPoolColumnConnection {
    edges: [DataPoolColumnEdge!]!
    nodes: [DataPoolColumn!]!
    pageInfo: PageInfo!
  }

  type DataPoolColumnEdge {
    cursor: String!
    node: DataPoolColumn!
  }

  type DataPoolSetupTask {
    name: String!
    description: String
    status: DataPoolSetupTaskStatus!
    error: Error
    completedAt: DateTime
  }

  enum DataPoolSetupTaskStatus {
    NOT_STARTED
    SUCCEEDED
    FAILED
  }

  type DataPoolSyncing {
    status: DataPoolSyncStatus!
    interval: DataPoolSyncInterval
    lastSyncedAt: DateTime
  }

  enum DataPoolSyncStatus {
    ENABLED
    DISABLING
    DISABLED
  }

  enum DataPoolSyncInterval {
    EVERY_1_MINUTE
    EVERY_5_MINUTES
    EVERY_15_MINUTES
    EVERY_30_MINUTES
    EVERY_1_HOUR
    EVERY_4_HOURS
    EVERY_12_HOURS
    EVERY_24_HOURS
  }

  type Timestamp {
    columnName: String!
    type: String!
  }

  type Tenant {
    columnName: String!
    type: String!
  }

  type UniqueId {
    columnName: String!
  }

  type DataPoolAccessPolicyConnection {
    edges: [DataPoolAccessPolicyEdge!]!
    nodes: [DataPoolAccessPolicy!]!
    pageInfo: PageInfo!
  }

  type DataPoolAccessPolicyEdge {
    cursor: String!
    node: DataPoolAccessPolicy!
  }

  type DataPoolAccessPolicy implements Node & Common {
    id: ID!
    uniqueName: String!
    description: String!
    account: Account!
    environment: Environment!
    createdAt: DateTime!
    modifiedAt: DateTime!
    createdBy: String!
    modifiedBy: String!
    dataPool: DataPool!
    columns: [String!]!
    rows: [Filter!] @deprecated
    filterSql: String
  }
`
