/** Entry point of the segment thread. */
import { parentPort, workerData } from 'node:worker_threads'
import type { SegmentWorkerData } from '../src/store/flush/flush-types.ts'
import { serveSegment } from '../src/store/segment/flush-thread.ts'
import { must } from '../src/util/assert.ts'
import { nameThread } from '../src/util/this-thread.ts'

nameThread('segment')
await serveSegment(must(parentPort, 'the port'), workerData as SegmentWorkerData)
