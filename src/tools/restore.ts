/** `weir restore <folder>`: a new data folder, made of a backup whose every checksum was read first. */
import { resolve } from 'node:path'
import { CLEAN, type Command, type CommandInput, DAMAGED } from '../engine/command.ts'
import { must } from '../util/assert.ts'
import { disk } from '../util/disk.ts'
import { CannotRun } from '../util/errors.ts'
import { armCrash } from '../util/fault-injection.ts'
import { pathsOf } from '../util/paths.ts'
import { note, say, warn } from '../util/say.ts'
import { showCopied } from './backup-progress.ts'
import { whenInterrupted } from './interrupt.ts'

export const RESTORE: Command = {
  name: 'restore',
  positionals: ['<folder>'],
  flags: [
    {
      flag: 'incomplete',
      value: '',
      why: 'takes a backup that names files which were damaged before it was made; weir repair goes on then',
    },
  ],
  why: 'makes a new data folder (--data-dir) of a backup, checked first; its first start builds the index',
  run,
}

async function run({ config, positionals, flags }: CommandInput): Promise<number> {
  const [{ restoreBackup }, { damagedText }] = await Promise.all([
    import('./backup/restore-backup.ts'),
    import('./backup/backup-format.ts'),
  ])
  armCrash(config.crashAt)
  const from = resolve(must(positionals[0], 'the folder'))
  const to = pathsOf(config.dataDir)
  if (disk.exists(to.restoring))
    note(`a restore into ${to.root} had begun and not ended: this one begins again with an empty folder`)
  const shown = showCopied('restore')
  const forget = whenInterrupted(() => {
    if (disk.exists(to.restoring))
      note(`the restore has not ended, and no server starts on ${to.root}: run weir restore again`)
  })
  try {
    const summary = await restoreBackup({
      disk,
      from,
      to,
      takesIncomplete: flags.has('incomplete'),
      onProgress: shown.step,
    })
    const { sequence, pools, segments, bytes, damaged } = summary
    say(
      `restored sequence ${sequence} to ${config.dataDir}: ${pools} pools, ${segments} segments, ${bytes} bytes, synced; the first start builds the index`,
    )
    if (damaged.length === 0) return CLEAN
    warn(
      `these files were damaged before the backup was made, and still are: ${damagedText(damaged, to.root)}; weir repair --data-dir ${to.root} sets them aside`,
    )
    return DAMAGED
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException
    throw syscall === undefined ? error : new CannotRun(`the backup cannot be restored: ${message}`)
  } finally {
    forget()
    shown.end()
  }
}
