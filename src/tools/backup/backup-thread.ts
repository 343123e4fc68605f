/** The backup thread: checks the destination, then copies what the main thread has pinned. */
import type { MessagePort } from 'node:worker_threads'
import { monotonicMs } from '../../util/clock.ts'
import { BACKUP_PROGRESS_MS } from '../../util/limits.ts'
import { serve } from '../../util/thread-server.ts'
import { Pace } from './backup-throttle.ts'
import type { BackupCalls, BackupEvents, BackupThreadData, Progress } from './backup-types.ts'
import { whyNotTo } from './destination.ts'
import { type BackupDeps, writeBackup } from './write-backup.ts'

/** Serves one backup over `port`. */
export function serveBackup(port: MessagePort, data: BackupThreadData, services: BackupDeps): void {
  const pace = new Pace(data.bytesPerSecond)
  const tell = serve<BackupCalls, BackupEvents>(
    port,
    {
      check: () => whyNotTo(services.disk, data.folder, data.dataDir),
      copy: state =>
        writeBackup(data, state, services, {
          pace,
          onProgress: seldom(progress => tell('progress', progress)),
          onLogCopied: () => tell('logCopied', undefined),
        }),
    },
    { mayAnswer: (_error, call) => call === 'copy', interrupt: () => pace.cancel() },
  )
}

/** The first of each phase, then one per BACKUP_PROGRESS_MS. */
function seldom(tell: (progress: Progress) => void): (progress: Progress) => void {
  let toldMs = 0
  let phase = ''
  return progress => {
    if (progress.phase === phase && monotonicMs() - toldMs < BACKUP_PROGRESS_MS) return
    phase = progress.phase
    toldMs = monotonicMs()
    tell(progress)
  }
}
