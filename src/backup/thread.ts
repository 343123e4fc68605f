/** The backup thread: looks at the destination, copies what it is told, says how it ended, ends. */
import type { MessagePort } from 'node:worker_threads'
import { toWire } from '../errors.ts'
import { BACKUP_PROGRESS_MS } from '../limits.ts'
import { monotonicMs } from '../util/clock.ts'
import { armCrash } from '../util/crash.ts'
import { whyNotTo } from './destination.ts'
import { Pace } from './pace.ts'
import type { BackupState, BackupThreadData, FromBackup, Progress, ToBackup } from './protocol.ts'
import { type BackupServices, writeBackup } from './write.ts'

/** Serves one backup over `port`. */
export function serveBackup(port: MessagePort, data: BackupThreadData, services: BackupServices): void {
  armCrash(data.crashAt)
  const tell = (message: FromBackup) => port.postMessage(message)
  const pace = new Pace(data.bytesPerSecond)
  let copying: Promise<void> | undefined
  port.on('message', (message: ToBackup) => {
    if (message.kind === 'copy') copying = copy(message.state).finally(() => port.close())
    else if (copying === undefined) port.close()
    else pace.cancel()
  })
  const why = whyNotTo(services.disk, data.folder, data.dataDir)
  if (why === undefined) tell({ kind: 'ready' })
  else {
    tell({ kind: 'refused', why })
    port.close()
  }

  async function copy(state: BackupState): Promise<void> {
    try {
      const summary = await writeBackup(data, state, services, {
        pace,
        onProgress: seldom(progress => tell({ kind: 'progress', progress })),
        onLogCopied: () => tell({ kind: 'log_copied' }),
      })
      tell({ kind: 'done', summary })
    } catch (error) {
      tell({ kind: 'failed', error: toWire(error) })
    }
  }
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
