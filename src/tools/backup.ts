/**
 * `weir backup <folder>`: copies a stopped data folder, or with --url that of a running server
 * through its route.
 *
 * A damaged segment does not stop the backup. The backup is kept and incomplete, the message names
 * the damaged files, and the exit code is 1.
 */

import { resolve } from 'node:path'
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import type { Config } from '../database/config.ts'
import { flushedSequences } from '../database/stages.ts'
import { highestFlushed } from '../log/read-log.ts'
import { must } from '../util/assert.ts'
import { disk } from '../util/disk.ts'
import { CannotRun, Unavailable } from '../util/errors.ts'
import { MiB } from '../util/limits.ts'
import { fail, say } from '../util/say.ts'
import { type BackupLine, backupState } from './backup/backup-client.ts'
import { whyNotTo } from './backup/backup-folder.ts'
import { type BackupSummary, damagedText } from './backup/backup-format.ts'
import { BackupThrottle, type CopyProgress } from './backup/copy-file.ts'
import { type BackupState, writeBackup } from './backup/write-backup.ts'
import { whenInterrupted } from './interrupts.ts'
import { type Offline, openOffline } from './offline.ts'
import { withCopyProgress } from './progress.ts'
import { postToServer } from './running-server.ts'
import { inspectLog } from './stopped-folder.ts'

/** Bytes of a line of a running backup's answer; a longer line does not come from Weir. */
const BACKUP_LINE_BYTES_MAX = 1 * MiB

/** Runs `weir backup`. The exit code is 1 where the backup is incomplete. */
export async function backup({ config, positionals, flags }: CommandInput): Promise<number> {
  const folder = resolve(must(positionals[0], 'the folder'))
  const url = flags.get('url')
  const { sequence, pools, segments, bytes, damaged } =
    url === undefined ? await copyStopped(config, folder) : await askServer(config, url, folder)
  const what = `sequence ${sequence} in ${folder}: ${pools} pools, ${segments} segments, ${bytes} bytes, synced`
  if (damaged.length === 0) {
    say(`backup of ${what}`)
    return CLEAN
  }
  say(`incomplete backup of ${what}`)
  const files = damagedText(damaged, url === undefined ? config.dataDir : folder)
  fail(
    `the backup ${folder} is incomplete, these files were damaged before it was made: ${files}. weir repair moves damaged segments of the data folder aside; weir restore --incomplete restores this backup as it is`,
  )
  return DAMAGED
}

/**
 * Copies a stopped folder. It replays and flushes first, so nothing of the log needs to be copied.
 */
async function copyStopped(config: Config, folder: string): Promise<BackupSummary> {
  const offline = await openOffline(config)
  try {
    const why = whyNotTo(disk, folder, config.dataDir)
    if (why !== undefined) throw new CannotRun(why)
    const throttle = new BackupThrottle(0)
    const state = stateOf(offline)
    let written: Promise<BackupSummary> | undefined
    const forget = whenInterrupted(() => {
      throttle.cancel()
      return written // removes what it wrote
    })
    written = withCopyProgress('backup', onProgress =>
      writeBackup({ dataDir: config.dataDir, folder }, state, {
        throttle,
        onProgress,
        onLogCopied: () => undefined,
      }),
    )
    return await written.finally(forget)
  } catch (error) {
    throw error instanceof Unavailable ? new CannotRun(`backup to ${folder} failed: ${error.message}`) : error
  } finally {
    await offline.close()
  }
}

/** The state after everything was flushed: an empty log that continues after the last sequence. */
function stateOf({ catalog, index, paths }: Offline): BackupState {
  const states = new Map(index.opened.pools.map(state => [state.pool, state]))
  const flushed = flushedSequences(catalog, index.opened.pools)
  const log = inspectLog(paths.log, flushed)
  if (log.damage !== undefined) throw log.damage
  const lastSequence = Math.max(log.lastSequence, highestFlushed(flushed))
  const span = { generation: 1, position: 0, firstSequence: lastSequence + 1, lastSequence }
  return backupState(catalog, pool => states.get(pool), span)
}

/** Asks the server for a backup and shows its progress. Only the last line of the answer counts. */
async function askServer(config: Config, url: string, folder: string): Promise<BackupSummary> {
  const answer = await postToServer(config, url, '/v1/admin/backup', { folder }, 'the backup')
  const last = await withCopyProgress('backup', onProgress => readLastLine(url, answer.body, onProgress))
  if (last !== undefined && 'damaged' in last) return last
  if (last === undefined || !('error' in last))
    throw new CannotRun(
      `backup failed: the server at ${url} closed the connection before it said that the copy is complete; without a file BACKUP, ${folder} is no backup: remove it, and run weir backup again`,
    )
  const text = `backup failed: ${last.error}; there is no backup in ${folder}`
  throw last.code === 'damaged' ? new Unavailable(last.code, text) : new CannotRun(text)
}

/** Resolves with undefined where the connection ended early, because no line counts then. */
async function readLastLine(
  url: string,
  body: ReadableStream<Uint8Array>,
  onProgress: (progress: CopyProgress) => void,
): Promise<BackupLine | undefined> {
  const decoder = new TextDecoder()
  let last: BackupLine | undefined
  let rest = ''
  try {
    for await (const chunk of body) {
      rest += decoder.decode(chunk, { stream: true })
      if (rest.length > BACKUP_LINE_BYTES_MAX)
        throw new CannotRun(
          `${url} did not answer as Weir does: name the address of a Weir server with --url`,
        )
      const lines = rest.split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        last = JSON.parse(line) as BackupLine
        if ('phase' in last) onProgress(last)
      }
    }
  } catch (error) {
    if (error instanceof CannotRun) throw error
    return undefined
  }
  return last
}
