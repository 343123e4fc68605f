/** Entry point of the export thread (src/query/arrow/export-thread.ts). */
import { serveExports } from '../src/query/arrow/export-thread.ts'
import { beginThread } from '../src/util/thread-server.ts'

serveExports(beginThread().port)
