/**
 * What `weir sources` asks of a catalog (manage.ts): webhooks with their sender settings.
 *
 * Secrets are in the answer to a creation alone, as those of applications are. GraphQL shows them
 * to callers with the scope `admin`.
 */
import { MANAGE_SOURCES } from '../api/openapi/admin-requests.ts'
import { readRequest, type ValueOf } from '../api/openapi/schema.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { createWebhookSource, modifySource } from '../catalog/change/change-source.ts'
import type { BadRequest } from '../catalog/documents/catalog-types.ts'
import type { DataSource } from '../catalog/documents/model.ts'
import { presetNamed } from '../catalog/presets.ts'
import { RECEIVED_AT } from '../format/schema.ts'
import { NO_SENDER } from '../format/sender.ts'
import { wallMs } from '../util/clock.ts'
import { AUDIT_ID_CHARACTERS_MAX, GRAPHQL_BODY_BYTES_MAX, HANDSHAKE_MS } from '../util/limits.ts'
import type { Managed } from './manage.ts'

/** A command sends it as it was read, so reading it again gives the same. */
export type SourcesRequest = ValueOf<typeof MANAGE_SOURCES.request>
export type ShownSource = ValueOf<typeof MANAGE_SOURCES.answer>[number]

/** @param webhookUrl the public URL of a webhook */
export function manageSources(
  webhookUrl: (webhookId: string) => string,
): Managed<SourcesRequest, readonly ShownSource[]> {
  return {
    ...MANAGE_SOURCES,
    bodyBytesMax: GRAPHQL_BODY_BYTES_MAX,
    read: given => readRequest(MANAGE_SOURCES.request, given, problemOf),
    attemptOf: ({ action, source = '', name = '' }) => {
      if (action === 'list' || action === 'show') return undefined
      const object = (source === '' ? name : source).slice(0, AUDIT_ID_CHARACTERS_MAX)
      return { mutation: MUTATIONS[action], object: object === '' ? null : object }
    },
    run: (catalog, request, by) => run(catalog, request, by, webhookUrl),
    idOf: ([changed]) => changed?.id,
  }
}

/** The API has no mutation for a handshake. */
const MUTATIONS = {
  create: 'createWebhookDataSource',
  modify: 'modifyWebhookDataSource',
  handshake: 'openHandshake',
} as const

async function run(
  catalog: Catalog,
  { action, source: given = '', name = '', ...settings }: SourcesRequest,
  by: string,
  webhookUrl: (webhookId: string) => string,
): Promise<readonly ShownSource[] | BadRequest> {
  const listed = (source: DataSource) => shownInList(source, webhookUrl)
  const shown = (source: DataSource) => ({ ...listed(source), ...details(catalog, source) })
  if (action === 'list') return catalog.read.sources.all().map(listed)
  if (action === 'create') {
    const made = await catalog.change(createWebhookSource({ ...changeOf(settings), uniqueName: name }, by))
    if ('badRequest' in made) return made
    const { sender } = made.source
    const secrets = sender?.signature?.secrets ?? []
    return [{ ...shown(made.source), secrets, verifyToken: sender?.verifyToken ?? null }]
  }
  const missing = {
    badRequest: `There is no data source ${JSON.stringify(given.slice(0, AUDIT_ID_CHARACTERS_MAX))}.`,
  }
  const source = catalog.read.sources.find(given)
  if (source === undefined) return missing
  if (action === 'show') return [shown(source)]
  if (action === 'handshake') return openHandshake(catalog, source, shown)
  const change = { ...changeOf(settings), uniqueName: name }
  const changed = await catalog.change(modifySource('WEBHOOK', { id: source.id }, change, by))
  if (changed === null) return missing // deleted meanwhile
  return 'badRequest' in changed ? changed : [shown(changed)]
}

/** Lets the sender hand over its secret from now on, for HANDSHAKE_MS. */
async function openHandshake(
  catalog: Catalog,
  source: DataSource,
  shown: (source: DataSource) => ShownSource,
): Promise<readonly ShownSource[] | BadRequest> {
  if (presetNamed(source.sender?.preset)?.handshakes.includes('ASANA') !== true)
    return {
      badRequest: `The data source ${source.id} takes no secret from its sender: only one with the preset ASANA does.`,
    }
  const untilMs = wallMs() + HANDSHAKE_MS
  await catalog.openHandshake(source.id, untilMs)
  return [{ ...shown(source), handshakeUntil: new Date(untilMs).toISOString() }]
}

/** The settings as a creation and a change take them. */
function changeOf({ scheme, secrets, unsigned, orderBy, ...settings }: Partial<SourcesRequest>) {
  const isSigned = scheme !== undefined || secrets !== undefined
  return {
    ...settings,
    ...(isSigned ? { signature: { scheme, secrets } } : {}),
    ...(unsigned === true ? { signatureEnabled: false } : {}),
    ...(orderBy === undefined ? {} : { tableSettings: { orderBy } }),
  }
}

function shownInList(
  { id, uniqueName, kind, webhook, sender }: DataSource,
  webhookUrl: (webhookId: string) => string,
): ShownSource {
  const url = webhook === null ? null : webhookUrl(webhook.webhookId)
  return { id, uniqueName, type: kind, webhookUrl: url, preset: sender?.preset ?? null }
}

function details({ read }: Catalog, { webhook, sender }: DataSource): Partial<ShownSource> {
  const pool = read.pools.get(webhook?.poolId ?? '')
  const schema = pool && read.currentSchema(pool)
  const { signature, preset: _, verifyToken: _secret, ...settings } = { ...NO_SENDER, ...sender }
  return {
    scheme: signature?.scheme ?? null,
    secretCount: signature?.secrets.length ?? 0,
    ...settings,
    eventsPath: pool?.eventsPath ?? null,
    keepEnvelope: pool?.keepEnvelope === true,
    columns: pool?.columns ?? [],
    key: (schema?.key?.columns ?? []).map(index => schema?.columns[index]?.name ?? RECEIVED_AT),
  }
}

/** Of a creation only: a change would ignore them. */
const CREATE_FIELDS = ['columns', 'timestamp', 'uniqueId', 'orderBy'] as const

function problemOf({ action, source = '', ...settings }: SourcesRequest): string | undefined {
  const isNamed = action !== 'list' && action !== 'create'
  if (source === '' && isNamed) return `An id or unique name is needed to ${action} a data source.`
  if (source !== '' && !isNamed) return `"source" names no data source to ${action}: leave it out.`
  const misplaced = CREATE_FIELDS.find(field => action !== 'create' && field in settings)
  return misplaced && `"${misplaced}" is given at the creation: a column is added by a job.`
}
