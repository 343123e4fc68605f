/**
 * The Arrow route: authorise, plan, flush the pool's memtable, pin a manifest, stream.
 *
 *   W-8  The rows are those of one manifest. It stays pinned until the stream ends or its client
 *        goes away. A stream whose application is deleted breaks off before its next batch.
 *
 * A stream takes a query's place only while DuckDB copies a group of segments, never while its
 * client reads.
 */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { CatalogService } from '../catalog/catalog-types.ts'
import type { Pool } from '../catalog/model.ts'
import type { Identity } from '../catalog/token.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import { accessOf } from '../query/access.ts'
import type { ExportClient } from '../query/arrow/export-client.ts'
import {
  arrowStream,
  type CopiedFile,
  type OpenBatches,
  recordBatches,
} from '../query/arrow/export-stream.ts'
import { countLiveRows } from '../query/live-rows.ts'
import { planFor } from '../query/policy.ts'
import type { BadQuery, CopyTarget, QueryEngine } from '../query/query-types.ts'
import { type PinDeps, parseTexts, pinSegments } from '../query/question.ts'
import {
  planSelection,
  readColumns,
  type Selection,
  type WrittenSelection,
  writeSelection,
} from '../query/selection.ts'
import { assert } from '../util/assert.ts'
import { wallMs } from '../util/clock.ts'
import type { Refusal } from '../util/errors.ts'
import { EXPORT_COPY_MS_MAX, ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'
import { exportFile, isLeftCopy } from '../util/paths.ts'
import type { ControlRequest, ControlRoute, Reply, StreamAnswer } from './api-types.ts'
import { problemReply, refuse } from './problem.ts'

/** The other stages as the route sees them. */
interface ArrowDeps extends PinDeps {
  readonly engine: QueryEngine
  /** data/tmp, absolute. The engine may write there. */
  readonly temporaryFolder: string
  verify(authorization: string, address: string): Promise<Identity | Refusal>
  readonly catalog: Pick<CatalogService, 'poolByName' | 'pool' | 'read'>
  readonly pools: { schemaOf(pool: Pool): PoolSchema }
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

const ARROW_TYPE = { 'content-type': 'application/vnd.apache.arrow.stream', 'cache-control': 'no-store' }

async function answer(request: ControlRequest, deps: ArrowDeps): Promise<Reply | StreamAnswer> {
  const caller = await deps.verify(request.authorization, request.address)
  if ('status' in caller) return problemReply(caller)
  if (!caller.scopes.has('data_pool:query'))
    return problemReply(refuse(403, 'forbidden', 'the scope data_pool:query is needed'))
  const name = request.parameters[0] ?? ''
  const pool = deps.catalog.pool(name) ?? deps.catalog.poolByName(name)
  if (pool === undefined) return problemReply(refuse(404, 'unknown_pool', 'no Data Pool has this id or name'))
  const access = accessOf(
    pool,
    deps.catalog.read.policyOf(pool.id, caller.applicationId),
    caller.policyValues,
  )
  if ('forbidden' in access) return problemReply(refuse(403, 'forbidden', access.forbidden))
  const selection = selectionOf(request.query)
  if ('badRequest' in selection) return badParameter(selection)
  const schema = deps.pools.schemaOf(pool)
  const planned = await planFor(
    [{ schema, policy: access.policy }],
    [],
    texts => parseTexts(texts, deps.engine, caller.applicationId),
    wallMs(),
    (view, context) => planSelection(view, selection, context),
  )
  const written = 'badRequest' in planned ? planned : writeSelection(planned)
  if ('badRequest' in written) return badParameter(written)
  const chunks = chunksOf(schema, written, caller, deps)
  return {
    owner: { applicationId: caller.applicationId, isAdmin: false },
    begin: async () => ({ status: 200, headers: ARROW_TYPE, chunks }),
  }
}

function badParameter({ badRequest }: BadQuery): Reply {
  return problemReply(refuse(400, 'bad_parameter', badRequest))
}

/** The request's parameters. `columns` may come several times, each with a list for readColumns. */
function selectionOf(query: string): Selection | BadQuery {
  const columns: string[] = []
  const texts = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(query)) {
    if (name === 'columns') {
      const names = readColumns(value)
      if ('badRequest' in names) return names
      columns.push(...names)
    } else if (name !== 'filters' && name !== 'start' && name !== 'stop')
      return { badRequest: `${name}: there is no such parameter; there are columns, filters, start and stop` }
    else if (texts.has(name)) return { badRequest: `${name}: it is given more than once` }
    else texts.set(name, value)
  }
  return { ...(columns.length > 0 ? { columns } : {}), ...Object.fromEntries(texts) }
}

async function* chunksOf(
  schema: PoolSchema,
  planned: WrittenSelection,
  caller: Identity,
  deps: ArrowDeps,
): AsyncGenerator<Uint8Array, void, void> {
  const { exportThread } = deps
  const asker = { fairKey: caller.applicationId, verify: () => caller.verifyAgain() }
  const copy = (group: readonly QuerySegment[]) => copyRows(schema, planned, group, asker, deps)
  const open: OpenBatches = copied => exportThread.open(copied)
  const { segments, release } = await pinSegments(schema, planned, deps)
  try {
    const batches = recordBatches(segments, copy, open)
    for await (const chunk of arrowStream(() => exportThread.schema(planned.columns), batches)) {
      caller.verifyAgain()
      yield chunk
    }
  } finally {
    release()
  }
}

/** Whose copy it is, as QueryEngine.run takes it. */
interface Asker {
  readonly fairKey: string
  readonly verify?: () => void
}

let filesMade = 0

/** Copies the selected live rows of `segments` to a new temporary file, as CopySegments asks. */
export async function copyRows(
  schema: PoolSchema,
  planned: WrittenSelection,
  segments: readonly QuerySegment[],
  asker: Asker,
  deps: Pick<ArrowDeps, 'engine' | 'temporaryFolder'>,
): Promise<CopiedFile> {
  const file = exportFile(deps.temporaryFolder, ++filesMade)
  const types = planned.columns.map(({ type }) => type)
  const target: CopyTarget = { format: 'arrow', file, types, msMax: EXPORT_COPY_MS_MAX }
  try {
    return { file, rows: await copyTo(target, schema, planned, segments, asker, deps.engine) }
  } catch (error) {
    await rm(file, { force: true })
    throw error
  }
}

/**
 * Copies the selected live rows of `segments` and returns their number. After a failure the caller
 * removes the file.
 */
export async function copyTo(
  target: CopyTarget,
  schema: PoolSchema,
  planned: WrittenSelection,
  segments: readonly QuerySegment[],
  { fairKey, verify }: Asker,
  engine: QueryEngine,
): Promise<number> {
  const { statement } = planned
  const done = await engine.run({ schema, segments, statement, rowsMax: 1, copyTo: target }, fairKey, verify)
  const rows = Number(done.rows[0]?.[0])
  const live = countLiveRows(segments)
  const seesAll = planned.selectsAll && planned.visible?.where === undefined
  assert(seesAll ? rows === live : rows <= live, `${live} live rows, and ${rows} were copied`)
  return rows
}

/** Removes copies that an earlier process left when it was killed. */
export async function sweepCopies(temporaryFolder: string): Promise<void> {
  for (const name of await readdir(temporaryFolder))
    if (isLeftCopy(name)) await rm(join(temporaryFolder, name), { force: true })
}
