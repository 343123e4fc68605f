/** Entry point of the thread of one backup (src/tools/backup/backup-thread.ts). */
import { type BackupThreadData, serveBackup } from '../src/tools/backup/backup-thread.ts'
import { beginThread } from '../src/util/thread-server.ts'

const { port, data } = beginThread<BackupThreadData>()
serveBackup(port, data)
