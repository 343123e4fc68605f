/**
 * The runner of imports that were under way when the server ended. Their bodies are gone with their
 * connections, so they end here, and say where to go on.
 */
import type { CatalogService } from '../catalog/catalog-types.ts'
import { endLeftImport } from '../catalog/change-import.ts'
import type { JobRunner } from './jobs.ts'

export function importRunner({ catalog }: { readonly catalog: Pick<CatalogService, 'change'> }): JobRunner {
  return async job => {
    await catalog.change(endLeftImport(job.id))
  }
}
