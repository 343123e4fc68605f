/**
 * A plan says how the bytes of one pool become columns. It never changes: a pool whose columns change gets a
 * plan with the next version, and a log record names the version it was cut with.
 */
import { assert } from '../util/assert.ts'

/** Types a webhook column may have. */
export const COLUMN_TYPES = [
  'BOOLEAN',
  'STRING',
  'FLOAT',
  'DOUBLE',
  'INT8',
  'INT16',
  'INT32',
  'INT64',
  'DATE',
  'TIMESTAMP',
  'JSON',
] as const

export type ColumnType = (typeof COLUMN_TYPES)[number]

/** One unpacked column. */
export interface PlanColumn {
  readonly name: string
  readonly type: ColumnType
  /** Dotted path from the event's root; a top-level key equal to the whole text wins by being present. */
  readonly jsonProperty: string
  /** A missing or null value rejects the event. True for key columns whatever the user gave. */
  readonly required: boolean
}

/** In `PlanKey.columns`: the request's received-at, in µs, stands in for a timestamp column. */
export const KEY_RECEIVED_AT = -1

/** Which columns identify a record, and which one ranks its versions. */
export interface PlanKey {
  /** Indexes into `Plan.columns`, or KEY_RECEIVED_AT; in key order: primary timestamp, then unique id. */
  readonly columns: readonly number[]
  /** Index of the version column, -1 for none: then the later sequence wins. */
  readonly version: number
}

export interface Plan {
  /** The pool's number in the log and the index; never reused. */
  readonly pool: number
  /** From 1. */
  readonly version: number
  readonly columns: readonly PlanColumn[]
  /** Index of the primary timestamp in `columns`, -1: `_service_received_at`. */
  readonly timestamp: number
  /** Index of the tenant column, -1: none. */
  readonly tenant: number
  /** null: every event is its own record. */
  readonly key: PlanKey | null
}

export const RECEIVED_AT = '_service_received_at'
export const PAYLOAD = '_service_payload'
/** Stored in every segment, never shown. */
export const SEQUENCE = '_service_sequence'

/** What a body means: POST, or DELETE. */
export type CutKind = 'post' | 'delete'

/**
 * The plan that reads the body of a DELETE: only the key's columns, all required; the received-at column of
 * a pool without a timestamp is read from the property that queries print it under.
 */
export function deletePlan(plan: Plan): Plan {
  const key = plan.key
  assert(key !== null, 'only pools with a unique id take deletes')
  const columns = key.columns.map(index => keyColumn(plan, index))
  return {
    pool: plan.pool,
    version: plan.version,
    columns,
    timestamp: -1,
    tenant: -1,
    key: { columns: columns.map((_, index) => index), version: -1 },
  }
}

function keyColumn(plan: Plan, index: number): PlanColumn {
  if (index === KEY_RECEIVED_AT)
    return { name: RECEIVED_AT, type: 'TIMESTAMP', jsonProperty: RECEIVED_AT, required: true }
  const column = plan.columns[index]
  assert(column !== undefined, 'a key names a column of its plan')
  return { ...column, required: true }
}
