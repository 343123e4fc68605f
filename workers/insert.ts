/** Entry point of the insert thread (src/cluster/insert-thread.ts). */
import { serveInserts } from '../src/cluster/insert-thread.ts'
import { beginThread } from '../src/util/thread-server.ts'

serveInserts(beginThread().port)
