/**
 * The Arrow route, joined: authorise, plan, seal the pool's tail, pin a manifest, stream.
 *
 *   W-8  The rows are those of one manifest, which stays pinned until the stream ended or was given up.
 *
 * A stream holds a query slot only while DuckDB copies a group of segments, never while its client reads.
 */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { problemReply, refuse } from './api/problem.ts'
import type { ControlRequest, ControlRoute, Reply, StreamReply } from './api/protocol.ts'
import type { Plan } from './batch/plan.ts'
import type { Pool } from './catalog/model.ts'
import type { Identity } from './catalog/token.ts'
import type { Refusal } from './errors.ts'
import type { ExportClient } from './export/client.ts'
import type { CopiedFile, OpenBatches } from './export/protocol.ts'
import { arrowStream, recordBatches } from './export/stream.ts'
import { EXPORT_COPY_MS_MAX } from './limits.ts'
import { exportFile, isLeftExportFile } from './paths.ts'
import { countMarks } from './query/marks.ts'
import type { BadQuery, CopyTarget, Planned, QueryEngine, QuerySegment } from './query/protocol.ts'
import { type PlannedSelection, readColumns, type Selection } from './query/select.ts'
import { assert } from './util/assert.ts'

/** What reading a pool's rows needs of the stages. */
interface ExportServices {
  sealNow(pool: number): Promise<void>
  snapshot(pool: number): Promise<{ readonly segments: readonly QuerySegment[]; release(): void }>
  prune(plan: Plan, planned: Planned, segments: readonly QuerySegment[]): readonly QuerySegment[]
  readonly engine: QueryEngine
  readonly open: OpenBatches
  /** data/tmp, absolute; the engine may write there. */
  readonly temporaryFolder: string
}

/** What the route needs of the stages. */
interface ArrowServices extends Omit<ExportServices, 'open'> {
  verify(authorization: string): Promise<Identity | Refusal>
  readonly catalog: { poolByName(name: string): Pool | undefined; pool(id: string): Pool | undefined }
  readonly pools: { planOf(pool: Pool): Plan }
  readonly exportThread: Pick<ExportClient, 'open' | 'schema'>
  planSelection(plan: Plan, selection: Selection): PlannedSelection | BadQuery
}

/** `GET /v1/pools/{id or name}/arrow`. */
export function arrowRoute(services: ArrowServices): ControlRoute {
  return {
    method: 'GET',
    path: '/v1/pools/:pool/arrow',
    handle: request => answer(request, services),
  }
}

const ARROW_TYPE = { 'content-type': 'application/vnd.apache.arrow.stream', 'cache-control': 'no-store' }

async function answer(request: ControlRequest, services: ArrowServices): Promise<Reply | StreamReply> {
  const caller = await services.verify(request.authorization)
  if ('status' in caller) return problemReply(caller)
  if (!caller.scopes.has('data_pool:query'))
    return problemReply(refuse(403, 'forbidden', 'the scope data_pool:query is needed'))
  const name = request.parameters[0] ?? ''
  const pool = services.catalog.pool(name) ?? services.catalog.poolByName(name)
  if (pool === undefined) return problemReply(refuse(404, 'unknown_pool', 'no Data Pool has this id or name'))
  if (pool.accessControlEnabled)
    return problemReply(
      refuse(403, 'forbidden', 'the Data Pool has access control and no policy lets this application in'),
    )
  const selection = selectionOf(request.query)
  if ('badRequest' in selection) return badParameter(selection)
  const plan = services.pools.planOf(pool)
  const planned = services.planSelection(plan, selection)
  if ('badRequest' in planned) return badParameter(planned)
  const open: OpenBatches = copied => services.exportThread.open(copied)
  const schema = () => services.exportThread.schema(planned.columns)
  const chunks = chunksOf(plan, planned, caller.applicationId, { ...services, open, schema })
  return { status: 200, headers: ARROW_TYPE, chunks }
}

function badParameter({ badRequest }: BadQuery): Reply {
  return problemReply(refuse(400, 'bad_parameter', badRequest))
}

/** The request's parameters; `columns` may come several times, each with names between commas: see readColumns. */
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
  plan: Plan,
  planned: PlannedSelection,
  fairKey: string,
  services: ExportServices & { schema(): Promise<Uint8Array> },
): AsyncGenerator<Uint8Array, void, void> {
  await services.sealNow(plan.pool)
  const snapshot = await services.snapshot(plan.pool)
  try {
    const segments = services.prune(plan, planned, snapshot.segments)
    const copy = (group: readonly QuerySegment[]) => copyRows(plan, planned, group, fairKey, services)
    yield* arrowStream(services.schema, recordBatches(segments, copy, services.open))
  } finally {
    snapshot.release()
  }
}

let filesMade = 0

/** The selected live rows of `segments` in a new temporary file. See CopySegments. */
export async function copyRows(
  plan: Plan,
  planned: PlannedSelection,
  segments: readonly QuerySegment[],
  fairKey: string,
  services: Pick<ExportServices, 'engine' | 'temporaryFolder'>,
): Promise<CopiedFile> {
  const file = exportFile(services.temporaryFolder, ++filesMade)
  const types = planned.columns.map(({ type }) => type)
  const target: CopyTarget = { format: 'arrow', file, types, msMax: EXPORT_COPY_MS_MAX }
  try {
    return { file, rows: await copyTo(target, plan, planned, segments, fairKey, services.engine) }
  } catch (error) {
    await rm(file, { force: true })
    throw error
  }
}

/** The selected live rows of `segments` to a file that the engine may write. Returns how many. What is there after a failure stays. */
export async function copyTo(
  target: CopyTarget,
  plan: Plan,
  planned: PlannedSelection,
  segments: readonly QuerySegment[],
  fairKey: string,
  engine: QueryEngine,
): Promise<number> {
  const { statement } = planned
  const done = await engine.run({ plan, segments, statement, rowsMax: 1, copyTo: target }, fairKey)
  const rows = Number(done.rows[0]?.[0])
  const live = segments.reduce((sum, { meta, marks }) => sum + meta.rows - countMarks(marks), 0)
  assert(planned.selectsAll ? rows === live : rows <= live, `${live} live rows, and ${rows} were copied`)
  return rows
}

/** Removes copies that an earlier process left when it was killed. */
export async function sweepCopies(temporaryFolder: string): Promise<void> {
  for (const name of await readdir(temporaryFolder))
    if (isLeftExportFile(name)) await rm(join(temporaryFolder, name), { force: true })
}
