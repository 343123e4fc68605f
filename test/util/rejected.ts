/** Rows of the pool of rejected events, for tests over HTTP. */
import { setTimeout as delay } from 'node:timers/promises'
import { REJECTED_EVENTS } from '../../src/catalog/rejected-pool.ts'
import type { TestServer } from './server.ts'

const REJECTED_COLUMNS = [
  'id',
  'source_id',
  'data_pool_id',
  'code',
  'column_name',
  'message',
  'content_type',
  'element_index',
  'text',
  'is_truncated',
  'context',
] as const

/** A row, with values as queries print them. */
export type RejectedRow = Readonly<Record<(typeof REJECTED_COLUMNS)[number], string | null>>

const GRID = 'query ($input: DataGridInput!) { dataGrid(input: $input) { rows } }'

/** The rows that a pool has there now, the oldest first. */
export async function rejectedNow(
  { graphql }: Pick<TestServer, 'graphql'>,
  poolId: string,
): Promise<RejectedRow[]> {
  const { data, errors } = await graphql<{ dataGrid: { rows: (string | null)[][] } }>(GRID, {
    input: {
      dataPool: { name: REJECTED_EVENTS },
      columns: REJECTED_COLUMNS,
      filters: [{ column: 'data_pool_id', operator: 'EQUALS', value: poolId }],
      first: 1_000,
      orderByColumn: 1,
      sort: 'ASC',
    },
  })
  if (errors !== undefined) throw new Error(`dataGrid: ${errors[0]?.message}`)
  return data.dataGrid.rows.map(
    row => Object.fromEntries(REJECTED_COLUMNS.map((name, index) => [name, row[index]])) as RejectedRow,
  )
}

/** The same once there are `count` of them. They come a moment after the answers. */
export async function rejectedOf(
  server: Pick<TestServer, 'graphql'>,
  poolId: string,
  count: number,
): Promise<RejectedRow[]> {
  for (let tries = 0; ; tries += 1) {
    const rows = await rejectedNow(server, poolId)
    if (rows.length >= count) return rows
    if (tries === 100) throw new Error(`${rows.length} rows, not ${count}: ${rows.map(({ code }) => code)}`)
    await delay(50)
  }
}
