/** Thread of the log: writes and syncs groups (src/log/log-thread.ts). */
import { parentPort, workerData } from 'node:worker_threads'
import type { FromLog, ThreadData, ToLog } from '../src/log/log-messages.ts'
import { LogService } from '../src/log/log-thread.ts'
import { must } from '../src/util/assert.ts'
import { armCrash } from '../src/util/fault-injection.ts'
import { nameThread } from '../src/util/this-thread.ts'

nameThread('log')
const port = must(parentPort, 'the port of a worker thread')
const data = workerData as ThreadData
armCrash(data.crashAt)
const service = new LogService(data, message => port.postMessage(message, buffersOf(message)))
port.on('message', (message: ToLog) => service.handle(message))

function buffersOf(message: FromLog): ArrayBuffer[] {
  return message.kind === 'replay' ? [message.chunk.table.buffer as ArrayBuffer] : []
}
