/**
 * The Arrow route: authorise, plan, flush the pool's memtable, pin a manifest, stream.
 *
 *   W-8  The rows are those of one manifest. It stays pinned until the stream ends or its client
 *        goes away. A stream whose application is deleted breaks off before its next batch.
 *
 * A stream takes a query's place only while DuckDB copies a group of segments, never while its
 * client reads.
 */

import type { Identity } from '../catalog/access/token.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Pool } from '../catalog/documents/model.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { ExportClient } from '../query/arrow/export-client.ts'
import {
  arrowStream,
  type CopySegments,
  type OpenBatches,
  recordBatches,
} from '../query/arrow/export-stream.ts'
import { type PinDeps, parseTexts, pinSegments } from '../query/ask.ts'
import { type Asker, copyRows } from '../query/copy-rows.ts'
import type { BadQuery } from '../query/expression/values.ts'
import { accessOf, planFor } from '../query/plan/policy.ts'
import type { QueryEngine } from '../query/plan/query-task.ts'
import {
  planSelection,
  readColumns,
  type Selection,
  type WrittenSelection,
  writeSelection,
} from '../query/selection.ts'
import { wallMs } from '../util/clock.ts'
import type { Refusal } from '../util/errors.ts'
import { ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'
import type { ControlRequest, ControlRoute, Reply, StreamAnswer } from './api-types.ts'
import { noSuchParameter } from './parameters.ts'
import { problemReply, refuse, unknownPool } from './problem.ts'

/** The other stages as the route sees them. */
export interface ArrowDeps extends PinDeps {
  readonly engine: QueryEngine
  /** data/tmp, absolute. The engine may write there. */
  readonly temporaryFolder: string
  verify(authorization: string, address: string): Promise<Identity | Refusal>
  readonly catalog: Pick<Catalog, 'read'>
  readonly exportThread: Pick<ExportClient, 'open' | 'schema'>
}

/** `GET /v1/pools/{id or name}/arrow`. */
export function arrowRoute(deps: ArrowDeps): ControlRoute {
  return {
    methods: ['GET'],
    path: '/v1/pools/:pool/arrow',
    bodyBytesMax: ROUTE_BODY_BYTES_MAX,
    handle: request => answer(request, deps),
  }
}

/** An export needs it until its end. */
export const EXPORT_SCOPE = 'data_pool:query'
const ARROW_TYPE = { 'content-type': 'application/vnd.apache.arrow.stream', 'cache-control': 'no-store' }

async function answer(request: ControlRequest, deps: ArrowDeps): Promise<Reply | StreamAnswer> {
  const selected = await selectRows(request, deps, [])
  if ('status' in selected) return selected
  const chunks = chunksOf(selected, deps)
  return streamAnswer(selected, ARROW_TYPE, chunks)
}

/** The rows that a request asks for, once its caller may read them. */
export interface SelectedRows {
  readonly pool: Pool
  readonly schema: PoolSchema
  readonly planned: WrittenSelection
  readonly caller: Identity
  /** Aborted when the client disconnects. */
  readonly gone: AbortSignal
}

/**
 * Authorises a request and plans its selection. Resolves with a reply where it is refused.
 * @param own parameters that are no part of the selection
 */
export async function selectRows(
  request: ControlRequest,
  deps: ArrowDeps,
  own: readonly string[],
): Promise<SelectedRows | Reply> {
  const caller = await deps.verify(request.authorization, request.address)
  if ('status' in caller) return problemReply(caller)
  if (!caller.scopes.has(EXPORT_SCOPE))
    return problemReply(refuse(403, 'forbidden', `the scope ${EXPORT_SCOPE} is needed`))
  const name = request.parameters[0] ?? ''
  const pool = deps.catalog.read.pools.find(name)
  if (pool === undefined) return problemReply(unknownPool(name))
  const access = accessOf(
    pool,
    deps.catalog.read.policyOf(pool.id, caller.applicationId),
    caller.policyValues,
  )
  if ('forbidden' in access) return problemReply(refuse(403, 'forbidden', access.forbidden))
  const selection = selectionOf(request.query, own)
  if ('badRequest' in selection) return badParameter(selection)
  const schema = deps.catalog.read.currentSchema(pool)
  const planned = await planFor(
    [{ schema, policy: access.policy }],
    [],
    texts => parseTexts(texts, deps.engine, caller.applicationId),
    wallMs(),
    (view, context) => planSelection(view, selection, context),
  )
  const written = 'badRequest' in planned ? planned : writeSelection(planned)
  return 'badRequest' in written
    ? badParameter(written)
    : { pool, schema, planned: written, caller, gone: request.gone }
}

/** The answer that streams `chunks`. */
export function streamAnswer(
  { caller }: SelectedRows,
  headers: Readonly<Record<string, string>>,
  chunks: AsyncIterable<Uint8Array>,
): StreamAnswer {
  return {
    owner: { applicationId: caller.applicationId, isAdmin: false },
    begin: async () => ({ status: 200, headers, chunks }),
  }
}

export function badParameter({ badRequest }: BadQuery): Reply {
  return problemReply(refuse(400, 'bad_parameter', badRequest))
}

const SELECTION: readonly string[] = ['columns', 'filters', 'start', 'stop']

/** The request's parameters. `columns` may come several times, each with a list for readColumns. */
function selectionOf(query: string, own: readonly string[]): Selection | BadQuery {
  const columns: string[] = []
  const texts = new Map<string, string>()
  const names = [...SELECTION, ...own]
  for (const [name, value] of new URLSearchParams(query)) {
    if (own.includes(name)) continue
    if (name === 'columns') {
      const given = readColumns(value)
      if ('badRequest' in given) return given
      columns.push(...given)
    } else if (!names.includes(name)) return { badRequest: noSuchParameter(name, names) }
    else if (texts.has(name)) return { badRequest: `${name}: it is given more than once` }
    else texts.set(name, value)
  }
  return { ...(columns.length > 0 ? { columns } : {}), ...Object.fromEntries(texts) }
}

async function* chunksOf(
  { schema, planned, caller, gone }: SelectedRows,
  deps: ArrowDeps,
): AsyncGenerator<Uint8Array, void, void> {
  const { exportThread } = deps
  const copy: CopySegments = (group, ended) =>
    copyRows(schema, planned, group, { ...askerOf(caller), gone: ended }, deps)
  const open: OpenBatches = copied => exportThread.open(copied)
  const { segments, release } = await pinSegments(schema, planned, deps)
  try {
    const batches = recordBatches(segments, copy, open, gone)
    for await (const chunk of arrowStream(() => exportThread.schema(planned.columns), batches)) {
      caller.verifyAgain(EXPORT_SCOPE)
      yield chunk
    }
  } finally {
    release()
  }
}

/** The caller of an export. Its copies take turns with the queries of its application. */
export function askerOf(caller: Identity): Asker {
  return { fairKey: caller.applicationId, verify: () => caller.verifyAgain(EXPORT_SCOPE) }
}
