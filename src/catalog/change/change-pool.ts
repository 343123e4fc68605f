/**
 * Changes of data pools. A pool that is not of a webhook source is a generic pool: events are
 * posted to a webhook id of its own, and each column reads the property of its name.
 */
import { RECEIVED_AT } from '../../format/schema.ts'
import { newId } from '../../util/ids.ts'
import type { Change, ColumnInput, Entry, IdOrName, PoolInput } from '../documents/catalog-types.ts'
import { keys, type Memory } from '../documents/memory.ts'
import { type DataSource, type Meta, type Pool, type Tombstone, versionOf } from '../documents/model.ts'
import { CONNECTED } from '../documents/source-kinds.ts'
import {
  changing,
  type Decide,
  type Named,
  namedProblem,
  nameProblem,
  newCommon,
  newObjectProblem,
  renamed,
  replacing,
  unchanged,
  unusedId,
} from './change.ts'
import { cancelJob, isUnfinished, SYSTEM } from './change-job.ts'
import { metricKeysOf } from './change-metric.ts'
import { policyKeysOf } from './change-policy.ts'
import { type Checked, checkPool, columnTypeOf, orNull, TIME_TYPES } from './rules.ts'
import { expiryProblem } from './table-settings.ts'

/** Days of retention: a hundred years. More is BAD_REQUEST. */
export const RETENTION_DAYS_MAX = 36_500

export interface NewPool extends Named, Omit<PoolInput, 'columns'> {
  /** The id of an Http source. Where it is absent, the source is the INTERNAL one. */
  readonly dataSource?: string | null | undefined
  /** The table of the Http source, whose columns are the default. */
  readonly table?: string | null | undefined
  readonly columns?: readonly Omit<ColumnInput, 'jsonProperty'>[] | null | undefined
  readonly accessControlEnabled?: boolean | null | undefined
  readonly syncing?: Syncing | null | undefined
}

/** Weir syncs nothing, and shows the interval again. */
interface Syncing {
  readonly interval: string
}

/** Absent and null leave a field as it is. So does "", except for the description. */
export interface PoolChange extends Named {
  readonly dataRetentionInDays?: number | null | undefined
  readonly accessControlEnabled?: boolean | null | undefined
  readonly timestamp?: { readonly columnName: string } | null | undefined
  readonly syncing?: Syncing | null | undefined
}

type PoolPlace = Pick<Pool, 'id' | 'dataSourceId' | 'table' | 'webhookId'>

export function createPool(input: NewPool, by: string): Decide<Pool | null> {
  return (memory, nowMs) => {
    const given = orNull(input.dataSource)
    const source = given === null ? internalSource(memory, by, nowMs) : memory.sources.find(given)
    if (source === undefined) return unchanged(null)
    if (source.kind !== 'Http' && source.kind !== 'INTERNAL')
      return { badRequest: `Weir makes no Data Pool over a Data Source of type ${source.kind}.` }
    const columns = columnsOf(input, source)
    if (typeof columns === 'string') return { badRequest: columns }
    const badRequest = newObjectProblem('pools', memory, input)
    if (badRequest !== undefined) return { badRequest }
    const checked = checkPool({ ...input, columns })
    if ('badRequest' in checked) return checked
    const { pool, puts } = newPool(input, checked, memory.meta(), by, nowMs, {
      id: unusedId('DPO', nowMs, memory.pools),
      dataSourceId: source.id,
      table: orNull(input.table) ?? '',
      webhookId: newId('WHK', nowMs),
    })
    const sourcePuts: Entry[] =
      memory.sources.get(source.id) === undefined ? [[keys.source(source.id), source]] : []
    return { puts: [...sourcePuts, ...puts], removes: [], result: pool }
  }
}

/** The documents of a new pool: itself, its first schema version, and the next pool's number. */
export function newPool(
  input: Named & Pick<NewPool, 'accessControlEnabled' | 'syncing'>,
  checked: Checked,
  meta: Meta,
  by: string,
  nowMs: number,
  place: PoolPlace,
): { readonly pool: Pool; readonly puts: readonly Entry[] } {
  const common = newCommon(place.id, input, by, nowMs)
  const pool: Pool = {
    ...place,
    ...common,
    number: meta.nextPoolNumber,
    table: place.table === '' ? common.uniqueName : place.table,
    planVersion: 1,
    ...checked,
    accessControlEnabled: input.accessControlEnabled ?? false,
    retentionDays: 0,
    ...syncIntervalOf(input),
  }
  const version = versionOf(pool)
  return {
    pool,
    puts: [
      [keys.pool(pool.id), pool],
      [keys.schema(version.pool, version.version), version],
      [keys.meta, { ...meta, nextPoolNumber: pool.number + 1 } satisfies Meta],
    ],
  }
}

export function modifyPool(which: IdOrName, input: PoolChange, by: string): Decide<Pool | null> {
  return changing('pools', which, (pool, memory, nowMs) => {
    const retentionDays = input.dataRetentionInDays ?? pool.retentionDays
    const badRequest =
      retentionProblem(retentionDays) ??
      (retentionDays > 0 ? expiryProblem(pool) : undefined) ??
      namedProblem(input) ??
      poolNameProblem(memory, pool, input.uniqueName) ??
      timestampProblem(pool, input)
    if (badRequest !== undefined) return { badRequest }
    const change: Partial<Pool> = {
      ...renamed(pool, input),
      retentionDays,
      accessControlEnabled: input.accessControlEnabled ?? pool.accessControlEnabled,
      ...syncIntervalOf(input),
    }
    const { puts, ...rest } = replacing(keys.pool(pool.id), pool, change, by, nowMs)
    const ended = retentionDays === pool.retentionDays ? [] : endExpiries(memory, pool, by, nowMs)
    return { ...rest, puts: [...puts, ...ended] }
  })
}

