/** The journal of imports: jobs of the catalog, which outlive the server. */
import type { ImportJournal, JournaledImport } from '../api/import-journal.ts'
import type { CatalogService } from '../catalog/catalog-types.ts'
import { beginImport, endImport, progressImport } from '../catalog/change-import.ts'
import type { ImportJob, Job } from '../catalog/model.ts'

export function importJournal(catalog: Pick<CatalogService, 'change' | 'read'>): ImportJournal {
  return {
    begin: async (poolId, by, input) =>
      (await catalog.change(beginImport(poolId, by, input))) ?? { badRequest: 'the Data Pool was deleted' },
    progress: async (id, done, progress) => {
      const job = await catalog.change(progressImport(id, done, progress))
      return { isCancelled: 'isCancelled' in job && job.isCancelled }
    },
    end: async (id, done, error) => {
      await catalog.change(endImport(id, done, error))
    },
    ofPool: poolId => catalog.read.jobs.of(poolId).filter(isImport).map(shown).reverse(),
  }
}

function isImport(job: Job): job is ImportJob {
  return job.kind === 'IMPORT'
}

function shown({
  id,
  status,
  progress,
  error,
  createdAt,
  modifiedAt,
  input,
  done,
}: ImportJob): JournaledImport {
  return { id, status, progress, error, createdAt, modifiedAt, ...input, ...done }
}
