/**
 * Backups of the server under load, one after the other. A backup that answers `done` is whole. A
 * backup without an answer, because the server died, is either whole or none: a folder with a
 * BACKUP file has every file with its checksum.
 */
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { restoreBackup } from '../../src/tools/restore.ts'
import { disk } from '../../src/util/disk.ts'
import { BACKUP_FILE, pathsOf } from '../../src/util/paths.ts'
import { verifyBackup, verifyFolder } from '../util/verify.ts'
import { ConnectionLost, Violation } from './client.ts'
import type { ClientState } from './client-state.ts'
import { mayLose, type Target } from './requests.ts'

/** One of so many whole backups is restored, and its folder checked. */
const RESTORED_OF = 4
const SILENT = () => undefined

/** Makes backups below the folder `beside` until the target is over. */
export async function runBackups(state: ClientState, target: Target, beside: string): Promise<void> {
  for (let n = 0; !target.isOver; n++) {
    const folder = join(beside, `backup-${n}`)
    rmSync(folder, { recursive: true, force: true })
    try {
      const last = await askBackup(target, folder)
      if ('done' in last) await mustBeWhole(state, folder, state.tally.backups % RESTORED_OF === 0)
      else if (!target.isOver && !target.isStopping)
        throw new Violation(`a backup under load: ${JSON.stringify(last)}`)
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error
      if (!mayLose(target)) throw error
      state.unansweredBackups.push(folder)
      return
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

/** After the server's death: a backup that looks whole must be whole. */
export async function checkUnansweredBackups(state: ClientState): Promise<void> {
  for (const folder of state.unansweredBackups.splice(0)) {
    state.tally.unansweredBackups += 1
    if (existsSync(join(folder, BACKUP_FILE))) await mustBeWhole(state, folder, true)
    rmSync(folder, { recursive: true, force: true })
  }
}

async function mustBeWhole(state: ClientState, folder: string, isRestored: boolean): Promise<void> {
  state.tally.backups += 1
  await verifyBackup(disk, folder)
  if (!isRestored) return
  const to = `${folder}-restored`
  await restoreBackup({ disk, from: folder, to: pathsOf(to), takesIncomplete: false, onProgress: SILENT })
  await verifyFolder(to)
  rmSync(to, { recursive: true, force: true })
}

/** The last line of the answer. Throws ConnectionLost where there is none. */
async function askBackup({ base, token }: Target, folder: string): Promise<object> {
  try {
    const answer = await fetch(`${base}/v1/admin/backup`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ folder }),
    })
    const lines = (await answer.text()).trimEnd().split('\n')
    const last = JSON.parse(lines.at(-1) ?? '') as object
    if ('phase' in last) throw new Error('the answer ended before the backup')
    return last
  } catch (error) {
    throw new ConnectionLost(`at a backup: ${(error as Error).message}`)
  }
}
