/** Sources with sender settings, and their rows, for tests over HTTP. */
import type { Graphql, TestServer } from './server.ts'

export interface Source {
  readonly sourceId: string
  readonly poolId: string
  readonly url: string
  /** The column `id` of all rows, sorted. */
  ids(): Promise<unknown[]>
  /** These columns of all rows, sorted. @param of another server of the same folder */
  rows(columns: readonly string[], of?: Pick<TestServer, 'graphql'>): Promise<unknown[][]>
}

/** @param settings of `connectionSettings` */
export async function createSource(graphql: Graphql, settings: Record<string, unknown>): Promise<Source> {
  const { data, errors } = await graphql(
    `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource {
       id connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } dataPools { nodes { id } } } } }`,
    { input: { connectionSettings: settings } },
  )
  if (errors !== undefined) throw new Error(`createWebhookDataSource: ${errors[0]?.message}`)
  const { dataSource } = (data as { createWebhookDataSource: { dataSource: Created } })
    .createWebhookDataSource
  const poolId = dataSource.dataPools.nodes[0]?.id ?? ''
  const rows = async (columns: readonly string[], of: { readonly graphql: Graphql } = { graphql }) => {
    const grid = await of.graphql('query ($input: DataGridInput!) { dataGrid(input: $input) { rows } }', {
      input: { dataPool: { id: poolId }, columns, first: 100, orderByColumn: 1 },
    })
    if (grid.errors !== undefined) throw new Error(`dataGrid: ${grid.errors[0]?.message}`)
    const all = (grid.data as { dataGrid: { rows: unknown[][] } }).dataGrid.rows
    return [...all].sort((a, b) => String(a[0]).localeCompare(String(b[0])))
  }
  return {
    sourceId: dataSource.id,
    poolId,
    url: dataSource.connectionSettings.webhookUrl,
    rows,
    ids: async () => (await rows(['id'])).map(([id]) => id),
  }
}

interface Created {
  readonly id: string
  readonly connectionSettings: { readonly webhookUrl: string }
  readonly dataPools: { readonly nodes: readonly { readonly id: string }[] }
}
