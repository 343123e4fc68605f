/**
 * Changes of data sources. A webhook source and its pool are made in one change and share a unique
 * name, because clients find the pool by the name of the source.
 */
import { NO_SENDER, type SenderSettings, SIGNATURE_SECRETS_MAX } from '../../format/sender.ts'
import { newId } from '../../util/ids.ts'
import { CREDENTIAL_BYTES_MAX, KiB } from '../../util/limits.ts'
import type {
  BadRequest,
  ColumnInput,
  Entry,
  IdOrName,
  NewWebhookSource,
  SenderGiven,
  Target,
} from '../documents/catalog-types.ts'
import { keys, type Memory } from '../documents/memory.ts'
import type { BasicAuth, DataSource, Meta, Pool, SourceKind, SourceTable } from '../documents/model.ts'
import { CONNECTED, stateOf } from '../documents/source-kinds.ts'
import {
  changing,
  creating,
  type Decide,
  fullProblem,
  modified,
  type Named,
  namedProblem,
  nameProblem,
  newCommon,
  renamed,
  replacing,
  unchanged,
  unusedId,
} from './change.ts'
import { newPool, poolRemoval } from './change-pool.ts'
import { basicAuthProblem, type Checked, checkPool, columnsProblem, orNull, textProblem } from './rules.ts'
import { changedSender, filledByPreset, newSender, withSecret } from './sender-settings.ts'

/** Tables that an Http or S3 data source declares. */
export const SOURCE_TABLES_MAX = 100
/** Characters of the other connection settings of a data source, as JSON. */
export const CONNECTION_SETTINGS_CHARACTERS_MAX = 16 * KiB

interface TableInput {
  readonly name: string
  readonly path?: string | null | undefined
  readonly columns: readonly Omit<ColumnInput, 'jsonProperty'>[]
}

export interface NewSource extends Named {
  readonly basicAuth?: BasicAuth | null | undefined
  readonly tables?: readonly TableInput[] | null | undefined
  readonly settings?: Readonly<Record<string, unknown>> | undefined
}

/**
 * Absent and null leave a field as it is. `basicAuthEnabled: false` clears the credentials, and
 * `signatureEnabled: false` the signature. Only a WEBHOOK has the fields of SenderGiven.
 */
export interface SourceChange extends NewSource, SenderGiven {
  readonly basicAuthEnabled?: boolean | null | undefined
  /** Refused unless it is what the webhook has. */
  readonly eventsPath?: string | null | undefined
  /** As `eventsPath`. */
  readonly keepEnvelope?: boolean | null | undefined
}

export function createWebhookSource(given: NewWebhookSource, by: string): Decide<Target> {
  return (memory, nowMs) => {
    const sender = newSender(given)
    if (sender !== null && 'badRequest' in sender) return sender
    const input = filledByPreset(given)
    const problem = namedProblem(input) ?? basicAuthProblem(input.basicAuth)
    if (problem !== undefined) return { badRequest: problem }
    const checked = checkPool(input)
    if ('badRequest' in checked) return checked
    const taken =
      pairNameProblem(memory, input.uniqueName) ??
      fullProblem('pools', memory) ??
      fullProblem('sources', memory)
    if (taken !== undefined) return { badRequest: taken }
    const made = makeWebhookSource(input, checked, memory, memory.meta(), by, nowMs, sender)
    return { puts: made.puts, removes: [], result: made.target }
  }
}

interface Made {
  readonly target: Target
  /** Source, pool, its first schema version, and the meta document with the next pool number. */
  readonly puts: readonly Entry[]
}

export function makeWebhookSource(
  input: NewWebhookSource,
  checked: Checked,
  { sources, pools }: Pick<Memory, 'sources' | 'pools'>,
  meta: Meta,
  by: string,
  nowMs: number,
  sender: SenderSettings | null = null,
): Made {
  // A source without a name gives its id to the pool as name.
  const common = newCommon(unusedId('DSO', nowMs, sources, pools), input, by, nowMs)
  const { pool, puts } = newPool({ ...input, uniqueName: common.uniqueName }, checked, meta, by, nowMs, {
    id: unusedId('DPO', nowMs, pools),
    dataSourceId: common.id,
    table: common.uniqueName,
    webhookId: null,
  })
  const source: DataSource = {
    ...common,
    kind: 'WEBHOOK',
    ...CONNECTED,
    basicAuth: basicAuthOf(input.basicAuth),
    webhook: {
      webhookId: newId('WHK', nowMs),
      poolId: pool.id,
      timestamp: orNull(input.timestamp),
      uniqueIdColumn: checked.uniqueIdColumn,
      tenant: checked.tenant,
      tableSettings: checked.tableSettings,
    },
    ...(sender === null ? {} : { sender }),
    ...(input.rejectedEvents === 'COUNT' ? { rejectedEvents: 'COUNT' } : {}),
  }
  return { target: { pool, source }, puts: [[keys.source(source.id), source], ...puts] }
}

