/** Thread of one backup: joins it with the stages whose files it writes. */
import { parentPort, workerData } from 'node:worker_threads'
import type { BackupThreadData } from '../src/backup/protocol.ts'
import { serveBackup } from '../src/backup/thread.ts'
import { writeCatalog } from '../src/catalog/copy.ts'
import { extractLog } from '../src/commit/extract.ts'
import { must } from '../src/util/assert.ts'
import { disk } from '../src/util/disk.ts'
import { nameThread } from '../src/util/thread-name.ts'

nameThread('backup')
const port = must(parentPort, 'the parent port')
serveBackup(port, workerData as BackupThreadData, { disk, extractLog, writeCatalog })
