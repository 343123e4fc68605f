/**
 * Resolvers of data pools. An application that may query a pool may read its columns. The field
 * `dataSource` needs `admin`, because it shows credentials and the URL.
 */

import type { IdOrName, PoolChange } from '../../catalog/catalog-types.ts'
import type { DataSource, Pool } from '../../catalog/model.ts'
import { COLUMN_TYPE, type ColumnType, PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { must } from '../../util/assert.ts'
import { type Context, requireScope } from './context.ts'
import { badRequest, notFound } from './errors.ts'
import { numberPosition, type PageArgs, pageOf } from './page.ts'

/** A column as the API shows it. */
interface ShownColumn {
  readonly name: string
  readonly columnName: string
  readonly type: ColumnType
  readonly clickHouseType: string
  readonly isNullable: boolean
}

const RECEIVED_AT_SHOWN = shown(RECEIVED_AT, 'TIMESTAMP', false)
const PAYLOAD_SHOWN = shown(PAYLOAD, 'JSON', false)

const MEASURES: readonly ColumnType[] = ['FLOAT', 'DOUBLE', 'INT8', 'INT16', 'INT32', 'INT64']

export const poolQueries = {
  dataPool: (_: unknown, { id }: { id: string }, context: Context) => {
    requireRead(context, `Data Pool ${id}`)
    return found(context.deps.catalog.pool(id))
  },
  dataPoolByName: (_: unknown, { uniqueName }: { uniqueName: string }, context: Context) => {
    requireRead(context, `Data Pool ${uniqueName}`)
    return found(context.deps.catalog.poolByName(uniqueName))
  },
  dataPools: (_: unknown, args: PageArgs, context: Context) => {
    requireRead(context, 'Data Pools')
    const pools = context.deps.catalog.pools()
    context.budget.items(pools.length)
    return pageOf(pools, args, ({ number }) => numberPosition(number))
  },
}

/** The input of modifyDataPool as the schema coerces it. */
interface ModifyInput extends PoolChange {
  readonly idOrUniqueName: IdOrName
}

export const poolMutations = {
  modifyDataPool: async (_: unknown, { input }: { input: ModifyInput }, context: Context) => {
    requireScope(context, 'manage Data Pools', 'admin')
    const { idOrUniqueName, ...change } = input
    const { catalog } = context.deps
    const pool = await catalog.modifyPool(idOrUniqueName, change, context.caller.applicationId)
    if (pool === null) throw notFound('Data Pool')
    if ('badRequest' in pool) throw badRequest(pool.badRequest)
    return { __typename: 'DataPoolResponse', dataPool: pool }
  },
  deleteDataPool: (_: unknown, { id }: { id: string }, context: Context) => {
    requireScope(context, 'manage Data Pools', 'admin')
    return context.deps.catalog.deletePool(id)
  },
  deleteDataPoolByName: (_: unknown, { uniqueName }: { uniqueName: string }, context: Context) => {
    requireScope(context, 'manage Data Pools', 'admin')
    return context.deps.catalog.deletePoolByName(uniqueName)
  },
}

export const poolFields = {
  dataSource: (pool: Pool, _: unknown, context: Context): DataSource => {
    requireScope(context, 'read Data Sources', 'admin')
    return must(context.deps.catalog.source(pool.dataSourceId), 'the source of a live pool')
  },
  status: () => 'LIVE',
  error: () => null,
  dataRetentionInDays: (pool: Pool) => pool.retentionDays,
  table: (pool: Pool) => pool.uniqueName,
  timestamp: (pool: Pool) => typed(pool, pool.timestamp ?? RECEIVED_AT),
  tenant: (pool: Pool) => (pool.tenant === null ? null : typed(pool, pool.tenant)),
  uniqueId: (pool: Pool) => (pool.uniqueIdColumn === null ? null : { columnName: pool.uniqueIdColumn }),
  columns: (pool: Pool, args: PageArgs, context: Context) =>
    pageOfColumns(columnsOf(pool).all, args, context),
  availableMeasures: (pool: Pool, args: PageArgs, context: Context) =>
    pageOfColumns(columnsOf(pool).measures, args, context),
  setupTasks: () => [],
  syncing: () => ({ status: 'DISABLED', interval: null, lastSyncedAt: null }),
  syncs: (_: Pool, args: PageArgs) => pageOf([], args, () => ''),
  dataPoolAccessPolicies: (_: Pool, args: PageArgs) => pageOf([], args, () => ''),
  tableSettings: () => ({ engine: null, partitionBy: null, primaryKey: null, orderBy: null, ttl: null }),
  partitionByColumns: () => [],
  primaryKeyColumns: keyColumns,
  orderByColumns: keyColumns,
}

interface ShownColumns {
  readonly all: readonly ShownColumn[]
  readonly measures: readonly ShownColumn[]
}

/** The shown columns of each pool. A change of a pool makes a new Pool object. */
const shownOf = new WeakMap<Pool, ShownColumns>()

/** The two default columns, then the configured ones in their order. */
function columnsOf(pool: Pool): ShownColumns {
  let columns = shownOf.get(pool)
  if (columns === undefined) {
    const own = pool.columns.map(({ name, type, nullable }) => shown(name, type, nullable))
    const all = [RECEIVED_AT_SHOWN, PAYLOAD_SHOWN, ...own]
    columns = { all, measures: all.filter(({ type }) => MEASURES.includes(type)) }
    shownOf.set(pool, columns)
  }
  return columns
}

function shown(name: string, type: ColumnType, isNullable: boolean): ShownColumn {
  const bare = COLUMN_TYPE[type].clickHouse
  return { name, columnName: name, type, clickHouseType: isNullable ? `Nullable(${bare})` : bare, isNullable }
}

/** The primary timestamp, then the unique id if there is one. */
function keyColumns(pool: Pool): ShownColumn[] {
  const names = [
    pool.timestamp ?? RECEIVED_AT,
    ...(pool.uniqueIdColumn === null ? [] : [pool.uniqueIdColumn]),
  ]
  return names.map(name => columnNamed(pool, name))
}

function typed(pool: Pool, name: string): { readonly columnName: string; readonly type: string } {
  return { columnName: name, type: columnNamed(pool, name).type }
}

function columnNamed(pool: Pool, name: string): ShownColumn {
  if (name === RECEIVED_AT) return RECEIVED_AT_SHOWN
  const column = pool.columns.find(each => each.name === name)
  const { type, nullable } = must(column, `column ${name} of pool ${pool.id}`)
  return shown(name, type, nullable)
}

function pageOfColumns(columns: readonly ShownColumn[], args: PageArgs, { budget }: Context) {
  budget.items(columns.length)
  return pageOf(columns, args, (_, index) => numberPosition(index))
}

function requireRead(context: Context, what: string): void {
  requireScope(context, `read ${what}`, 'admin', 'data_pool:read', 'data_pool:query')
}

function found(pool: Pool | undefined): Pool {
  if (pool === undefined) throw notFound('Data Pool')
  return pool
}
