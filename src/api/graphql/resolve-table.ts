/** Resolvers of the tables that a data source declares, and of their columns. */
import type { DataSource, SourceColumn } from '../../catalog/documents/model.ts'
import { NUMBER_TYPES } from '../../format/schema.ts'
import { type PageArgs, pageByIndex } from './list-page.ts'
import type { TableOfSource } from './parents.ts'
import type { Enums, Resolvers } from './schema-types.ts'

const NUMBERS = new Set<string>(NUMBER_TYPES)
const TIMES = new Set(['DATE', 'TIMESTAMP'])

export const tableFields: Resolvers['Table'] = {
  id: ({ table }) => table.id,
  name: ({ table }) => table.name,
  dataSource: ({ source }) => source,
  rows: () => null,
  size: () => null,
  kind: () => 'TABLE',
  comment: () => '',
  clusterBy: () => null,
  owner: () => '',
  timeTravelRetentionInDays: () => null,
  isAutomaticClusteringEnabled: () => null,
  isChangeTrackingEnabled: () => null,
  isSearchOptimizationEnabled: () => null,
  isExternal: () => false,
  cachedAt: ({ source }) => source.modifiedAt,
  createdAt: ({ source }) => source.createdAt,
  createdBy: ({ source }) => source.createdBy,
  columns: (table, args) => pageOfColumns(table, args, () => true),
  availableTimestamps: (table, args) => pageOfColumns(table, args, type => TIMES.has(type)),
  availableMeasures: (table, args) => pageOfColumns(table, args, type => NUMBERS.has(type)),
}

function pageOfColumns({ source, table }: TableOfSource, args: PageArgs, fits: (type: string) => boolean) {
  const columns = table.columns.filter(({ type }) => fits(type)).map(column => shownColumn(column, source))
  return { ...pageByIndex(columns, args), cachedAt: source.modifiedAt }
}

function shownColumn({ name, type, nullable }: SourceColumn, source: DataSource) {
  const columnType = type as Enums['ColumnType']
  return {
    name,
    type,
    kind: 'COLUMN',
    isNullable: nullable,
    // A declared table has no keys: those of a pool stand with the pool.
    isPrimaryKey: false,
    isUniqueKey: false,
    cachedAt: source.modifiedAt,
    createdAt: source.createdAt,
    createdBy: source.createdBy,
    suggestedDataPoolColumnType: columnType,
    supportedDataPoolColumnTypes: [columnType],
  }
}
