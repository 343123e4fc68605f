/** Webhooks: what people create, change and delete. */
import type { PageOf } from './pools.ts'
import { ask } from './request.ts'
import type { PoolActivity } from './server.ts'

export interface SourceColumn {
  readonly name: string
  readonly jsonProperty: string
  readonly type: string
  readonly nullable: boolean
  readonly coerce: boolean
}

/** As the input takes it again. Parameters of GENERIC_HMAC are null in other schemes. */
interface Signature {
  readonly scheme: string
  readonly secrets: readonly string[]
  readonly toleranceSeconds: number | null
  readonly header: string | null
  readonly algorithm: string | null
  readonly encoding: string | null
  readonly prefix: string | null
  readonly signed: string | null
  readonly timestampHeader: string | null
  readonly idHeader: string | null
}

interface TableSettings {
  readonly engine: { readonly __typename: string } | null
  readonly partitionBy: readonly string[] | null
  readonly primaryKey: readonly string[] | null
  readonly orderBy: readonly string[] | null
}

interface WebhookSettings {
  readonly __typename: string
  readonly webhookUrl?: string
  readonly columns?: readonly SourceColumn[] | null
  readonly basicAuth?: { readonly username: string; readonly password: string } | null
  readonly timestamp?: string | null
  readonly uniqueId?: string | null
  readonly accept?: readonly string[]
  readonly signature?: Signature | null
  readonly preset?: string | null
  readonly verifyToken?: string | null
  readonly accessControlEnabled?: boolean | null
  readonly tableSettings?: TableSettings | null
  readonly eventsPath?: string | null
  readonly keepEnvelope?: boolean
  readonly rejectedEvents?: 'KEEP' | 'COUNT'
}

interface SourcePool {
  readonly id: string
  readonly uniqueName: string
  readonly recordCount: string | null
  readonly dataRetentionInDays: number
  readonly isBuiltIn: boolean
  readonly activity: PoolActivity | null
  readonly webhookUrl: string | null
}

export interface Source {
  readonly id: string
  readonly uniqueName: string
  readonly description: string
  readonly type: string
  readonly createdAt: string
  readonly connectionSettings: WebhookSettings
  readonly dataPools: { readonly nodes: readonly SourcePool[] }
}

const SOURCE = `id uniqueName description type createdAt
  connectionSettings {
    __typename
    ... on WebhookConnectionSettings {
      webhookUrl timestamp uniqueId accept preset verifyToken eventsPath keepEnvelope rejectedEvents accessControlEnabled
      tableSettings { engine { __typename } partitionBy primaryKey orderBy }
      columns { name jsonProperty type nullable coerce }
      basicAuth { username password }
      signature { scheme secrets toleranceSeconds header algorithm encoding prefix signed timestampHeader idHeader }
    }
  }
  dataPools { nodes { id uniqueName recordCount dataRetentionInDays isBuiltIn webhookUrl
    activity { accepted rejected lastAcceptedAt } } }`

/** A page of sources, the oldest first, without their settings. */
export async function listSources(
  first: number,
  after: string | null,
  signal?: AbortSignal,
): Promise<PageOf<Source>> {
  const { dataSources } = await ask<{ readonly dataSources: PageOf<Source> }>(
    `query ($first: Int, $after: String) { dataSources(first: $first, after: $after) {
      nodes { id uniqueName description type createdAt
        connectionSettings { __typename ... on WebhookConnectionSettings { preset } }
        dataPools { nodes { id uniqueName recordCount dataRetentionInDays isBuiltIn webhookUrl
          activity { accepted rejected lastAcceptedAt } } } }
      pageInfo { endCursor hasNextPage } } }`,
    { first, after },
    signal,
  )
  return dataSources
}

/** By id. Throws ApiError with the code NOT_FOUND. */
export async function loadSource(id: string, signal?: AbortSignal): Promise<Source> {
  const asked = `query ($id: ID!) { dataSource(id: $id) { ${SOURCE} } }`
  return (await ask<{ readonly dataSource: Source }>(asked, { id }, signal)).dataSource
}

/** The source of a data pool. Throws ApiError with the code NOT_FOUND. */
export async function loadSourceOf(poolId: string, signal?: AbortSignal): Promise<Source> {
  const asked = `query ($id: ID!) { dataPool(id: $id) { dataSource { ${SOURCE} } } }`
  const { dataPool } = await ask<{ readonly dataPool: { readonly dataSource: Source } }>(
    asked,
    { id: poolId },
    signal,
  )
  return dataPool.dataSource
}

export interface Preset {
  readonly name: string
  readonly title: string
  readonly scheme: string | null
  readonly needsSecret: boolean
  readonly columns: readonly SourceColumn[]
  readonly timestamp: string | null
  readonly uniqueId: string | null
  readonly orderBy: readonly string[] | null
  readonly delivery: string
  readonly steps: readonly string[]
}