/** The deletions that retention has asked for may take rows that stay from now on. */
function endExpiries(memory: Memory, pool: Pool, by: string, nowMs: number): readonly Entry[] {
  const expiries = memory.jobs.of(pool.id).filter(job => job.createdBy === SYSTEM && isUnfinished(job))
  return expiries.flatMap(({ id }) => {
    const ended = cancelJob(id, by)(memory, nowMs)
    return 'badRequest' in ended ? [] : ended.puts
  })
}

/** A webhook source goes with its pool: it can get no other one, and clients wait for its end. */
export function deletePool(which: IdOrName): Decide<string | null> {
  return changing('pools', which, (pool, memory, nowMs) => {
    if (pool.builtIn !== undefined)
      return {
        badRequest:
          'The Data Pool of rejected events belongs to the server and cannot be deleted. With rejectedEvents: COUNT the rejected events of a webhook are only counted.',
      }
    const { puts, removes } = poolRemoval(memory, pool, nowMs)
    const source = memory.sources.get(pool.dataSourceId)
    const own = source?.kind === 'WEBHOOK' ? [keys.source(source.id)] : []
    return { puts, removes: [...removes, ...own], result: pool.id }
  })
}

/** Leaves a tombstone, and the jobs, which tell how they ended. */
export function poolRemoval(memory: Memory, pool: Pool, nowMs: number): Change {
  const tombstone: Tombstone = {
    number: pool.number,
    poolId: pool.id,
    deletedAt: new Date(nowMs).toISOString(),
  }
  const schemas = Array.from({ length: pool.planVersion }, (_, index) => index + 1)
    .filter(version => memory.schema(pool.number, version) !== undefined)
    .map(version => keys.schema(pool.number, version))
  return {
    puts: [[keys.tombstone(pool.number), tombstone]],
    removes: [
      keys.pool(pool.id),
      ...schemas,
      ...metricKeysOf(memory, pool.id),
      ...policyKeysOf(memory, pool.id),
    ],
  }
}

function columnsOf(input: NewPool, source: DataSource): readonly ColumnInput[] | string {
  const table = orNull(input.table)
  const declared = source.tables.find(({ name, id }) => name === table || id === table)
  if (source.kind === 'Http' && table !== null && declared === undefined)
    return `The Data Source has no table "${table}".`
  const columns = input.columns ?? declared?.columns ?? []
  return columns.map(column => ({ ...column, jsonProperty: column.name }))
}

/** The one source of pools that name no source. Its document is made with the first such pool. */
export function internalSource(memory: Memory, by: string, nowMs: number): DataSource {
  const found = memory.sources.all().find(({ kind }) => kind === 'INTERNAL')
  if (found !== undefined) return found
  return {
    ...newCommon(
      unusedId('DSO', nowMs, memory.sources),
      { description: 'Data Pools without a Data Source of their own' },
      by,
      nowMs,
    ),
    kind: 'INTERNAL',
    ...CONNECTED,
  }
}

function retentionProblem(days: number): string | undefined {
  return Number.isInteger(days) && days >= 0 && days <= RETENTION_DAYS_MAX
    ? undefined
    : `dataRetentionInDays is 0 (for ever) to ${RETENTION_DAYS_MAX}, not ${days}.`
}

/** A name must be free among the sources too. A pool may take the name of its own source. */
function poolNameProblem(memory: Memory, pool: Pool, name: string | null | undefined): string | undefined {
  const own = memory.sources.get(pool.dataSourceId)
  const given = orNull(name)
  if (own?.webhook && given === own.uniqueName && !memory.pools.has(given)) return undefined
  return (
    nameProblem('pools', memory, given, pool) ??
    (pool.webhookId === null && given !== pool.uniqueName
      ? nameProblem('sources', memory, given, own)
      : undefined)
  )
}

function syncIntervalOf({ syncing }: Pick<NewPool, 'syncing'>): Pick<Pool, 'syncInterval'> {
  return syncing ? { syncInterval: syncing.interval } : {}
}

/** Zone maps, retention and the order of rows in segments are by the timestamp, so it stays. */
function timestampProblem(pool: Pool, input: PoolChange): string | undefined {
  const given = orNull(input.timestamp?.columnName)
  const present = pool.timestamp ?? RECEIVED_AT
  if (given === null || given === present) return undefined
  const type = columnTypeOf(pool, given)
  if (type === undefined) return `The timestamp "${given}" names no column of the Data Pool.`
  if (!TIME_TYPES.includes(type))
    return `The timestamp "${given}" is a column of type ${type}, which cannot be the timestamp.`
  return `The timestamp of a Data Pool cannot be changed from "${present}" to "${given}", because its stored rows and their retention are by it: give "${given}" as timeRange.timestamp of a query, or create a Data Pool with this timestamp and post the events to it.`
}
