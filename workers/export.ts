/** Entry point of the export thread (src/query/arrow/copied-batches.ts). */
import { serveExports } from '../src/query/arrow/copied-batches.ts'
import { beginThread } from '../src/util/thread-server.ts'

serveExports(beginThread().port)
