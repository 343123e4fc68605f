/** Entry point of the segment thread. */
import { parentPort, workerData } from 'node:worker_threads'
import type { SegmentWorkerData } from '../src/segment/protocol.ts'
import { serveSegment } from '../src/segment/serve.ts'
import { must } from '../src/util/assert.ts'
import { nameThread } from '../src/util/thread-name.ts'

nameThread('segment')
await serveSegment(must(parentPort, 'the port'), workerData as SegmentWorkerData)
