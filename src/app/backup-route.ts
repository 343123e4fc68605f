/**
 * `POST /v1/admin/backup`: a backup of the running server.
 *
 * The answer is NDJSON: lines of progress, then either `{"done":true,"sequence":…}` or
 * `{"error":…,"code":…}`. Only the last line counts: an answer that ends without one of the two
 * means that there is no backup. The backup is cancelled when its client disconnects.
 */
import type { ControlRequest, ControlRoute, Reply, StreamAnswer, StreamReply } from '../api/api-types.ts'
import { jsonOf } from '../api/json-object.ts'
import { unknownParameter } from '../api/parameters.ts'
import { problemReply, refuse } from '../api/problem.ts'
import type { Tokens } from '../catalog/access/token.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Pools } from '../database/pools.ts'
import type { Commit } from '../log/commit-log.ts'
import { Backups } from '../tools/backup/backup-client.ts'
import type { Refusal } from '../util/errors.ts'
import { ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'

/** The parts that a backup is taken of. */
interface BackedUp {
  readonly catalog: Catalog
  readonly pools: Pools
  readonly commit: Commit
}

/** Wires the backups of a running server. */
export function wireBackups({ catalog, pools, commit }: BackedUp): Backups {
  return new Backups({
    flushAll: () => pools.flusher.flushAll(),
    syncLog: () => commit.syncAll(),
    pin: () => {
      const pinned = commit.pin()
      const releasePools = pools.manifest.pinAll()
      const state = {
        // Not the pools of the manifest: it may have a deleted pool, and lacks pools that never got
        // a row.
        pools: catalog.pools().map(({ number, id }) => {
          const { flushedSequence = 0, segments = [] } = pools.manifest.pool(number) ?? {}
          return { pool: number, poolId: id, flushedSequence, segments }
        }),
        documents: catalog.read.documents(),
        deletedPools: catalog.tombstones().map(({ number }) => number),
        log: pinned.span,
      }
      return { state, releaseLog: pinned.release, releasePools }
    },
  })
}

/** The data folder of the server, and options of tests. */
interface AdminOptions {
  readonly dataDir: string
  readonly crashAt: string
  readonly backupBytesPerSecond: number
}

/** The route. Scope `admin`. */
export function backupRoute(backups: Backups, verify: Tokens['verify'], options: AdminOptions): ControlRoute {
  const handle = async (request: ControlRequest): Promise<Reply | StreamAnswer> => {
    const { address, authorization, body, query } = request
    const caller = await verify(authorization, address)
    if ('status' in caller) return problemReply(caller)
    const unknown = unknownParameter(query, [])
    if (unknown !== undefined) return problemReply(refuse(400, 'bad_parameter', unknown))
    if (!caller.scopes.has('admin'))
      return problemReply(
        refuse(403, 'forbidden', `application ${caller.applicationId} lacks the scope admin`),
      )
    const folder = folderOf(body)
    if (typeof folder !== 'string') return problemReply(folder)
    const { dataDir, crashAt, backupBytesPerSecond: bytesPerSecond } = options
    const begin = async (): Promise<Reply | StreamReply> => {
      const backup = await backups.begin({ dataDir, crashAt, folder, bytesPerSecond })
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

function folderOf(body: Uint8Array): string | Refusal {
  const asked = jsonOf(body)
  if (asked === undefined)
    return refuse(
      400,
      'bad_request',
      'the body must be one JSON object, such as {"folder": "/backup/monday"}',
    )
  const folder = (asked as { readonly folder?: unknown } | null)?.folder
  if (typeof folder !== 'string' || folder === '' || folder.includes('\0'))
    return refuse(400, 'bad_request', '"folder" must be the absolute path of a new folder')
  return folder
}
