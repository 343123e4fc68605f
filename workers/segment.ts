/** Entry point of the segment thread (src/store/segment/segment-thread.ts). */
import type { SegmentThreadData } from '../src/store/flush/segment-writer.ts'
import { serveSegment } from '../src/store/segment/segment-thread.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<SegmentThreadData>()
await serveSegment(port, data)
