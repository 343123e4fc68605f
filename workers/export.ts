/** The export thread: binds messages to src/export/service.ts. */
import { parentPort } from 'node:worker_threads'
import type { ToExport } from '../src/export/protocol.ts'
import { ExportService } from '../src/export/service.ts'
import { must } from '../src/util/assert.ts'
import { nameThread } from '../src/util/thread-name.ts'

nameThread('export')
const port = must(parentPort, 'the port to the main thread')
const service = new ExportService((message, move) => port.postMessage(message, move))
port.on('message', (message: ToExport) => {
  if (message.kind === 'stop') port.close()
  else void service.handle(message)
})
