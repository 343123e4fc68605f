/** Progress of a backup or restore: whole MiB, a bar of its own for each phase. */
import type { Progress as Copying } from './backup/backup-types.ts'
import { createProgress, type Progress } from './progress.ts'

const MiB = 1024 * 1024

/** @param task `backup` or `restore` */
export function showCopied(task: string) {
  let phase = ''
  let shown: Progress | undefined
  return {
    step: (now: Copying): void => {
      if (now.phase !== phase) {
        shown?.end()
        shown = createProgress(`${task}, ${now.phase}`)
        phase = now.phase
      }
      shown?.step(Math.ceil(now.bytesDone / MiB), Math.ceil(now.bytesTotal / MiB), 'MiB')
    },
    end: (): void => shown?.end(),
  }
}
