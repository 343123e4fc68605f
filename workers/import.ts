/** Entry point of the thread of an import (src/parse/import/import-thread.ts). */
import { serveImport } from '../src/parse/import/import-thread.ts'
import { beginThread } from '../src/util/thread-server.ts'

serveImport(beginThread().port)
