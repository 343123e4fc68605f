/** Entry point of the index thread: joins the key index with the readers of delete files and of the log. */
import { dirname } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { heldSequences } from '../src/commit/held.ts'
import { serveIndex } from '../src/keys/thread.ts'
import type { IndexThreadData } from '../src/keys/thread-protocol.ts'
import { pathsOf } from '../src/paths.ts'
import { readDeleteFile } from '../src/segment/deletes.ts'
import { must } from '../src/util/assert.ts'
import { armCrash } from '../src/util/crash.ts'
import { disk } from '../src/util/disk.ts'
import { nameThread } from '../src/util/thread-name.ts'

nameThread('index')
const data = workerData as IndexThreadData
armCrash(data.crashAt)
const port = must(parentPort, 'the port of the index thread')
const { log } = pathsOf(dirname(data.folder))
serveIndex({
  port,
  data,
  disk,
  parseDeletes: readDeleteFile,
  heldSequences: pools => heldSequences(disk, log, pools),
})