export async function loadPresets(signal?: AbortSignal): Promise<readonly Preset[]> {
  const { webhookPresets } = await ask<{ readonly webhookPresets: readonly Preset[] }>(
    `{ webhookPresets { name title scheme needsSecret timestamp uniqueId orderBy delivery steps
       columns { name jsonProperty type nullable coerce } } }`,
    {},
    signal,
  )
  return webhookPresets
}

/** The names of the schemes of signatures, by the schema. */
export async function loadSignatureSchemes(signal?: AbortSignal): Promise<readonly string[]> {
  const { __type } = await ask<{
    readonly __type: { readonly enumValues: readonly { readonly name: string }[] }
  }>('{ __type(name: "WebhookSignatureScheme") { enumValues { name } } }', {}, signal)
  return __type.enumValues.map(({ name }) => name)
}

export interface Proposal {
  readonly events: number
  readonly columns: readonly (SourceColumn & { readonly reason: string })[]
  readonly uniqueId: { readonly column: string | null; readonly reason: string }
  readonly timestamp: { readonly column: string | null; readonly reason: string }
  readonly orderBy: readonly string[] | null
  readonly leftOut: readonly { readonly jsonProperty: string; readonly reason: string }[]
}

const PROPOSAL = `events orderBy
  columns { name jsonProperty type nullable coerce reason }
  uniqueId { column reason } timestamp { column reason } leftOut { jsonProperty reason }`

/** Proposes columns and a key. Throws ApiError where the text holds no events. */
export async function inferColumns(samples: string): Promise<Proposal> {
  const asked = `query ($samples: String) { inferColumns(samples: $samples) { ${PROPOSAL} } }`
  return (await ask<{ readonly inferColumns: Proposal }>(asked, { samples })).inferColumns
}

export interface NewSource {
  readonly uniqueName: string
  /** WebhookConnectionSettingsInput. */
  readonly connectionSettings: { readonly columns: readonly SourceColumn[] } & Readonly<
    Record<string, unknown>
  >
}

/** Creates a webhook with its pool. Returns the id of the source. Throws ApiError. */
export async function createSource(input: NewSource): Promise<string> {
  const { createWebhookDataSource } = await ask<{
    readonly createWebhookDataSource: { readonly dataSource: { readonly id: string } }
  }>(
    `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource { id } } }`,
    { input },
  )
  return createWebhookDataSource.dataSource.id
}

/** Changes what is given. Throws ApiError. */
export async function modifySource(
  id: string,
  change: {
    readonly description?: string
    readonly uniqueName?: string
    readonly connectionSettings?: object
  },
): Promise<void> {
  await ask(
    `mutation ($input: ModifyWebhookDataSourceInput!) { modifyWebhookDataSource(input: $input) { dataSource { id } } }`,
    { input: { idOrUniqueName: { id }, ...change } },
  )
}

export async function keepDays(poolId: string, days: number): Promise<void> {
  const { modifyDataPool } = await ask<{
    readonly modifyDataPool: { readonly error?: { readonly message: string } }
  }>(
    `mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) {
      ... on FailureResponse { error { message } } } }`,
    { input: { idOrUniqueName: { id: poolId }, dataRetentionInDays: days } },
  )
  if (modifyDataPool.error !== undefined) throw new Error(modifyDataPool.error.message)
}

/** Deletes the source with its pool and all its records. */
export async function deleteSource(id: string): Promise<void> {
  await ask(`mutation ($id: ID!) { deleteDataSource(id: $id) }`, { id })
}

export interface Job {
  readonly id: string
  readonly status: 'CREATED' | 'IN_PROGRESS' | 'SUCCEEDED' | 'FAILED'
  readonly progress: number
  readonly error: { readonly message: string } | null
}

export interface NewColumn {
  readonly dataPool: string
  readonly columnName: string
  readonly columnType: string
  readonly jsonProperty: string
  readonly coerce: boolean
}

/** Starts the job that adds a column. Returns its id. */
export async function addColumn(input: NewColumn): Promise<string> {
  const { createAddColumnToDataPoolJob } = await ask<{
    readonly createAddColumnToDataPoolJob: { readonly job: { readonly id: string } }
  }>(
    `mutation ($input: CreateAddColumnToDataPoolJobInput!) { createAddColumnToDataPoolJob(input: $input) { job { id } } }`,
    { input },
  )
  return createAddColumnToDataPoolJob.job.id
}

export async function loadColumnJob(id: string, signal?: AbortSignal): Promise<Job> {
  const asked = `query ($id: ID!) { addColumnToDataPoolJob(id: $id) { id status progress error { message } } }`
  return (await ask<{ readonly addColumnToDataPoolJob: Job }>(asked, { id }, signal)).addColumnToDataPoolJob
}
