/** Resolvers of the tables that a data source declares, and of their columns. */
import { NUMBER_TYPES } from '../../format/schema.ts'
import { type PageArgs, pageByIndex } from './list-page.ts'
import type { ColumnOfSource, TableOfSource } from './parents.ts'
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

export const columnFields: Resolvers['Column'] = {
  name: ({ column }) => column.name,
  type: ({ column }) => column.type,
  kind: () => 'COLUMN',
  isNullable: ({ column }) => column.nullable,
  defaultValue: () => null,
  // A declared table has no keys: those of a pool stand with the pool.
  isPrimaryKey: () => false,
  isUniqueKey: () => false,
  comment: () => null,
  policyName: () => null,
  cachedAt: ({ source }) => source.modifiedAt,
  createdAt: ({ source }) => source.createdAt,
  createdBy: ({ source }) => source.createdBy,
  suggestedDataPoolColumnType: typeOf,
  supportedDataPoolColumnTypes: column => [typeOf(column)],
}

function typeOf({ column }: ColumnOfSource): Enums['ColumnType'] {
  return column.type as Enums['ColumnType']
}

function pageOfColumns({ source, table }: TableOfSource, args: PageArgs, fits: (type: string) => boolean) {
  const columns = table.columns.filter(({ type }) => fits(type)).map(column => ({ source, column }))
  return { ...pageByIndex(columns, args), cachedAt: source.modifiedAt }
}
