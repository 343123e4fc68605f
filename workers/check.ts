/** Entry point of the check thread (src/store/check/check-file.ts). */
import { serveChecks } from '../src/store/check/check-file.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port } = beginThread<undefined>()
serveChecks(port)
