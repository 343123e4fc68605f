/**
 * The backup thread and its messages. It checks the destination, then copies what the main thread
 * has pinned. Each backup has a thread of its own, from its check to its end.
 */
import type { MessagePort } from 'node:worker_threads'
import { monotonicMs } from '../../util/clock.ts'
import { disk } from '../../util/disk.ts'
import { pathsOf } from '../../util/paths.ts'
import { serve } from '../../util/thread-server.ts'
import {
  type BucketSummary,
  type BucketTarget,
  bucketTarget,
  whyNotToBucket,
} from '../bucket/write-bucket.ts'
import { whyNotTo } from './backup-folder.ts'
import type { BackupSummary } from './backup-format.ts'
import { BackupThrottle, type CopyProgress } from './copy-file.ts'
import { type BackupState, type CopyControl, type Target, writeBackup } from './write-backup.ts'
import { folderTarget } from './write-folder.ts'

/** Interval of progress lines, at least. A waiting backup writes one each second. */
const BACKUP_PROGRESS_MS = 250

/** A new folder, as the caller gave it, or a bucket. */
export type Destination = { readonly folder: string } | Omit<BucketTarget, 'dataDir'>

/** A backup in a folder or in a bucket. */
export type Written = BackupSummary | BucketSummary

/** workerData of the backup thread. */
export interface BackupThreadData {
  readonly dataDir: string
  readonly to: Destination
  readonly crashAt: string
  /** 0 sets no limit. */
  readonly bytesPerSecond: number
}

/** Calls of the main thread. A stop cancels the copy, which removes what it wrote. */
export interface BackupCalls {
  /** Returns one sentence that says why the destination cannot be used, or undefined if it can. */
  check(): string | undefined
  /** Writes and syncs the whole backup. */
  copy(state: BackupState): Written
}

export interface BackupEvents {
  progress(progress: CopyProgress): void
  /** The log is copied: its files are no longer needed. */
  logCopied(): void
}

/** Serves one backup over `port`. */
export function serveBackup(port: MessagePort, data: BackupThreadData): void {
  const throttle = new BackupThrottle(data.bytesPerSecond)
  const tell = serve<BackupCalls, BackupEvents>(
    port,
    {
      check: () => whyNotToDestination(data.dataDir, data.to),
      copy: state =>
        writeTo(data.dataDir, data.to, state, {
          throttle,
          onProgress: seldom(progress => tell('progress', progress)),
          onLogCopied: () => tell('logCopied', undefined),
        }),
    },
    { mayAnswer: (_error, call) => call === 'copy', interrupt: () => throttle.cancel() },
  )
}

/** One sentence that says why a backup of `dataDir` cannot go there. No request is sent for it. */
export function whyNotToDestination(dataDir: string, to: Destination): string | undefined {
  return 'bucket' in to ? whyNotToBucket(to) : whyNotTo(disk, to.folder, dataDir)
}

export async function writeTo(
  dataDir: string,
  to: Destination,
  state: BackupState,
  control: CopyControl,
): Promise<Written> {
  const target: Target<Written> =
    'bucket' in to
      ? bucketTarget({ dataDir, ...to }, state, control)
      : folderTarget({ dataDir, ...to }, state, control.throttle)
  return await writeBackup(target, pathsOf(dataDir), state, control)
}

/** Passes on the first progress of each phase, then one for each BACKUP_PROGRESS_MS. */
function seldom(tell: (progress: CopyProgress) => void): (progress: CopyProgress) => void {
  let toldMs = 0
  let phase = ''
  return progress => {
    if (progress.phase === phase && monotonicMs() - toldMs < BACKUP_PROGRESS_MS) return
    phase = progress.phase
    toldMs = monotonicMs()
    tell(progress)
  }
}