/** Makes a source without a pool. One of a kind that Weir does not connect to is BROKEN. */
export function createSource(
  kind: Exclude<SourceKind, 'WEBHOOK' | 'INTERNAL'>,
  input: NewSource,
  by: string,
): Decide<DataSource> {
  return creating('sources', input, by, (_, nowMs) => {
    const badRequest = partsProblem(input)
    if (badRequest !== undefined) return { badRequest }
    return {
      kind,
      ...stateOf(kind),
      basicAuth: basicAuthOf(input.basicAuth),
      webhook: null,
      tables: (input.tables ?? []).map(table => tableOf(table, [], nowMs)),
      settings: input.settings ?? {},
    }
  })
}

/** A webhook source's pool takes its new name along. */
export function modifySource(
  kind: SourceKind,
  which: IdOrName,
  input: SourceChange,
  by: string,
): Decide<DataSource | null> {
  return changing('sources', which, (source, memory, nowMs) => {
    if (source.kind !== kind) return { badRequest: otherKind(source, kind) }
    const pool = source.webhook === null ? undefined : memory.pools.get(source.webhook.poolId)
    const problem =
      namedProblem(input) ?? pairNameProblem(memory, input.uniqueName, source, pool) ?? partsProblem(input)
    if (problem !== undefined) return { badRequest: problem }
    const sender = senderChange(source, pool, input)
    if ('badRequest' in sender) return sender
    const changed = modified(source, { ...changeOf(source, input, nowMs), ...sender }, by, nowMs)
    if (changed === undefined) return unchanged(source)
    const puts: Entry[] = [[keys.source(source.id), changed]]
    if (pool !== undefined && pool.uniqueName === source.uniqueName) {
      const renamedPool = modified(pool, { uniqueName: changed.uniqueName }, by, nowMs)
      if (renamedPool !== undefined) puts.push([keys.pool(pool.id), renamedPool])
    }
    return { puts, removes: [], result: changed }
  })
}

function otherKind(source: DataSource, kind: SourceKind): string {
  const way =
    source.kind === 'INTERNAL'
      ? ' Its Data Pools take events without credentials: for a webhook with credentials, create a source with createHttpDataSource and a Data Pool of it.'
      : ''
  return `The Data Source ${source.id} is of type ${source.kind}, not ${kind}.${way}`
}

function changeOf(source: DataSource, input: SourceChange, nowMs: number): Partial<DataSource> {
  const { basicAuth, basicAuthEnabled, tables, settings } = input
  const given = Object.entries(settings ?? {}).filter(([, value]) => value !== null && value !== undefined)
  const present = source.rejectedEvents ?? 'KEEP'
  const rejectedEvents = input.rejectedEvents ?? present
  return {
    ...renamed(source, input),
    basicAuth: basicAuthEnabled === false ? null : (basicAuthOf(basicAuth) ?? source.basicAuth),
    tables: tables?.map(table => tableOf(table, source.tables, nowMs)) ?? source.tables,
    settings: { ...source.settings, ...Object.fromEntries(given) },
    ...(rejectedEvents === present ? {} : { rejectedEvents }),
  }
}

const SENDER_FIELDS: readonly (keyof SenderGiven)[] = [
  ...(Object.keys(NO_SENDER) as (keyof SenderSettings)[]),
  'signatureEnabled',
]

/**
 * The field `sender` of a changed webhook. It stays absent where the change gives nothing of it.
 */
