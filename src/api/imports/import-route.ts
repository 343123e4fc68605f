/**
 * `POST /v1/pools/{id or name}/import`: many rows in one body of any size. The answer comes at the
 * end, and says which rows were refused and how many are durable.
 *
 *   W-9  At most IMPORTS_MAX imports run, in shares of applications; IMPORTS_ADMIN_MIN slots are
 *        reserved for the scope admin. At most IMPORTS_WAITING_MAX wait for a slot, in shares too,
 *        at most WAIT_MS_MAX. At most UPLOADS_BEGINNING_MAX callers are identified. One more is
 *        503.
 */
import { rm } from 'node:fs/promises'
import type { Identity } from '../../catalog/access/token.ts'
import { beginImport } from '../../catalog/change/change-import.ts'
import type { ImportJob, Job, Pool } from '../../catalog/documents/model.ts'
import type { ImportCalls } from '../../parse/import/import-types.ts'
import { unknownTarget } from '../../parse/import/naming.ts'
import { must, type Refusal, Unavailable } from '../../util/errors.ts'
import { IMPORTS_MAX, QUERY_NICE, UPLOADS_BEGINNING_MAX } from '../../util/limits.ts'
import { importFile } from '../../util/paths.ts'
import type { RequestIds } from '../../util/request-id.ts'
import { Shares } from '../../util/shares.ts'
import { startThread } from '../../util/thread-kit.ts'
import type { ApiDeps, ApiTimes, ControlRequest, Reply } from '../api-types.ts'
import type { Connections } from '../http/connections.ts'
import { answerEarly, type Responder } from '../http/responder.ts'
import { declaredBytesOf, type RequestHead } from '../http/transport.ts'
import type { RateLimit } from '../ingest/admission.ts'
import type { Ingest } from '../ingest/ingest.ts'
import { unknownParameter } from '../parameters.ts'
import { BAD_PATH, JSON_HEADERS, problemReply, refusalOfError, refuse, unknownPool } from '../problem.ts'
import { type NoSlot, Slots } from '../slots.ts'
import { doneReply, failedReply, resumeText } from './import-report.ts'
import { type ImportRequest, readImportRequest } from './import-request.ts'
import { IMPORT_SCOPES, ImportRun, JournalEntry, type RunOptions } from './import-run.ts'
import { UploadBody } from './upload-body.ts'

/** Imports that wait for a slot. Each buffers UPLOAD_BUFFER_BYTES. */
const IMPORTS_WAITING_MAX = 32
/** Imports for callers with the scope admin only, so that slow senders never keep them out. */
export const IMPORTS_ADMIN_MIN = 1
const IMPORTS_LISTED_MAX = 100

const BUSY = refuse(503, 'busy', 'too many imports are under way', { 'retry-after': '5' })
const OWN_BUSY = refuse(503, 'busy', 'this application has its share of the imports under way', BUSY.headers)
const STOPPING = refuse(503, 'stopping', 'the server is stopping; resume the import afterwards', {
  'retry-after': '5',
})
const CANCELLED = refuse(409, 'cancelled', 'the import was cancelled')
const BUILT_IN = refuse(400, 'built_in_pool', 'the server alone writes the Data Pool of rejected events')
const FORBIDDEN = refuse(403, 'forbidden', 'the scope data_pool:write or admin is needed')

interface Head {
  /** A refusal is for a caller that may import. */
  readonly asked: ImportRequest | Refusal
  readonly ids: RequestIds
  readonly authorization: string
  readonly address: string
  readonly pool: string
  readonly declaredBytes: number
}

interface Admitted {
  readonly asked: ImportRequest
  readonly caller: Identity
  readonly pool: Pool
}

