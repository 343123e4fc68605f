/**
 * The routes of `/v1/admin/`, which commands ask of a running server. A caller needs the scope of
 * the route.
 *
 * `applications`, `keys`, `jobs` and `sources`: body and answer are JSON, as tools/manage.ts,
 * tools/manage-jobs.ts and tools/manage-sources.ts have them.
 *
 * `backup`: the answer is NDJSON: lines of progress, then either `{"done":true,"sequence":…}` or
 * `{"error":…,"code":…}`. Only the last line counts: an answer that ends without one of the two
 * means that there is no backup. The backup is cancelled when its client disconnects.
 */
import type { ControlRequest, ControlRoute, Reply, StreamAnswer, StreamReply } from '../api/api-types.ts'
import { jsonOf } from '../api/json-object.ts'
import { unknownParameter } from '../api/parameters.ts'
import { JSON_HEADERS, problemReply, refuse } from '../api/problem.ts'
import type { Identity, Tokens } from '../catalog/access/token.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { BadRequest } from '../catalog/documents/catalog-types.ts'
import { keepingAdmin } from '../catalog/open-catalog.ts'
import type { Config } from '../database/config.ts'
import type { Backups } from '../tools/backup/backup-client.ts'
import type { Destination } from '../tools/backup/backup-thread.ts'
import { APPLICATIONS, KEYS, type Managed, manage } from '../tools/manage.ts'
import { JOBS } from '../tools/manage-jobs.ts'
import { manageSources } from '../tools/manage-sources.ts'
import type { Refusal } from '../util/errors.ts'
import { ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'
import { sayAudit } from '../util/say.ts'

/** What the routes need of the running server. */
export interface AdminDeps {
  readonly catalog: Catalog
  readonly verify: Tokens['verify']
  /** As in Store. */
  readonly backups: Pick<Backups, 'begin'> | Refusal
  readonly adminFile: string | undefined
  readonly config: Config
  /** The public URL of a webhook. */
  webhookUrl(webhookId: string): string
}

export function adminRoutes(deps: AdminDeps): ControlRoute[] {
  const sources = manageSources(webhookId => deps.webhookUrl(webhookId))
  return [
    backupRoute(deps),
    route(deps, APPLICATIONS),
    route(deps, KEYS),
    route(deps, JOBS),
    route(deps, sources),
  ]
}

/** The caller. A refusal needs no scope: the token is bad, or the query has parameters. */
async function callerOf(
  { verify }: AdminDeps,
  { address, authorization, query }: ControlRequest,
): Promise<Identity | Refusal> {
  const caller = await verify(authorization, address)
  if ('status' in caller) return caller
  const unknown = unknownParameter(query, [])
  return unknown === undefined ? caller : refuse(400, 'bad_parameter', unknown)
}

function lacksScope({ applicationId }: Identity, scope: string): Reply {
  return problemReply(refuse(403, 'forbidden', `application ${applicationId} lacks the scope ${scope}`))
}

const NOT_JSON: BadRequest = { badRequest: 'The body must be one JSON object.' }

function route<Request extends object, Answer extends object>(
  deps: AdminDeps,
  managed: Managed<Request, Answer>,
): ControlRoute {
  const { path, scope, bodyBytesMax = ROUTE_BODY_BYTES_MAX } = managed
  const handle = async (asked: ControlRequest): Promise<Reply> => {
    const caller = await callerOf(deps, asked)
    if ('status' in caller) return problemReply(caller)
    const { applicationId } = caller
    const given = jsonOf(asked.body)
    const request = given === undefined ? NOT_JSON : managed.read(given)
    if (!caller.scopes.has(scope)) {
      const attempt = 'badRequest' in request ? undefined : managed.attemptOf(request)
      if (attempt !== undefined) sayAudit({ ...attempt, applicationId, outcome: 'FORBIDDEN' })
      return lacksScope(caller, scope)
    }
    const run = async () =>
      'badRequest' in request
        ? request
        : await manage(managed, deps.catalog, request, applicationId, sayAudit)
    const answered = await keepingAdmin(deps.catalog, deps.adminFile, run)
    if ('badRequest' in answered) return problemReply(refuse(400, 'bad_request', answered.badRequest))
    return { status: 200, headers: JSON_HEADERS, body: JSON.stringify(answered) }
  }
  return { methods: ['POST'], path, bodyBytesMax, handle }
}

function backupRoute(deps: AdminDeps): ControlRoute {
  const handle = async (asked: ControlRequest): Promise<Reply | StreamAnswer> => {
    const caller = await callerOf(deps, asked)
    if ('status' in caller) return problemReply(caller)
    if (!caller.scopes.has('admin')) return lacksScope(caller, 'admin')
    const { backups } = deps
    if ('status' in backups) return problemReply(backups)
    const to = destinationOf(asked.body)
    if ('status' in to) return problemReply(to)
    const { dataDir, crashAt, backupBytesPerSecond: bytesPerSecond } = deps.config
    const begin = async (): Promise<Reply | StreamReply> => {
      const backup = await backups.begin({ dataDir, crashAt, to, bytesPerSecond })
      if ('status' in backup) return problemReply(backup)
      return {
        status: 200,
        headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' },
        chunks: backup.lines(),
      }
    }
    return { owner: { applicationId: caller.applicationId, isAdmin: true }, begin }
  }
  return { methods: ['POST'], path: '/v1/admin/backup', bodyBytesMax: ROUTE_BODY_BYTES_MAX, handle }
}

function destinationOf(body: Uint8Array): Destination | Refusal {
  const asked = jsonOf(body)
  if (asked === undefined)
    return refuse(
      400,
      'bad_request',
      'the body must be one JSON object, such as {"folder": "/backup/monday"}',
    )
  const { folder, bucket, keep } = (asked ?? {}) as Readonly<Record<string, unknown>>
  if (bucket !== undefined) {
    if (folder !== undefined || typeof bucket !== 'string')
      return refuse(400, 'bad_request', '"bucket" must be as s3://bucket/prefix, without a "folder"')
    if (keep === undefined) return { bucket }
    if (!Number.isSafeInteger(keep) || (keep as number) < 1)
      return refuse(400, 'bad_request', '"keep" must be a number of backups from 1')
    return { bucket, keep: keep as number }
  }
  if (keep !== undefined) return refuse(400, 'bad_request', '"keep" goes with a "bucket"')
  if (typeof folder !== 'string' || folder === '' || folder.includes('\0'))
    return refuse(400, 'bad_request', '"folder" must be the absolute path of a new folder')
  return { folder }
}
