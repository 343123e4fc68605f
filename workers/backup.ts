/** Entry point of the thread of one backup: joins it with the stages whose files it writes. */
import { writeCatalog } from '../src/catalog/lmdb/catalog-store.ts'
import { extractLog } from '../src/log/copy-log.ts'
import type { BackupThreadData } from '../src/tools/backup/backup-thread.ts'
import { serveBackup } from '../src/tools/backup/backup-thread.ts'
import { disk } from '../src/util/disk.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<BackupThreadData>()
serveBackup(port, data, { disk, extractLog, writeCatalog })
