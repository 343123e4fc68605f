/**
 * Imports that were under way when the server ended. Their bodies are gone with their connections,
 * so they end, and say where to go on.
 *
 *   W-10  They end in one change of the catalog before the server listens, so that no client finds
 *         one in progress. It writes at most JOBS_UNFINISHED_MAX jobs.
 */
import type { Catalog } from '../catalog/catalog.ts'
import { endImport, endLeftImports, whyLeft } from '../catalog/change/change-import.ts'
import { assert } from '../util/assert.ts'
import { Unavailable } from '../util/errors.ts'
import { warn } from '../util/say.ts'
import type { JobRunner } from './run-jobs.ts'

interface ImportDeps {
  readonly catalog: Pick<Catalog, 'change'>
}

/** Ends them at the start. Where the catalog takes no changes now, the runner ends them later. */
export async function endImports({ catalog }: ImportDeps): Promise<void> {
  try {
    await catalog.change(endLeftImports)
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error
    warn(`imports that the last stop ended are still IN_PROGRESS, the next try follows: ${error.message}`)
  }
}

export function importRunner({ catalog }: ImportDeps): JobRunner {
  return async job => {
    assert(job.kind === 'IMPORT', 'the job is an import')
    await catalog.change(endImport(job.id, job.done, whyLeft(job)))
  }
}
