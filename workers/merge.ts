/** Entry point of the merge thread: joins it with the stages that read keys and write segments. */
import { parentPort, workerData } from 'node:worker_threads'
import type { MergeThreadData } from '../src/compact/messages.ts'
import { serveMerges } from '../src/compact/serve.ts'
import { readSegmentKeys } from '../src/keys/segment-keys.ts'
import { readDeleteFile, writeDeleteFile } from '../src/segment/deletes.ts'
import { publishInPieces } from '../src/segment/publish.ts'
import { must } from '../src/util/assert.ts'
import { nameThread } from '../src/util/thread-name.ts'

nameThread('merge')
const calls = { readSegmentKeys, readDeleteFile, writeDeleteFile, publishInPieces }
serveMerges(must(parentPort, 'the port of the merge thread'), workerData as MergeThreadData, calls)
