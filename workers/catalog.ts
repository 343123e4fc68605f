/** Entry point of the catalog thread (src/catalog/catalog-thread.ts). */
import { serveCatalog } from '../src/catalog/catalog-thread.ts'
import type { CatalogThreadData } from '../src/catalog/catalog-types.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<CatalogThreadData>()
serveCatalog(port, data)
