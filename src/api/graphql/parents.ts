/**
 * The values behind the objects of the GraphQL schema that have resolvers of their own. Every other
 * object is given as it is shown.
 */

import type {
  AccessPolicy,
  AddColumnJob,
  Application,
  DataSource,
  Environment,
  Metric,
  Pool,
  ReplayJob,
  RewriteJob,
  SourceTable,
} from '../../catalog/documents/model.ts'
import type { ColumnType } from '../../format/schema.ts'
import type { Answered } from '../../query/ask.ts'

export interface TableOfSource {
  readonly source: DataSource
  readonly table: SourceTable
}

/** A column of a pool as the API shows it. */
export interface ShownColumn {
  readonly name: string
  readonly columnName: string
  /** CLICKHOUSE for a column whose type was given in the words of ClickHouse. */
  readonly type: ColumnType | 'CLICKHOUSE'
  readonly clickHouseType: string
  readonly isNullable: boolean
  readonly storedType: ColumnType
}

/** A column of a pool as a metric names it: its statistics are those of the metric's rows. */
export interface DimensionOfPool {
  readonly pool: Pool
  readonly metric: Metric
  readonly column: ShownColumn
}

/** The statistics of a column. Each is asked of the pool when it is called. */
export interface StatisticsOfColumn {
  uniqueValues(limit: number | null): Promise<readonly string[]>
  /** Minimum, maximum and average. */
  range(): Promise<Answered>
}

/** What is read at one moment of the server; resolve-server.ts adds what is asked of the pools. */
export interface StateOfServer {
  readonly version: string
  /** ISO 8601. */
  readonly startedAt: string
  readonly isReady: boolean
  readonly reason: string | null
  readonly accepted: string
  readonly rejected: string
  readonly acceptedBySecond: readonly number[]
  readonly rejectedBySecond: readonly number[]
  readonly syncMs: number | null
  readonly unflushedRecords: string
  readonly flushLagMs: number
  readonly segments: number
  readonly segmentBytes: number
  readonly diskBytes: number
  readonly diskFreeBytes: number
  readonly memoryBytes: number
}

/** The values by the name of their type in the schema; schema-types.ts reads them. */
export interface Parents {
  readonly AddColumnToDataPoolJob: AddColumnJob
  readonly Application: Application
  readonly DataPool: Pool
  readonly DataPoolAccessPolicy: AccessPolicy
  readonly DataSource: DataSource
  readonly DeletionJob: RewriteJob
  readonly ReplayRejectedEventsJob: ReplayJob
  readonly Dimension: DimensionOfPool
  readonly DimensionStatistics: StatisticsOfColumn
  readonly Environment: Environment
  readonly Metric: Metric
  readonly ServerStatus: StateOfServer
  readonly Table: TableOfSource
  readonly UpdateDataPoolRecordsJob: RewriteJob
  // Weir has no objects of these types: lists are empty, and look-ups answer NOT_FOUND.
  readonly Booster: never
  readonly MaterializedView: never
  readonly Policy: never
  readonly Sync: never
  readonly TableIntrospection: never
}
