/** `weir restore <folder>`: a new data folder, made of a backup whose every checksum was read first. */
import { resolve } from 'node:path'
import { CannotRun } from '../errors.ts'
import { pathsOf } from '../paths.ts'
import { must } from '../util/assert.ts'
import { armCrash } from '../util/crash.ts'
import { disk } from '../util/disk.ts'
import { say } from '../util/say.ts'
import { showBytes } from './bytes.ts'
import { CLEAN, type Command, type CommandInput } from './protocol.ts'

export const RESTORE: Command = {
  name: 'restore',
  positionals: ['<folder>'],
  flags: [],
  why: 'makes a new data folder (--data-dir) of a backup, checked first; the index is rebuilt at its first start',
  run,
}

async function run({ config, positionals }: CommandInput): Promise<number> {
  const { restoreBackup } = await import('../backup/restore.ts')
  armCrash(config.crashAt)
  const from = resolve(must(positionals[0], 'the folder'))
  const shown = showBytes('restore')
  try {
    const { sequence, pools, segments, bytes } = await restoreBackup({
      disk,
      from,
      to: pathsOf(config.dataDir),
      onProgress: shown.step,
    })
    say(
      `restored sequence ${sequence} to ${config.dataDir}: ${pools} pools, ${segments} segments, ${bytes} bytes, synced`,
    )
    return CLEAN
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException
    throw syscall === undefined ? error : new CannotRun(`the backup cannot be restored: ${message}`)
  } finally {
    shown.end()
  }
}
