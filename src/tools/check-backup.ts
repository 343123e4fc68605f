/** A backup against the list in its file BACKUP: names, lengths, checksums, and what was damaged when it was made. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { disk } from '../util/disk.ts'
import { BACKUP_FILE } from '../util/paths.ts'
import type { BackupContents } from './backup/backup-format.ts'
import { damagesOf, readContents } from './backup/restore-backup.ts'
import { showCopied } from './backup-progress.ts'
import type { Report } from './report.ts'

/** Reads every file that BACKUP names. What is wrong goes to `report`. */
export async function checkBackup(root: string, report: Report): Promise<void> {
  const contents = await report.try(() => readContents(disk, root))
  if (contents === undefined) return
  const shown = showCopied('checking')
  try {
    for await (const damage of damagesOf(disk, root, contents, shown.step)) report.damage(damage)
  } finally {
    shown.end()
  }
  for (const { path, what } of contents.damaged ?? [])
    report.find(join(root, path), `it was damaged before the backup was made: ${what}`)
  report.checked.files = contents.files.length
  noteUnlisted(root, contents, report)
}

/** A restore leaves them behind. */
function noteUnlisted(root: string, { files }: BackupContents, report: Report): void {
  const listed = new Set([BACKUP_FILE, ...files.map(({ path }) => path)].map(path => join(root, path)))
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isDirectory() && !listed.has(path)) report.note(`${path} is no file of the backup`)
  }
}
