/** SDL: tables of warehouse sources. Webhook sources have none, so these connections are always empty. */
export const TABLE_SDL = /* GraphQL */ `
  type TableConnection {
    edges: [TableEdge!]!
    nodes: [Table!]!
    pageInfo: PageInfo!
    cachedAt: DateTime!
  }

  type TableEdge {
    cursor: String!
    node: Table!
  }

  type Table implements Node {
    id: ID!
    name: String!
    dataSource: DataSource
    rows: Int
    size: Int
    cachedAt: DateTime!
    createdAt: DateTime!
    createdBy: String!
    columns(first: Int, after: String, last: Int, before: String): ColumnConnection
    availableTimestamps(first: Int, after: String, last: Int, before: String): ColumnConnection
    availableMeasures(first: Int, after: String, last: Int, before: String): ColumnConnection
  }

  type ColumnConnection {
    edges: [ColumnEdge!]!
    nodes: [Column!]!
    pageInfo: PageInfo!
    cachedAt: DateTime!
  }

  type ColumnEdge {
    cursor: String!
    node: Column!
  }

  type Column {
    name: String!
    type: String!
    isNullable: Boolean
    cachedAt: DateTime!
    createdAt: DateTime!
    createdBy: String!
    suggestedDataPoolColumnType: ColumnType
    supportedDataPoolColumnTypes: [ColumnType!]!
  }

  type TableIntrospectionConnection {
    edges: [TableIntrospectionEdge!]!
    nodes: [TableIntrospection!]!
    pageInfo: PageInfo!
  }

  type TableIntrospectionEdge {
    cursor: String!
    node: TableIntrospection!
  }

  type TableIntrospection {
    dataSource: DataSource!
    status: TableIntrospectionStatus!
    createdAt: DateTime!
    createdBy: String!
    modifiedAt: DateTime!
    modifiedBy: String!
    numTables: Int
    tables(first: Int, after: String, last: Int, before: String): TableConnection
  }

  enum TableIntrospectionStatus {
    NOT_STARTED
    STARTED
    SUCCEEDED
    FAILED
  }

  type SyncConnection {
    edges: [SyncEdge!]!
    nodes: [Sync!]!
    pageInfo: PageInfo!
  }

  type SyncEdge {
    cursor: String!
    node: Sync!
  }

  type Sync {
    id: ID!
    account: Account
    environment: Environment
    createdAt: DateTime!
    modifiedAt: DateTime!
    createdBy: String!
    modifiedBy: String!
    dataPool: DataPool
    dataSource: DataSource
    processedRecords: String
    newRecords: String @deprecated
    updatedRecords: String @deprecated
    deletedRecords: String @deprecated
    invalidRecords: String @deprecated
    size: String
    status: SyncStatus!
    startedAt: DateTime
    succeededAt: DateTime
    failedAt: DateTime
    error: Error
  }

  enum SyncStatus {
    SYNCING
    SUCCEEDED
    FAILED
    DELETING @deprecated
  }

  enum SyncsFilter {
    EMPTY
    NOT_EMPTY
    ALL
  }
`
