/**
 * Backups of the server under load, one after the other. One that says `done` is whole; one whose end was not heard,
 * because the server died, is whole or is none: a folder with BACKUP in it has every file with its checksum.
 */
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { restoreBackup, verifyBackup } from '../../src/tools/backup/restore-backup.ts'
import { disk } from '../../src/util/disk.ts'
import { BACKUP_FILE, pathsOf } from '../../src/util/paths.ts'
import { verifyFolder } from '../util/verify.ts'
import { ConnectionLost, Violation } from './client.ts'
import { mayLose, type Target } from './requests.ts'
import type { World } from './world.ts'

/** How often a whole backup is restored and its folder checked. */
const RESTORED_OF = 4
const SILENT = () => undefined

/** Backs up into folders below `beside` until the target is over. */
export async function runBackups(world: World, target: Target, beside: string): Promise<void> {
  for (let n = 0; !target.isOver; n++) {
    const folder = join(beside, `backup-${n}`)
    rmSync(folder, { recursive: true, force: true })
    try {
      const last = await askBackup(target, folder)
      if ('done' in last) await mustBeWhole(world, folder, world.tally.backups % RESTORED_OF === 0)
      else if (!target.isOver && !target.isStopping)
        throw new Violation(`a backup under load: ${JSON.stringify(last)}`)
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error
      if (!mayLose(target)) throw error
      world.cutBackups.push(folder)
      return
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

/** After the server's death: what looks whole is whole. */
export async function checkCutBackups(world: World): Promise<void> {
  for (const folder of world.cutBackups.splice(0)) {
    world.tally.cutBackups += 1
    if (existsSync(join(folder, BACKUP_FILE))) await mustBeWhole(world, folder, true)
    rmSync(folder, { recursive: true, force: true })
  }
}

async function mustBeWhole(world: World, folder: string, isRestored: boolean): Promise<void> {
  world.tally.backups += 1
  await verifyBackup({ disk, from: folder, onProgress: SILENT })
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
