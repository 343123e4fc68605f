/**
 * Administration of a running server, joined: `POST /v1/admin/backup`.
 *
 * The answer is NDJSON: lines of progress, and last either `{"done":true,"sequence":…}` or `{"error":…,"code":…}`. Only the
 * last line counts; an answer that ends without one means that there is no backup. A client that goes away gives the
 * backup up: nobody would hear how it ended.
 */
import { problemReply, refuse } from './api/problem.ts'
import type { ControlRequest, ControlRoute, Reply, StreamReply } from './api/protocol.ts'
import { Backups } from './backup/client.ts'
import type { Catalog } from './catalog/catalog.ts'
import type { Tokens } from './catalog/token.ts'
import type { Commit } from './commit/protocol.ts'
import type { Refusal } from './errors.ts'
import type { Pools } from './pools.ts'

/** What a backup is taken of. */
interface BackedUp {
  readonly catalog: Catalog
  readonly pools: Pools
  readonly commit: Commit
}

/** Backups of running stages. */
export function joinBackups({ catalog, pools, commit }: BackedUp): Backups {
  return new Backups({
    sealAll: () => pools.sealAll(),
    syncLog: () => commit.syncAll(),
    pin: () => {
      const held = commit.hold()
      const releasePools = pools.pinAll()
      const state = {
        // Not the manifest's: it may have a pool that was just deleted, and has none that never got a row.
        pools: catalog.pools().map(({ number, id }) => {
          const { sealedSequence = 0, segments = [] } = pools.sealed(number) ?? {}
          return { pool: number, poolId: id, sealedSequence, segments }
        }),
        documents: catalog.documents(),
        deletedPools: catalog.tombstones().map(({ number }) => number),
        log: held.span,
      }
      return { state, releaseLog: held.release, releasePools }
    },
  })
}

/** Where the server is, and how it may be hurt by tests. */
interface AdminOptions {
  readonly dataDir: string
  readonly crashAt: string
  readonly backupBytesPerSecond: number
}

/** The route. Scope `admin`. */
export function backupRoute(backups: Backups, verify: Tokens['verify'], options: AdminOptions): ControlRoute {
  const handle = async ({ authorization, body }: ControlRequest): Promise<Reply | StreamReply> => {
    const caller = await verify(authorization)
    if ('status' in caller) return problemReply(caller)
    if (!caller.scopes.has('admin'))
      return problemReply(
        refuse(403, 'forbidden', `application ${caller.applicationId} lacks the scope admin`),
      )
    const folder = folderOf(body)
    if (typeof folder !== 'string') return problemReply(folder)
    const { dataDir, crashAt, backupBytesPerSecond: bytesPerSecond } = options
    const backup = await backups.begin({ dataDir, crashAt, folder, bytesPerSecond })
    if ('status' in backup) return problemReply(backup)
    return {
      status: 200,
      headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' },
      chunks: backup.lines(),
    }
  }
  return { method: 'POST', path: '/v1/admin/backup', handle }
}

function folderOf(body: Uint8Array): string | Refusal {
  let asked: unknown
  try {
    asked = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    return refuse(
      400,
      'bad_request',
      'the body must be one JSON object, such as {"folder": "/backup/monday"}',
    )
  }
  const folder = (asked as { readonly folder?: unknown } | null)?.folder
  if (typeof folder !== 'string' || folder === '' || folder.includes('\0'))
    return refuse(400, 'bad_request', '"folder" must be the absolute path of a new folder')
  return folder
}
