/** Entry point of the merge thread (src/store/compaction/merge.ts). */
import type { MergeThreadData } from '../src/store/compaction/compaction-types.ts'
import { serveMerges } from '../src/store/compaction/merge.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<MergeThreadData>()
serveMerges(port, data)
