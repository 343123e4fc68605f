/** Thread of the log: writes and syncs groups (src/commit/log-service.ts). */
import { parentPort, workerData } from 'node:worker_threads'
import { LogService } from '../src/commit/log-service.ts'
import type { ThreadData, ToLog } from '../src/commit/messages.ts'
import { must } from '../src/util/assert.ts'
import { armCrash } from '../src/util/crash.ts'

const port = must(parentPort, 'the port of a worker thread')
const data = workerData as ThreadData
armCrash(data.crashAt)
const service = new LogService(data, message => port.postMessage(message))
port.on('message', (message: ToLog) => service.handle(message))
