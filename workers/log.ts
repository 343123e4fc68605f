/** Thread of the log: writes and syncs groups (src/commit/log-service.ts). */
import { parentPort, workerData } from 'node:worker_threads'
import { LogService } from '../src/commit/log-service.ts'
import type { FromLog, ThreadData, ToLog } from '../src/commit/messages.ts'
import { must } from '../src/util/assert.ts'
import { armCrash } from '../src/util/crash.ts'
import { nameThread } from '../src/util/thread-name.ts'

nameThread('log')
const port = must(parentPort, 'the port of a worker thread')
const data = workerData as ThreadData
armCrash(data.crashAt)
const service = new LogService(data, message => port.postMessage(message, buffersOf(message)))
port.on('message', (message: ToLog) => service.handle(message))

function buffersOf(message: FromLog): ArrayBuffer[] {
  return message.kind === 'replay' ? [message.chunk.table.buffer as ArrayBuffer] : []
}