function senderChange(
  source: DataSource,
  pool: Pool | undefined,
  given: SourceChange,
): Pick<DataSource, 'sender'> | BadRequest {
  const { eventsPath, keepEnvelope } = given
  const present = pool?.eventsPath ?? ''
  if ((eventsPath ?? present) !== present)
    return {
      badRequest: `The eventsPath of a webhook cannot be changed from "${present}", because it belongs to the schema by which events are read: create another webhook with the new eventsPath.`,
    }
  const keeps = pool?.keepEnvelope === true
  if ((keepEnvelope ?? keeps) !== keeps)
    return {
      badRequest: `The keepEnvelope of a webhook stays ${keeps}, because it belongs to the schema by which events are read: create another webhook with the other one.`,
    }
  if (SENDER_FIELDS.every(name => given[name] === null || given[name] === undefined)) return {}
  const sender = changedSender(source.sender ?? null, given)
  if (sender !== null && 'badRequest' in sender) return sender
  return sender === null && source.sender === undefined ? {} : { sender }
}

/**
 * Keeps the secret that a sender handed over, as Asana does. The result is null where the source is
 * gone, or has no preset that signs. @param secret 1 to 1,024 visible characters of ASCII
 */
export function keepHandedSecret(sourceId: string, secret: string, by: string): Decide<DataSource | null> {
  return changing('sources', { id: sourceId }, (source, _, nowMs) => {
    const sender = source.sender && withSecret(source.sender, secret, SIGNATURE_SECRETS_MAX)
    return sender
      ? replacing(keys.source(source.id), source, { sender, handshakeUntilMs: undefined }, by, nowMs)
      : unchanged<DataSource | null>(null)
  })
}

/** Its pools go too. The INTERNAL source stays. */
export function deleteSource(which: IdOrName): Decide<string | null> {
  return changing('sources', which, (source, memory, nowMs) => {
    if (source.kind === 'INTERNAL')
      return { badRequest: 'The internal Data Source belongs to the server and cannot be deleted.' }
    const removals = memory.pools.of(source.id).map(pool => poolRemoval(memory, pool, nowMs))
    return {
      puts: removals.flatMap(({ puts }) => puts),
      removes: [...removals.flatMap(({ removes }) => removes), keys.source(source.id)],
      result: source.id,
    }
  })
}

/** Webhook sources whose pool is gone: an earlier version deleted pools alone. */
export function sourcesWithoutPool({ sources, pools }: Memory): readonly DataSource[] {
  return sources.all().filter(({ webhook }) => webhook !== null && pools.get(webhook.poolId) === undefined)
}

/** Source and pool share a name, unless the pool has one of its own: it must be free among both. */
function pairNameProblem(
  memory: Memory,
  name: string | null | undefined,
  source?: DataSource,
  pool?: Pool,
): string | undefined {
  const isShared = source === undefined || pool?.uniqueName === source.uniqueName
  return (
    nameProblem('sources', memory, name, source) ??
    (isShared ? nameProblem('pools', memory, name, pool) : undefined)
  )
}

function basicAuthOf(given: BasicAuth | null | undefined): BasicAuth | null {
  return given ? { username: given.username, password: given.password } : null
}

/** A table keeps its id while it keeps its name. */
function tableOf(table: TableInput, before: readonly SourceTable[], nowMs: number): SourceTable {
  return {
    id: before.find(({ name }) => name === table.name)?.id ?? newId('TBL', nowMs),
    name: table.name,
    path: orNull(table.path),
    columns: table.columns.map(({ name, type, clickHouseType, nullable }) => ({
      name,
      type,
      clickHouseType: clickHouseType ?? null,
      nullable,
    })),
  }
}

function partsProblem(input: NewSource): string | undefined {
  const { basicAuth, tables, settings } = input
  return (
    basicAuthProblem(basicAuth) ??
    (JSON.stringify(settings ?? {}).length > CONNECTION_SETTINGS_CHARACTERS_MAX
      ? `The connection settings have more than ${CONNECTION_SETTINGS_CHARACTERS_MAX} characters.`
      : undefined) ??
    tablesProblem(tables ?? [])
  )
}

function tablesProblem(tables: readonly TableInput[]): string | undefined {
  if (tables.length > SOURCE_TABLES_MAX) return `A Data Source has at most ${SOURCE_TABLES_MAX} tables.`
  const names = new Set<string>()
  for (const table of tables) {
    if (table.name === '') return 'A table has an empty name.'
    if (names.has(table.name)) return `Two tables are named "${table.name}".`
    names.add(table.name)
    const problem =
      textProblem('name of a table', table.name, CREDENTIAL_BYTES_MAX) ??
      textProblem('path of a table', table.path, CREDENTIAL_BYTES_MAX) ??
      columnsProblem(table.columns.map(column => ({ ...column, jsonProperty: column.name })))
    if (problem !== undefined) return problem
  }
  return undefined
}
