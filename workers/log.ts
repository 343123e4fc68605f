/** Entry point of the log thread (src/log/log-thread.ts). */
import { type LogThreadData, serveLog } from '../src/log/log-thread.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<LogThreadData>()
serveLog(port, data)
