/** Data pools and their rows. */
import type { Filter } from '../model/columns.ts'
import { type Chosen, query } from './query.ts'
import type { Schema } from './schema.ts'

const POOL = {
  _: 'id uniqueName isBuiltIn dataRetentionInDays',
  timestamp: 'columnName',
  columns: { nodes: 'columnName type isNullable' },
} as const
export type Pool = Chosen<Schema['DataPool'], typeof POOL>
export type PoolColumn = Pool['columns']['nodes'][number]

export const ACTIVITY = 'accepted rejected lastAcceptedAt'
export const PAGE_INFO = 'endCursor hasNextPage'

/** A page of pools, the oldest first. */
export function listPools(first: number, after: string | null, signal?: AbortSignal) {
  const nodes = { _: 'id uniqueName isBuiltIn recordCount', activity: ACTIVITY } as const
  const page = { nodes, pageInfo: PAGE_INFO } as const
  return query('dataPools(first: Int, after: String)', page, { first, after }, signal)
}

/** By id or unique name: an id of GraphQL finds both. Throws ApiError with the code NOT_FOUND. */
export function loadPool(id: string, signal?: AbortSignal): Promise<Pool> {
  return query('dataPool(id: ID!)', POOL, { id }, signal)
}

export function loadRejectedPool(signal?: AbortSignal): Promise<Pool> {
  return query('rejectedEventsDataPool', POOL, {}, signal)
}

const GRID = { _: 'rows', pageInfo: PAGE_INFO } as const
export type GridPage = Chosen<Schema['DataGridConnection'], typeof GRID>
export type GridAsked = Omit<Schema['DataGridInput'], 'filters'> & { readonly filters?: readonly Filter[] }

export function loadGrid(input: GridAsked, signal?: AbortSignal): Promise<GridPage> {
  return query('dataGrid(input: DataGridInput!)', GRID, { input }, signal)
}

/** Statements of SQL, as rows of texts. */
export async function sql(statement: string, signal?: AbortSignal) {
  return (await query('sqlV1(input: SqlV1Input!)', 'rows', { input: { query: statement } }, signal)).rows
}

/** A text of SQL. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** A name of SQL. */
export function named(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
