/**
 * What `weir sources` asks of a catalog (manage.ts): webhooks with their sender settings.
 *
 * Secrets are in the answer to a creation alone, as those of applications are. GraphQL shows them
 * to callers with the scope `admin`.
 */
import type { Catalog } from '../catalog/catalog.ts'
import { createWebhookSource, modifySource } from '../catalog/change/change-source.ts'
import type { BadRequest, ColumnInput } from '../catalog/documents/catalog-types.ts'
import type { DataSource, PoolColumn } from '../catalog/documents/model.ts'
import { presetNamed } from '../catalog/presets.ts'
import { RECEIVED_AT } from '../format/schema.ts'
import { ACCEPTS, type Accept, SIGNATURE_SCHEMES, type SignatureScheme } from '../format/sender.ts'
import { wallMs } from '../util/clock.ts'
import { AUDIT_ID_CHARACTERS_MAX, GRAPHQL_BODY_BYTES_MAX, HANDSHAKE_MS } from '../util/limits.ts'
import { type Managed, strayField } from './manage.ts'

const ACTIONS = ['list', 'show', 'create', 'modify', 'handshake'] as const
type Action = (typeof ACTIONS)[number]

/** Settings that a creation or a change takes. Absent ones are not given. */
interface SourceSettings {
  readonly description?: string
  readonly accept?: readonly Accept[]
  readonly scheme?: SignatureScheme
  readonly secrets?: readonly string[]
  readonly unsigned?: boolean
  readonly preset?: string
  readonly verifyToken?: string
  readonly eventsPath?: string
  readonly keepEnvelope?: boolean
  readonly columns?: readonly ColumnInput[]
  readonly timestamp?: string
  readonly uniqueId?: string
  readonly orderBy?: readonly string[]
}

/** A command sends it as it was read, so reading it again gives the same. */
export interface SourcesRequest extends SourceSettings {
  readonly action: Action
  /** Id or unique name; "" for none. */
  readonly source: string
  /** The unique name of a new source, or the new one of a source; "" for none. */
  readonly name: string
}

/** A data source as the command prints it. A list has only the fields before `scheme`. */
export interface ShownSource {
  readonly id: string
  readonly uniqueName: string
  readonly type: string
  /** Null for sources that are no webhook. */
  readonly webhookUrl: string | null
  readonly preset: string | null
  readonly scheme?: string | null
  readonly secretCount?: number
  readonly accept?: readonly Accept[]
  readonly eventsPath?: string | null
  readonly keepEnvelope?: boolean
  readonly columns?: readonly PoolColumn[]
  /** Names of the key's columns; empty where every event is a record of its own. */
  readonly key?: readonly string[]
  /** Of a new source. */
  readonly secrets?: readonly string[]
  readonly verifyToken?: string | null
  /** Until when the sender may hand over its secret, ISO 8601. */
  readonly handshakeUntil?: string
}

/** @param webhookUrl the public URL of a webhook */
export function manageSources(
  webhookUrl: (webhookId: string) => string,
): Managed<SourcesRequest, readonly ShownSource[]> {
  return {
    path: '/v1/admin/sources',
    scope: 'admin',
    bodyBytesMax: GRAPHQL_BODY_BYTES_MAX,
    read: readSources,
    attemptOf: ({ action, source, name }) => {
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
  { action, source: given, name, ...settings }: SourcesRequest,
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
function changeOf({ scheme, secrets, unsigned, orderBy, ...settings }: SourceSettings) {
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
  return {
    scheme: sender?.signature?.scheme ?? null,
    secretCount: sender?.signature?.secrets.length ?? 0,
    accept: sender?.accept ?? [],
    eventsPath: pool?.eventsPath ?? null,
    keepEnvelope: pool?.keepEnvelope === true,
    columns: pool?.columns ?? [],
    key: (schema?.key?.columns ?? []).map(index => schema?.columns[index]?.name ?? RECEIVED_AT),
  }
}

/** True for a value of the form; `what` completes "must be". */
interface Form {
  readonly what: string
  readonly isValid: (value: unknown) => boolean
}

const TEXT: Form = { what: 'a text', isValid: value => typeof value === 'string' }
const FLAG: Form = { what: 'true or false', isValid: value => typeof value === 'boolean' }
const COLUMN: Form = {
  what: 'columns with "name", "jsonProperty", "type" and "nullable"',
  isValid: value =>
    isObject(value) &&
    problemIn(value, COLUMN_FORMS) === undefined &&
    ['name', 'jsonProperty', 'type', 'nullable'].every(field => Object.hasOwn(value, field)),
}

function listOf({ what, isValid }: Form): Form {
  return { what: `a list of ${what}`, isValid: value => Array.isArray(value) && value.every(isValid) }
}

function oneOf(values: readonly string[]): Form {
  return { what: values.join(', '), isValid: value => values.includes(value as string) }
}

type Forms = Readonly<Record<string, Form>>

const COLUMN_FORMS: Forms = {
  name: TEXT,
  jsonProperty: TEXT,
  type: TEXT,
  nullable: FLAG,
  coerce: FLAG,
}

const FORMS: Forms = {
  action: oneOf(ACTIONS),
  source: TEXT,
  name: TEXT,
  description: TEXT,
  accept: listOf(oneOf(ACCEPTS)),
  scheme: oneOf(SIGNATURE_SCHEMES),
  secrets: listOf({ ...TEXT, what: 'texts' }),
  unsigned: FLAG,
  preset: TEXT,
  verifyToken: TEXT,
  eventsPath: TEXT,
  keepEnvelope: FLAG,
  columns: listOf(COLUMN),
  timestamp: TEXT,
  uniqueId: TEXT,
  orderBy: listOf({ ...TEXT, what: 'names' }),
}

/** Of a creation only: a change would ignore them. */
const CREATE_FIELDS = ['columns', 'timestamp', 'uniqueId', 'orderBy'] as const

function readSources(given: unknown): SourcesRequest | BadRequest {
  if (!isObject(given)) return { badRequest: 'The body must be one JSON object.' }
  const { action, source = '', name = '', ...settings } = given as Partial<SourcesRequest> & SourceSettings
  const stray = strayField(given, Object.keys(FORMS))
  if (stray !== undefined) return stray
  const badRequest = problemIn({ ...given, action: action ?? '' }, FORMS)
  if (badRequest !== undefined) return { badRequest }
  if (source === '' && action !== 'list' && action !== 'create')
    return { badRequest: `An id or unique name is needed to ${action} a data source.` }
  if (source !== '' && (action === 'list' || action === 'create'))
    return { badRequest: `"source" names no data source to ${action}: leave it out.` }
  const misplaced = CREATE_FIELDS.find(field => action !== 'create' && field in settings)
  if (misplaced !== undefined)
    return { badRequest: `"${misplaced}" is given at the creation: a column is added by a job.` }
  return { action: action as Action, source, name, ...settings }
}

/** The first field whose value has another form. Fields without a form are ignored. */
function problemIn(object: object, forms: Forms): string | undefined {
  for (const [name, { what, isValid }] of Object.entries(forms))
    if (Object.hasOwn(object, name) && !isValid((object as Record<string, unknown>)[name]))
      return `"${name}" must be ${what}.`
  return undefined
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
