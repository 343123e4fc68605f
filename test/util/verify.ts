/**
 * `weir verify` and `weir rebuild` inside this process: the code of the commands, without a process
 * for each.
 */

import { COMMANDS } from '../../src/app/commands.ts'
import { readCommandLine } from '../../src/database/command.ts'
import type { BackupContents } from '../../src/tools/backup/backup-format.ts'
import { openOffline } from '../../src/tools/offline.ts'
import { rebuildIndex } from '../../src/tools/rebuild.ts'
import { findingText, Report } from '../../src/tools/report.ts'
import { findDamage, readContents } from '../../src/tools/restore.ts'
import { readCatalog } from '../../src/tools/stopped-folder.ts'
import { checkFolder } from '../../src/tools/verify.ts'
import type { Disk } from '../../src/util/disk.ts'
import { pathsOf } from '../../src/util/paths.ts'

const SILENT = { step: () => undefined, end: () => undefined }

/** `weir verify` found damage in a stopped folder. */
class NotClean extends Error {
  override readonly name = 'NotClean'
}

const configOf = (dataDir: string) => readCommandLine(['--data-dir', dataDir], COMMANDS, {}).input.config

/** Checks a folder that no server runs on. Returns the notes. Throws NotClean with all findings. */
export async function verifyFolder(dataDir: string): Promise<readonly string[]> {
  const report = new Report()
  await checkFolder({ paths: pathsOf(dataDir), kernel: 'native', isBackup: false }, report, SILENT)
  if (report.count > 0)
    throw new NotClean(`weir verify ${dataDir}:\n${report.findings.map(findingText).join('\n')}`)
  return report.notes
}

/** Reads every file of a backup in a folder. Throws its first damage. */
export async function verifyBackup(on: Disk, from: string): Promise<BackupContents> {
  const contents = readContents(on, from)
  for await (const damage of findDamage(on, from, contents, () => undefined)) throw damage
  return contents
}

/** Does what `weir rebuild` does. Returns the number of segments of the new index. */
export async function rebuildFolder(dataDir: string): Promise<number> {
  const folder = { paths: pathsOf(dataDir), kernel: 'native', isBackup: false } as const
  return (await rebuildIndex(configOf(dataDir), folder, await readCatalog(folder))).segments
}

/** Replays and flushes the log as a start does. Returns the number of requests. */
export async function replayFolder(dataDir: string): Promise<number> {
  const offline = await openOffline(configOf(dataDir))
  await offline.close()
  return offline.replayed
}
