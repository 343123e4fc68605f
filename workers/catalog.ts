/** Thread entry point of the catalog: see src/catalog/worker.ts. */
import { parentPort, workerData } from 'node:worker_threads'
import type { CatalogWorkerData } from '../src/catalog/protocol.ts'
import { serveCatalog } from '../src/catalog/worker.ts'
import { must } from '../src/util/assert.ts'
import { nameThread } from '../src/util/thread-name.ts'

nameThread('catalog')
serveCatalog(must(parentPort, 'the parent port'), workerData as CatalogWorkerData)
