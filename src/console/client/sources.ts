/** Webhooks: what people create, change and delete. */
import { ACTIVITY, PAGE_INFO } from './pools.ts'
import { type Chosen, mutate, query } from './query.ts'
import { ask } from './request.ts'
import type { Schema } from './schema.ts'

const COLUMN = 'name jsonProperty type nullable coerce'
export type SourceColumn = Chosen<Schema['WebhookDataSourceColumn'], typeof COLUMN>

/** The settings of a webhook, as the input takes them again. */
const WEBHOOK = {
  _: 'webhookUrl timestamp uniqueId accept preset verifyToken eventsPath keepEnvelope rejectedEvents accessControlEnabled',
  tableSettings: { _: 'partitionBy primaryKey orderBy', engine: '__typename' },
  columns: COLUMN,
  basicAuth: 'username password',
  signature:
    'scheme secrets toleranceSeconds header algorithm encoding prefix signed timestampHeader idHeader',
} as const
const LISTED = 'id uniqueName description type createdAt'
const POOLS = {
  nodes: {
    _: 'id uniqueName recordCount dataRetentionInDays isBuiltIn webhookUrl',
    activity: ACTIVITY,
  },
} as const
const SOURCE = {
  _: LISTED,
  connectionSettings: { _: '__typename', '... on WebhookConnectionSettings': WEBHOOK },
  dataPools: POOLS,
} as const
export type Source = Chosen<Schema['DataSource'], typeof SOURCE>

/** Without its settings. */
const LISTED_SOURCE = {
  _: LISTED,
  connectionSettings: { _: '__typename', '... on WebhookConnectionSettings': 'preset' },
  dataPools: POOLS,
} as const
export type ListedSource = Chosen<Schema['DataSource'], typeof LISTED_SOURCE>

/** A page of sources, the oldest first. */
export function listSources(first: number, after: string | null, signal?: AbortSignal) {
  const page = { nodes: LISTED_SOURCE, pageInfo: PAGE_INFO } as const
  return query('dataSources(first: Int, after: String)', page, { first, after }, signal)
}

/** By id. Throws ApiError with the code NOT_FOUND. */
export function loadSource(id: string, signal?: AbortSignal): Promise<Source> {
  return query('dataSource(id: ID!)', SOURCE, { id }, signal)
}

/** The source of a data pool. Throws ApiError with the code NOT_FOUND. */
export async function loadSourceOf(id: string, signal?: AbortSignal): Promise<Source> {
  return (await query('dataPool(id: ID!)', { dataSource: SOURCE } as const, { id }, signal)).dataSource
}

const PRESET = {
  _: 'name title scheme needsSecret timestamp uniqueId orderBy delivery steps',
  columns: COLUMN,
} as const
export type Preset = Chosen<Schema['WebhookPreset'], typeof PRESET>

export function loadPresets(signal?: AbortSignal): Promise<readonly Preset[]> {
  return query('webhookPresets', PRESET, {}, signal)
}

const PROPOSAL = {
  _: 'events orderBy',
  columns: `${COLUMN} reason`,
  uniqueId: 'column reason',
  timestamp: 'column reason',
  leftOut: 'jsonProperty reason',
} as const
export type Proposal = Chosen<Schema['InferredColumns'], typeof PROPOSAL>

/** Proposes columns and a key. Throws ApiError where the text holds no events. */
export function inferColumns(samples: string): Promise<Proposal> {
  return query('inferColumns(samples: String)', PROPOSAL, { samples })
}

/** The names of the schemes of signatures, by the schema. */
export async function loadSignatureSchemes(signal?: AbortSignal) {
  type Scheme = Schema['WebhookSignatureScheme']
  const { __type } = await ask<{
    readonly __type: { readonly enumValues: readonly { readonly name: Scheme }[] }
  }>('{ __type(name: "WebhookSignatureScheme") { enumValues { name } } }', {}, signal)
  return __type.enumValues.map(({ name }) => name)
}

export type NewSource = Schema['CreateWebhookDataSourceInput']

/** Creates a webhook with its pool. Returns the id of the source. Throws ApiError. */
export async function createSource(input: NewSource): Promise<string> {
  const made = { dataSource: 'id' } as const
  const field = 'createWebhookDataSource(input: CreateWebhookDataSourceInput!)'
  return (await mutate(field, made, { input })).dataSource?.id ?? ''
}

/** Changes what is given. Throws ApiError. */
export async function modifySource(
  id: string,
  change: Omit<Schema['ModifyWebhookDataSourceInput'], 'idOrUniqueName'>,
): Promise<void> {
  const input = { idOrUniqueName: { id }, ...change }
  const field = 'modifyWebhookDataSource(input: ModifyWebhookDataSourceInput!)'
  await mutate(field, { dataSource: 'id' }, { input })
}

export async function keepDays(id: string, dataRetentionInDays: number): Promise<void> {
  const failure = { '... on FailureResponse': { error: 'message' } } as const
  const input = { idOrUniqueName: { id }, dataRetentionInDays }
  const { error } = await mutate('modifyDataPool(input: modifyDataPoolInput!)', failure, { input })
  if (error !== undefined) throw new Error(error.message)
}

/** Deletes the source with its pool and all its records. */
export async function deleteSource(id: string): Promise<void> {
  await mutate('deleteDataSource(id: ID!)', '', { id })
}

/** Starts the job that adds a column. Returns its id. */
export async function addColumn(input: Schema['CreateAddColumnToDataPoolJobInput']): Promise<string> {
  const field = 'createAddColumnToDataPoolJob(input: CreateAddColumnToDataPoolJobInput!)'
  return (await mutate(field, { job: 'id' } as const, { input })).job.id
}

const JOB = { _: 'id status progress', error: 'message' } as const
export type Job = Chosen<Schema['AddColumnToDataPoolJob'], typeof JOB>

export function loadColumnJob(id: string, signal?: AbortSignal): Promise<Job> {
  return query('addColumnToDataPoolJob(id: ID!)', JOB, { id }, signal)
}
