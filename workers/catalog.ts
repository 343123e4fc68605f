/** Entry point of the catalog thread (src/catalog/lmdb/catalog-thread.ts). */

import type { CatalogThreadData } from '../src/catalog/documents/catalog-types.ts'
import { serveCatalog } from '../src/catalog/lmdb/catalog-thread.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<CatalogThreadData>()
serveCatalog(port, data)
