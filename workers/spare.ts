/** Thread of the spares: makes empty log files and removes old ones (src/log/spare-thread.ts). */
import { parentPort, workerData } from 'node:worker_threads'
import type { ThreadData, ToSpare } from '../src/log/log-messages.ts'
import { SpareService } from '../src/log/spare-thread.ts'
import { must } from '../src/util/assert.ts'
import { armCrash } from '../src/util/fault-injection.ts'
import { nameThread } from '../src/util/this-thread.ts'

nameThread('spare')
const port = must(parentPort, 'the port of a worker thread')
const data = workerData as ThreadData
armCrash(data.crashAt)
const service = new SpareService(data, message => port.postMessage(message))
port.on('message', (message: ToSpare) => service.handle(message))
