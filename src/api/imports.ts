/**
 * `POST /v1/pools/{id or name}/import`: many rows in one body of any size. The answer comes at the
 * end, and says which rows were refused and how many are durable.
 *
 *   W-9  At most IMPORTS_MAX imports run, and at most UPLOADS_BEGINNING_MAX callers are identified.
 *        One more is 503.
 */
import type { Identity } from '../catalog/token.ts'
import type { ImportCalls } from '../parse/import/import-types.ts'
import { wallMs } from '../util/clock.ts'
import { type Refusal, Unavailable } from '../util/errors.ts'
import { newId } from '../util/ids.ts'
import { IMPORTS_MAX, QUERY_NICE, UPLOADS_BEGINNING_MAX } from '../util/limits.ts'
import { startThread } from '../util/thread-kit.ts'
import type { RateLimit } from './admission.ts'
import type { ApiDeps, ImportPool, Reply } from './api-types.ts'
import type { Connections } from './connections.ts'
import { declaredBytesOf, type RequestHead } from './http/transport.ts'
import { doneReply, failedReply } from './import-report.ts'
import { type ImportRequest, readImportRequest } from './import-request.ts'
import { ImportRun } from './import-run.ts'
import type { Ingest } from './ingest.ts'
import { problemReply, refusalOfError, refuse } from './problem.ts'
import { answerEarly, type Responder } from './responder.ts'
import { UploadBody } from './upload-body.ts'

const BUSY = refuse(503, 'busy', 'too many imports are under way', { 'retry-after': '5' })
const STOPPING = refuse(503, 'stopping', 'the server is stopping; resume the import afterwards', {
  'retry-after': '5',
})
const FORBIDDEN = refuse(403, 'forbidden', 'the scope data_pool:write or admin is needed')
const UNKNOWN = refuse(404, 'unknown_pool', 'no Data Pool has this id or name')
const BAD_PATH = refuse(404, 'not_found', 'the path is not well-formed')

/** The parts of a head that are needed after the caller is identified. */
interface Head extends ImportRequest {
  readonly authorization: string
  readonly address: string
  readonly pool: string
  readonly declaredBytes: number
}

export class Imports {
  readonly #deps: ApiDeps
  readonly #ingest: Ingest
  readonly #rate: RateLimit
  readonly #connections: Connections
  readonly #stallMs: number
  readonly #bodies = new Set<UploadBody>()
  readonly #runs = new Set<ImportRun>()
  #beginning = 0

  /** @param stallMs see UploadBody */
  constructor(deps: ApiDeps, ingest: Ingest, rate: RateLimit, connections: Connections, stallMs: number) {
    this.#deps = deps
    this.#ingest = ingest
    this.#rate = rate
    this.#connections = connections
    this.#stallMs = stallMs
  }

  /** Imports that run. */
  get length(): number {
    return this.#runs.size
  }

  /** Takes a request. `parameters`: the pool; undefined where the path is malformed. */
  take(head: RequestHead, responder: Responder, parameters: readonly string[] | undefined): void {
    const read = this.#read(head, parameters)
    if ('status' in read) {
      this.#refuse(responder, read, declaredBytesOf(head))
      return
    }
    this.#beginning += 1
    const body = new UploadBody(responder, this.#stallMs)
    this.#bodies.add(body)
    void this.#run(read, body, responder).finally(() => this.#bodies.delete(body))
  }

  tick(nowMs: number): void {
    for (const body of this.#bodies) body.tick(nowMs)
  }

  /** Ends all imports. Their answers say how many rows are durable. */
  stop(): void {
    for (const body of this.#bodies) body.end(STOPPING)
    for (const run of this.#runs) run.fail(STOPPING)
  }

  #read(head: RequestHead, parameters: readonly string[] | undefined): Head | Refusal {
    if (this.#connections.stopping) return STOPPING
    if (parameters === undefined) return BAD_PATH
    if (this.#beginning >= UPLOADS_BEGINNING_MAX) return BUSY
    const asked = readImportRequest(head)
    if ('status' in asked) return asked
    return {
      ...asked,
      authorization: head.header('authorization'),
      address: head.address(),
      pool: parameters[0] ?? '',
      declaredBytes: declaredBytesOf(head),
    }
  }

  async #run(head: Head, body: UploadBody, responder: Responder): Promise<void> {
    let isBeginning = true
    const begun = () => {
      if (isBeginning) this.#beginning -= 1
      isBeginning = false
    }
    try {
      const admitted = await this.#admit(head, body)
      begun()
      if ('status' in admitted) this.#refuse(responder, admitted, head.declaredBytes)
      else answerEarly(responder, await this.#import(head, body, admitted), head.declaredBytes)
    } catch (error) {
      begun()
      this.#refuse(responder, refusalOfError(error, 'import'), head.declaredBytes)
    }
  }

  /** The caller and the pool, or why there is no import. */
  async #admit(
    { authorization, address, pool: name }: Head,
    body: UploadBody,
  ): Promise<{ readonly caller: Identity; readonly pool: ImportPool } | Refusal> {
    const { imports, health } = this.#deps
    const caller = await imports.verify(authorization, address)
    if ('status' in caller) return caller
    if (!caller.scopes.has('data_pool:write') && !caller.scopes.has('admin')) return FORBIDDEN
    const pool = imports.pool(name)
    if (pool === undefined) return UNKNOWN
    const { refuse: refused } = health()
    if (refused !== undefined) return refuse(503, refused.code, refused.message, { 'retry-after': '1' })
    if (body.whyEnded !== undefined) return body.whyEnded
    return this.#runs.size >= IMPORTS_MAX ? BUSY : { caller, pool }
  }

  async #import(
    { format, encoding, skipRows, errorsMax }: Head,
    body: UploadBody,
    { caller, pool }: { readonly caller: Identity; readonly pool: ImportPool },
  ): Promise<Reply> {
    const id = newId('DPJ', wallMs())
    const thread = startThread<ImportCalls>({
      name: 'import',
      data: undefined,
      nice: QUERY_NICE,
      lost: error => new Unavailable('import_thread', `the thread of the import failed: ${error.message}`),
    })
    const { webhookId } = pool
    const { columns } = pool.schema
    const run = new ImportRun(
      { format, encoding, skipRows, errorsMax, columns, spoolFile: '', webhookId, caller, body },
      { api: this.#deps, ingest: this.#ingest, rate: this.#rate, thread, changed: () => {} },
    )
    this.#runs.add(run)
    try {
      const failure = await run.run()
      return failure === undefined ? doneReply(id, run.report) : failedReply(id, run.report, failure)
    } finally {
      this.#runs.delete(run)
    }
  }

  #refuse(responder: Responder, refusal: Refusal, declaredBytes: number): void {
    this.#deps.meter.refused(refusal.code)
    answerEarly(responder, problemReply(refusal), declaredBytes)
  }
}
