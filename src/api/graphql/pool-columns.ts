/** The columns of a pool as the API shows them. */

import type { Pool, PoolColumn } from '../../catalog/documents/model.ts'
import { clickHouseTypeOf } from '../../format/clickhouse-type.ts'
import { NUMBER_TYPES, PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import { getOrMake } from '../../util/get-or-make.ts'
import type { Context } from './context.ts'
import type { ShownColumn } from './parents.ts'

interface ShownColumns {
  readonly all: readonly ShownColumn[]
  readonly measures: readonly ShownColumn[]
}

const RECEIVED_AT_SHOWN = shown({ name: RECEIVED_AT, type: 'TIMESTAMP', nullable: false })
const PAYLOAD_SHOWN = shown({ name: PAYLOAD, type: 'JSON', nullable: false })

/** The shown columns of each pool. A change of a pool makes a new Pool object. */
const shownOf = new WeakMap<Pool, ShownColumns>()

/** A webhook source's pool shows the two default columns before the configured ones. */
export function columnsOf(pool: Pool): ShownColumns {
  return getOrMake(shownOf, pool, ({ columns, webhookId }) => {
    const own = columns.map(shown)
    const all = webhookId === null ? [RECEIVED_AT_SHOWN, PAYLOAD_SHOWN, ...own] : own
    return { all, measures: all.filter(({ storedType }) => NUMBER_TYPES.includes(storedType)) }
  })
}

/** The columns that the caller's policy allows; undefined for all. Clients query each they see. */
export function visibleColumns(
  pool: Pool,
  { caller, deps }: Pick<Context, 'caller' | 'deps'>,
): ReadonlySet<string> | undefined {
  if (!pool.accessControlEnabled || caller.scopes.has('admin')) return undefined
  const columns = deps.catalog.read.policyOf(pool.id, caller.applicationId)?.columns ?? []
  return columns.includes('*') ? undefined : new Set(columns)
}

/** The column of this name, a default one too; undefined where the pool has none. */
export function findShownColumn(pool: Pool, name: string): ShownColumn | undefined {
  if (name === RECEIVED_AT) return RECEIVED_AT_SHOWN
  if (name === PAYLOAD) return PAYLOAD_SHOWN
  const column = pool.columns.find(each => each.name === name)
  return column && shown(column)
}

export function columnNamed(pool: Pool, name: string): ShownColumn {
  return must(findShownColumn(pool, name), `column ${name} of pool ${pool.id}`)
}

export function isWholeKey(pool: Pool, name: string): boolean {
  const key = pool.uniqueIdColumn === null && pool.key === undefined ? [] : keyColumnsOf(pool)
  return key.length === 1 && key[0]?.name === name
}

/** The columns of the pool's key, in its order. Without a key each event is a record of its own. */
export function keyColumnsOf(pool: Pool): readonly ShownColumn[] {
  const byDefault = [pool.timestamp ?? RECEIVED_AT, pool.uniqueIdColumn]
  const names = pool.key === undefined ? byDefault : (pool.key?.columns ?? [])
  return names.flatMap(name => (name === null ? [] : [columnNamed(pool, name)]))
}

function shown({ name, type, nullable, clickHouseType }: Omit<PoolColumn, 'jsonProperty'>): ShownColumn {
  return {
    name,
    columnName: name,
    type: clickHouseType === undefined ? type : 'CLICKHOUSE',
    clickHouseType: clickHouseType ?? clickHouseTypeOf(type, nullable),
    isNullable: nullable,
    storedType: type,
  }
}
