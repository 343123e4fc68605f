/**
 * Imports that were under way when the server ended. Their bodies are gone with their connections,
 * so they end, and say where to go on.
 *
 *   W-10  They end in one change of the catalog before the server listens, so that no client finds
 *         one in progress. It writes at most JOBS_UNFINISHED_MAX jobs.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Catalog } from '../catalog/catalog.ts'
import { endImport, endLeftImports, importsUnderWay, whyLeft } from '../catalog/change/change-import.ts'
import type { ImportJob } from '../catalog/documents/model.ts'
import { assert, Unavailable } from '../util/errors.ts'
import { warn } from '../util/say.ts'
import type { JobRunner } from './run-jobs.ts'

/** A look for imports of nodes that are no more. It costs nothing where there are no imports. */
const LOOK_MS = 1_000

interface ImportDeps {
  readonly catalog: Pick<Catalog, 'change' | 'process'>
}

/**
 * Ends them at the start, but in a cluster, where others may run. Where the catalog takes no
 * changes now, the runner ends them later.
 */
export async function endImports({ catalog }: ImportDeps): Promise<void> {
  if (catalog.process !== undefined) return
  try {
    await catalog.change(endLeftImports())
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error
    warn(`imports that the last stop ended are still IN_PROGRESS, the next try follows: ${error.message}`)
  }
}

/**
 * Ends imports of nodes of a cluster that are no more, until the signal. One node does it for all.
 * @param catalog refuses changes when another node does it
 * @param processes those of the live nodes. Rejects with Unavailable
 */
export async function endImportsOfNodes(
  catalog: Pick<Catalog, 'change' | 'read'>,
  processes: () => Promise<ReadonlySet<string>>,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    // Before the nodes are read: an import that begins later may be one of a later node.
    const found = new Set(importsUnderWay(catalog.read).map(({ id }) => id))
    try {
      if (found.size > 0) {
        const live = await processes()
        const isLeft = (job: ImportJob) => found.has(job.id) && !live.has(job.process ?? '')
        await catalog.change(endLeftImports(isLeft))
      }
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error // otherwise the next look tries again
    }
    await sleep(LOOK_MS, undefined, { signal: ended, ref: false }).catch(() => {}) // it ends
  }
}

export function importRunner({ catalog }: ImportDeps): JobRunner {
  return async job => {
    assert(job.kind === 'IMPORT', 'the job is an import')
    await catalog.change(endImport(job.id, job.done, whyLeft(job)))
  }
}
