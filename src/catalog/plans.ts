/** Versions of a pool's columns become plans, which kernels and kept records are cut by. */
import { KEY_RECEIVED_AT, type Plan, type PlanKey } from '../batch/plan.ts'
import { assert } from '../util/assert.ts'
import type { PlanVersion, Pool } from './model.ts'

/** The current version of a pool. */
export function versionOf(pool: Pool): PlanVersion {
  const { number, planVersion, columns, timestamp, uniqueIdColumn, tenant } = pool
  return { pool: number, version: planVersion, columns, timestamp, uniqueIdColumn, tenant }
}

/** The plan of one version. Primary timestamp and unique id are required whatever `nullable` says. */
export function planOf(from: PlanVersion): Plan {
  const index = (name: string | null): number => {
    if (name === null) return -1
    const found = from.columns.findIndex(column => column.name === name)
    assert(found >= 0, `column ${name} of plan ${from.pool}/${from.version} exists`)
    return found
  }
  const timestamp = index(from.timestamp)
  const uniqueId = index(from.uniqueIdColumn)
  return {
    pool: from.pool,
    version: from.version,
    columns: from.columns.map(({ name, type, jsonProperty, nullable }, i) => ({
      name,
      type,
      jsonProperty,
      required: !nullable || i === timestamp || i === uniqueId,
    })),
    timestamp,
    tenant: index(from.tenant),
    key: keyOf(timestamp, uniqueId),
  }
}

function keyOf(timestamp: number, uniqueId: number): PlanKey | null {
  if (uniqueId === -1) return null
  return { columns: [timestamp === -1 ? KEY_RECEIVED_AT : timestamp, uniqueId], version: -1 }
}

/** A plan as JSON in UTF-8, in memory that threads share. */
export function sharePlan(plan: Plan): SharedArrayBuffer {
  const json = Buffer.from(JSON.stringify(plan))
  const shared = new SharedArrayBuffer(json.byteLength)
  new Uint8Array(shared).set(json)
  return shared
}