export class Imports {
  readonly #deps: ApiDeps
  readonly #ingest: Ingest
  readonly #rate: RateLimit
  readonly #connections: Connections
  readonly #times: ApiTimes
  readonly #bodies = new Set<UploadBody>()
  readonly #runs = new Set<ImportRun>()
  readonly #slots = new Slots({
    max: IMPORTS_MAX,
    adminMin: IMPORTS_ADMIN_MIN,
  })
  readonly #waiting = new Shares(IMPORTS_WAITING_MAX)
  #beginning = 0
  #begun = 0

  constructor(deps: ApiDeps, ingest: Ingest, rate: RateLimit, connections: Connections, times: ApiTimes) {
    this.#deps = deps
    this.#ingest = ingest
    this.#rate = rate
    this.#connections = connections
    this.#times = times
  }

  get length(): number {
    return this.#runs.size
  }

  /** Takes a request. `parameters`: the pool; undefined where the path is malformed. */
  take(head: RequestHead, responder: Responder, parameters: readonly string[] | undefined): void {
    const read = this.#read(head, parameters, responder.ids)
    if ('status' in read) {
      answerEarly(responder, this.#refused(read), declaredBytesOf(head))
      return
    }
    this.#beginning += 1
    const body = new UploadBody(responder, this.#times.uploadStallMs)
    this.#bodies.add(body)
    void this.#run(read, body, responder).finally(() => this.#bodies.delete(body))
  }

  /** `GET`: the imports of a pool, newest first; those of one label on request. */
  async list({ authorization, address, parameters, query }: ControlRequest): Promise<Reply> {
    const caller = await this.#deps.imports.verify(authorization, address)
    if ('status' in caller) return problemReply(caller)
    if (!mayImport(caller)) return problemReply(FORBIDDEN)
    const name = parameters[0] ?? ''
    const { pools, jobs } = this.#deps.imports.catalog.read
    const pool = pools.find(name)
    if (pool === undefined) return problemReply(unknownPool(name))
    const unknown = unknownParameter(query, ['label'])
    if (unknown !== undefined) return problemReply(refuse(400, 'bad_parameter', unknown))
    const label = new URLSearchParams(query).get('label')
    const imports = jobs
      .of(pool.id)
      .filter(isImport)
      .filter(({ input }) => label === null || input.label === label)
      .reverse()
      .slice(0, IMPORTS_LISTED_MAX)
      .map(shown)
    return { status: 200, headers: JSON_HEADERS, body: JSON.stringify({ imports }) }
  }

  tick(nowMs: number): void {
    for (const body of this.#bodies) body.tick(nowMs)
    // The journal hears of a cancel also while a slow body brings no batch.
    for (const run of this.#runs) run.onChanged()
  }

  /** Ends all imports. Their answers say how many rows are durable. */
  stop(): void {
    for (const body of this.#bodies) body.end(STOPPING)
    for (const run of this.#runs) run.fail(STOPPING)
  }

  #read(head: RequestHead, parameters: readonly string[] | undefined, ids: RequestIds): Head | Refusal {
    if (this.#connections.refusing) return STOPPING
    if (parameters === undefined) return BAD_PATH
    if (this.#beginning >= UPLOADS_BEGINNING_MAX) return BUSY
    return {
      asked: readImportRequest(head),
      ids,
      authorization: head.header('authorization'),
      address: head.address(),
      pool: parameters[0] ?? '',
      declaredBytes: declaredBytesOf(head),
    }
  }

  async #run(head: Head, body: UploadBody, responder: Responder): Promise<void> {
    let reply: Reply
    try {
      const admitted = await this.#admit(head, body).finally(() => {
        this.#beginning -= 1
      })
      reply = 'status' in admitted ? this.#refused(admitted) : await this.#import(head, body, admitted)
    } catch (error) {
      reply = this.#refused(refusalOfError(error, 'import', head.ids))
    }
    answerEarly(responder, reply, head.declaredBytes)
  }

  async #admit(
    { asked, authorization, address, pool: name }: Head,
    body: UploadBody,
  ): Promise<Admitted | Refusal> {
    const { imports, health } = this.#deps
    const caller = await imports.verify(authorization, address)
    if ('status' in caller) return caller
    if (!mayImport(caller)) return FORBIDDEN
    if ('status' in asked) return asked
    const pool = imports.catalog.read.pools.find(name)
    if (pool === undefined) return unknownPool(name)
    if (pool.builtIn !== undefined) return BUILT_IN
    const target = unknownTarget(asked.naming, imports.catalog.read.currentSchema(pool).columns)
    if (target !== undefined)
      return refuse(400, 'bad_parameter', `map: the Data Pool has no column ${JSON.stringify(target)}`)
    const { refuse: refused } = health()
    if (refused !== undefined) return refuse(503, refused.code, refused.message)
    if (body.whyEnded !== undefined) return body.whyEnded
    return { asked, caller, pool }
  }

  async #import(head: Head, body: UploadBody, { asked, caller, pool }: Admitted): Promise<Reply> {
    const leave = await this.#slot(caller, body)
    if (typeof leave === 'string') return this.#refused(body.whyEnded ?? (leave === 'own' ? OWN_BUSY : BUSY))
    const { catalog, temporaryFolder } = this.#deps.imports
    const { format, encoding, label, skipRows, errorsMax, naming, mapping } = asked
    const { ids, declaredBytes } = head
    const bytes = declaredBytes < 0 ? null : declaredBytes
    const spoolFile = importFile(temporaryFolder, ++this.#begun)
    const { columns, version: schemaVersion } = catalog.read.currentSchema(pool)
    const run = this.#makeRun({
      ...{
        ids,
        format,
        encoding,
        skipRows,
        errorsMax,
        spoolFile,
        caller,
        body,
        columns,
        naming,
        schemaVersion,
      },
      webhookId: must(catalog.read.webhookIdOf(pool), 'the webhook of a pool'),
    })
    try {
      const mapped = mapping === '' ? {} : { mapping }
      const input = { format, encoding, label, skipRows, bytes, ...mapped }
      const { applicationId } = caller
      const begun = await catalog.change(
        beginImport(pool.id, applicationId, input, catalog.process),
        applicationId,
      )
      if (begun === null) return problemReply(unknownPool(head.pool))
      if ('badRequest' in begun) return problemReply(refuse(503, 'busy', begun.badRequest, BUSY.headers))
      const entry = new JournalEntry(begun, this.#deps.imports, () => ({
        done: run.report.progress(),
        progress: bytes === null ? 0 : Math.min(0.99, body.bytes / Math.max(1, bytes)),
      }))
      run.onChanged = () => entry.changed()
      entry.onCancelled = () => run.fail(CANCELLED)
      const failure = await run.run()
      await entry.end(
        failure === undefined ? null : `${failure.message}; ${resumeText(run.report.durableRows)}`,
      )
      return failure === undefined
        ? doneReply(begun.id, run.report)
        : failedReply(begun.id, run.report, failure)
    } finally {
      this.#runs.delete(run)
      leave()
      await run.close()
      // The thread removes its file, unless it was ended.
      await rm(spoolFile, { force: true })
    }
  }

  async #slot({ applicationId, scopes }: Identity, body: UploadBody): Promise<(() => void) | NoSlot> {
    const owner = { applicationId, isAdmin: scopes.has('admin') }
    const slot = this.#slots.take(owner)
    if (typeof slot === 'function' || !this.#waiting.tryTake(applicationId)) return slot
    body.onEnded = () => this.#slots.wake()
    try {
      return await this.#slots.takeWithin(owner, this.#times.waitMsMax, () => body.whyEnded !== undefined)
    } finally {
      this.#waiting.give(applicationId)
    }
  }

  #makeRun(options: RunOptions): ImportRun {
    const thread = startThread<ImportCalls>({
      name: 'import',
      data: undefined,
      nice: QUERY_NICE,
      crashAt: '',
      lost: error => new Unavailable('import_thread', `the thread of the import failed: ${error.message}`),
    })
    const run = new ImportRun(options, { api: this.#deps, ingest: this.#ingest, rate: this.#rate, thread })
    this.#runs.add(run)
    return run
  }

  #refused(refusal: Refusal): Reply {
    this.#deps.meter.refused(refusal.code)
    return problemReply(refusal)
  }
}

function mayImport({ scopes }: Identity): boolean {
  return IMPORT_SCOPES.some(scope => scopes.has(scope))
}

function isImport(job: Job): job is ImportJob {
  return job.kind === 'IMPORT'
}

function shown({ id, status, progress, error, createdAt, modifiedAt, input, done }: ImportJob) {
  return { id, status, progress, error, createdAt, modifiedAt, ...input, ...done }
}
