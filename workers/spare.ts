/** Entry point of the spare thread (src/log/spare-thread.ts). */
import type { LogThreadData } from '../src/log/log-thread.ts'
import { serveSpares } from '../src/log/spare-thread.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<LogThreadData>()
serveSpares(port, data)
