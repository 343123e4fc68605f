/** For tests of rejected rows: a parse task of some requests, and its rows as JSON. */
import { RECORD_HEADER_BYTES } from '../../src/format/log-record.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import { FLAG, REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import type { ParseResult, ParseTask } from '../../src/parse/parse-task.ts'
import type { RejectedGrant } from '../../src/parse/rejected-rows.ts'
import { createTaskRunner } from '../../src/parse/run-task.ts'
import type { Received } from '../../src/parse/sender/received.ts'
import { loadUnzstd } from '../../src/parse/sender/unzstd.ts'
import { MiB } from '../../src/util/limits.ts'
import { schemaOf } from './reading.ts'

export const FIRST_US = 1_700_000_000_000_000

export interface Sent {
  readonly body: string | Uint8Array
  readonly flags?: number
  readonly received?: Received
  readonly context?: string
}

/** A row of the pool of rejected events. */
export interface Row {
  readonly id: string
  readonly source_id: string
  readonly data_pool_id: string
  readonly code: string
  readonly column_name: string | null
  readonly message: string
  readonly content_type: string | null
  readonly element_index: number | null
  readonly text: string | null
  readonly is_truncated: boolean
  readonly context?: Record<string, string>
}

/** A required INT64 `n`, which fails in many ways. */
export const SCHEMA = schemaOf([{ name: 'n', jsonProperty: 'n', type: 'INT64', required: true }])

export const GRANT: RejectedGrant = {
  properties: '"source_id":"DSO1","data_pool_id":"DPO1"',
  pool: 7,
  atUs: FIRST_US,
  bytesMax: 4 * MiB,
}

interface Options {
  readonly kernel?: 'native' | 'js'
  readonly schema?: PoolSchema
  readonly grant?: RejectedGrant | undefined
  readonly kind?: 'post' | 'delete'
  readonly clock?: SharedArrayBuffer
  /** So many requests come first, to another pool that keeps nothing. */
  readonly others?: number
}

const unzstd = await loadUnzstd()
const runners = { native: createTaskRunner('native'), js: createTaskRunner('js') }

/** The result of a task of one group with these requests, which all keep what is refused. */
export function run(requests: readonly Sent[], options: Options = {}): ParseResult {
  const { kernel = 'native' } = options
  return runners[kernel](taskOf(requests, options), unzstd)
}

function taskOf(requests: readonly Sent[], { schema = SCHEMA, kind = 'post', ...more }: Options): ParseTask {
  const grant = 'grant' in more ? more.grant : GRANT
  const bodies = requests.map(({ body }) => Buffer.from(body as string))
  const contexts = requests.map(({ context = '' }) => Buffer.from(context))
  const room = requests.map(
    (_, index) => Math.ceil((bodies[index]!.length + contexts[index]!.length) / 8) * 8,
  )
  const slab = new SharedArrayBuffer(room.reduce((sum, bytes) => sum + RECORD_HEADER_BYTES + bytes, 64))
  const table = new Float64Array(requests.length * REQUEST_WORDS)
  const received = new Map<number, Received>()
  let end = 0
  for (const [index, request] of requests.entries()) {
    const at = index * REQUEST_WORDS
    const start = end + RECORD_HEADER_BYTES
    const contextBytes = contexts[index]!.length
    new Uint8Array(slab).set(Buffer.concat([contexts[index]!, bodies[index]!]), start)
    table[at + REQUEST.offset] = start + contextBytes
    table[at + REQUEST.bytes] = bodies[index]!.length
    table[at + REQUEST.contextBytes] = contextBytes
    table[at + REQUEST.flags] =
      (request.flags ?? FLAG.keeps) | (request.received === undefined ? 0 : FLAG.received)
    table[at + REQUEST.receivedAtUs] = more.clock === undefined ? FIRST_US + index : FIRST_US
    table[at + REQUEST.bits] = -1
    if (request.received !== undefined) received.set(index, request.received)
    end = start + room[index]!
  }
  const text = Buffer.from(JSON.stringify(schema))
  const shared = new SharedArrayBuffer(text.length)
  new Uint8Array(shared).set(text)
  const { clock, others = 0 } = more
  const all = { kind, pool: 7, version: versionOf(schema), schema: shared }
  const group = {
    ...{ ...all, from: others, to: requests.length },
    ...(grant && { rejected: grant }),
    ...(clock && { clock }),
  }
  const before = { ...all, pool: 8, from: 0, to: others }
  return { slab, table, received, groups: others === 0 ? [group] : [group, before] }
}

/** Runners keep their kernels by version. */
const versions: PoolSchema[] = []

function versionOf(schema: PoolSchema): number {
  const known = versions.indexOf(schema)
  return known < 0 ? versions.push(schema) : known + 1
}

/** The rows of a result, and how many were left out. */
export function rowsOf({ rejected }: ParseResult): { readonly rows: Row[]; readonly leftOut: number } {
  const group = rejected.get(0)
  const rows = (group?.pieces ?? []).flatMap(
    ({ json }) => JSON.parse(`[${Buffer.from(json).toString()}]`) as Row[],
  )
  return { rows, leftOut: group?.leftOut ?? 0 }
}

/** The rows that a task of these requests makes. */
export function rejectedRows(requests: readonly Sent[], options: Options = {}): Row[] {
  return rowsOf(run(requests, options)).rows
}
