/** Data pools and their rows. */
import type { Filter } from '../model/columns.ts'
import { ask } from './request.ts'
import type { PoolActivity } from './server.ts'

export interface PoolColumn {
  readonly columnName: string
  readonly type: string
  readonly isNullable: boolean
}

export interface Pool {
  readonly id: string
  readonly uniqueName: string
  readonly isBuiltIn: boolean
  readonly dataRetentionInDays: number
  readonly timestamp: { readonly columnName: string } | null
  readonly columns: { readonly nodes: readonly PoolColumn[] }
}

export interface ListedPool {
  readonly id: string
  readonly uniqueName: string
  readonly isBuiltIn: boolean
  readonly recordCount: string | null
  readonly activity: PoolActivity | null
}

const POOL = `id uniqueName isBuiltIn dataRetentionInDays timestamp { columnName }
  columns { nodes { columnName type isNullable } }`

export interface PageOf<T> {
  readonly nodes: readonly T[]
  readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean }
}

/** A page of pools, the oldest first. */
export async function listPools(
  first: number,
  after: string | null,
  signal?: AbortSignal,
): Promise<PageOf<ListedPool>> {
  const { dataPools } = await ask<{ readonly dataPools: PageOf<ListedPool> }>(
    `query ($first: Int, $after: String) { dataPools(first: $first, after: $after) {
      nodes { id uniqueName isBuiltIn recordCount activity { accepted rejected lastAcceptedAt } }
      pageInfo { endCursor hasNextPage } } }`,
    { first, after },
    signal,
  )
  return dataPools
}

/** By id or unique name: an id of GraphQL finds both. Throws ApiError with the code NOT_FOUND. */
export async function loadPool(idOrName: string, signal?: AbortSignal): Promise<Pool> {
  const asked = `query ($id: ID!) { dataPool(id: $id) { ${POOL} } }`
  return (await ask<{ readonly dataPool: Pool }>(asked, { id: idOrName }, signal)).dataPool
}

export async function loadRejectedPool(signal?: AbortSignal): Promise<Pool> {
  const asked = `{ rejectedEventsDataPool { ${POOL} } }`
  return (await ask<{ readonly rejectedEventsDataPool: Pool }>(asked, {}, signal)).rejectedEventsDataPool
}

interface TimeRange {
  readonly start?: string
  readonly stop?: string
}

export interface GridAsked {
  readonly dataPool: { readonly id: string }
  readonly columns: readonly string[]
  readonly orderByColumn: number
  readonly sort: 'ASC' | 'DESC'
  readonly filters?: readonly Filter[]
  readonly filterSql?: string
  readonly timeRange?: TimeRange
  readonly first: number
  readonly after?: string | null
}

export interface GridPage {
  readonly rows: readonly (readonly (string | null)[])[]
  readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean }
}

export async function loadGrid(input: GridAsked, signal?: AbortSignal): Promise<GridPage> {
  const { dataGrid } = await ask<{ readonly dataGrid: GridPage }>(
    `query ($input: DataGridInput!) { dataGrid(input: $input) { rows pageInfo { endCursor hasNextPage } } }`,
    { input },
    signal,
  )
  return dataGrid
}

/** Statements of SQL, as rows of texts. */
export async function sql(
  query: string,
  signal?: AbortSignal,
): Promise<readonly (readonly (string | null)[])[]> {
  const { sqlV1 } = await ask<{ readonly sqlV1: { readonly rows: readonly (readonly (string | null)[])[] } }>(
    `query ($query: String!) { sqlV1(input: { query: $query }) { rows } }`,
    { query },
    signal,
  )
  return sqlV1.rows
}

/** A text of SQL. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** A name of SQL. */
export function named(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
