/**
 * The pool of rejected events: one in every data folder, made by the first start. It has no
 * webhook: the server itself writes its rows (api/ingest/rejected-events.ts), through the log and
 * the flush of every pool. docs/rejected-events.md says what stands in the columns.
 */
import { assert, must } from '../util/errors.ts'
import { unusedId } from './change/change.ts'
import { internalSource, newPool } from './change/change-pool.ts'
import { checkPool } from './change/rules.ts'
import type { Change } from './documents/catalog-types.ts'
import { keys, type Memory } from './documents/memory.ts'
import type { Pool } from './documents/model.ts'

/** The unique name, or the beginning of it where somebody else's pool or source has this one. */
export const REJECTED_EVENTS = 'weir_rejected_events'
const RETENTION_DAYS = 7
const DESCRIPTION = 'Events and requests that were refused, with the reason'

const column = (name: string, type: string, nullable = false) => ({
  name,
  type,
  jsonProperty: name,
  nullable,
})

/** Its columns, in the order of the schema. The id begins with the time, so keys rise. */
const COLUMNS = [
  column('id', 'STRING'),
  column('source_id', 'STRING'),
  column('data_pool_id', 'STRING'),
  column('code', 'STRING'),
  column('column_name', 'STRING', true),
  column('message', 'STRING'),
  column('content_type', 'STRING', true),
  column('element_index', 'INT32', true),
  column('text', 'STRING', true),
  column('is_truncated', 'BOOLEAN'),
  column('context', 'JSON', true),
]

/** The pool of rejected events; undefined before the first start has made it. */
export function rejectedPool({ pools }: Pick<Memory, 'pools'>): Pool | undefined {
  return pools.all().find(({ builtIn }) => builtIn === 'REJECTED_EVENTS')
}

/**
 * Makes the pool; undefined where the folder has it. A reader needs a policy or the scope `admin`
 * (query/plan/policy.ts), because it holds texts of all pools.
 */
export function makeRejectedPool(memory: Memory, by: string, nowMs: number): Change | undefined {
  if (rejectedPool(memory) !== undefined) return undefined
  const checked = checkPool({ columns: COLUMNS, tableSettings: { orderBy: ['id'] } })
  assert(!('badRequest' in checked), 'the pool of rejected events has columns that every pool may have')
  const source = internalSource(memory, by, nowMs)
  const uniqueName = freeName(memory)
  const input = { uniqueName, description: DESCRIPTION, accessControlEnabled: true }
  const { pool, puts } = newPool(input, checked, memory.meta(), by, nowMs, {
    id: unusedId('DPO', nowMs, memory.pools),
    dataSourceId: source.id,
    table: '',
    webhookId: null,
  })
  const made: Pool = { ...pool, retentionDays: RETENTION_DAYS, builtIn: 'REJECTED_EVENTS' }
  const isNew = memory.sources.get(source.id) === undefined
  return {
    puts: [
      ...(isNew ? [[keys.source(source.id), source] as const] : []),
      ...puts,
      [keys.pool(pool.id), made],
    ],
    removes: [],
  }
}

/** The name; where somebody else's pool or source has it, with the first free number. */
function freeName({ pools, sources }: Memory): string {
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? REJECTED_EVENTS : `${REJECTED_EVENTS}_${number}`
    if (!pools.has(name) && !sources.has(name)) return name
  }
}

/** The pool's name where another pool or source has the usual one; undefined elsewhere. */
export function otherRejectedName({ pools, sources }: Memory): string | undefined {
  const { id, uniqueName } = must(rejectedPool({ pools }), 'the pool of rejected events')
  const holder = pools.find(REJECTED_EVENTS)
  const isTaken = sources.has(REJECTED_EVENTS) || (holder !== undefined && holder.id !== id)
  return isTaken ? uniqueName : undefined
}
