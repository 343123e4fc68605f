/**
 * Entry point of the index thread: joins the key index with the readers of delete files and log.
 */
import { dirname } from 'node:path'
import { serveIndex } from '../src/index/index-thread.ts'
import type { IndexThreadData } from '../src/index/index-types.ts'
import { loggedSequences } from '../src/log/read-log.ts'
import { disk } from '../src/util/disk.ts'
import { pathsOf } from '../src/util/paths.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<IndexThreadData>()
const { log } = pathsOf(dirname(data.folder))
serveIndex({
  port,
  data,
  disk,
  loggedSequences: pools => loggedSequences(disk, log, pools),
})
