/**
 * `weir backup <folder>`, or a bucket: copies a stopped data folder, or with --url that of a
 * running server through its route.
 *
 * A damaged segment does not stop the backup. The backup is kept and incomplete, the message names
 * the damaged files, and the exit code is 1.
 */

import { resolve } from 'node:path'
import { CANNOT_RUN, CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import type { Config } from '../database/config.ts'
import { flushedSequences } from '../database/stages.ts'
import { highestFlushed } from '../log/read-log.ts'
import { CannotRun, must, Unavailable } from '../util/errors.ts'
import { MiB } from '../util/limits.ts'
import { fail, say } from '../util/say.ts'
import { type BackupLine, backupState } from './backup/backup-client.ts'
import { damagedText } from './backup/backup-format.ts'
import { type Destination, type Written, whyNotToDestination, writeTo } from './backup/backup-thread.ts'
import { BackupThrottle, type CopyProgress } from './backup/copy-file.ts'
import type { BackupState } from './backup/write-backup.ts'
import { isBucketUrl } from './bucket/bucket-address.ts'
import { whenInterrupted } from './interrupts.ts'
import { type Offline, openOffline } from './offline.ts'
import { withCopyProgress } from './progress.ts'
import { postToServer } from './running-server.ts'
import { inspectLog } from './stopped-folder.ts'

/** Bytes of a line of a running backup's answer; a longer line does not come from Weir. */
const BACKUP_LINE_BYTES_MAX = 1 * MiB

/** Runs `weir backup`. The exit code is 1 where the backup is incomplete. */
export async function backup({ config, positionals, flags }: CommandInput): Promise<number> {
  const given = must(positionals[0], 'the folder')
  const to = destinationOf(given, flags)
  const url = flags.get('url')
  const written = url === undefined ? await copyStopped(config, to) : await askServer(config, url, to)
  const { sequence, pools, segments, bytes, damaged } = written
  const place = placeOf(to)
  const what = `sequence ${sequence} in ${place}: ${pools} pools, ${segments} segments, ${bytes} bytes, ${sentText(written)}`
  const older = 'notRemoved' in written ? written.notRemoved : undefined
  if (older !== undefined) fail(`no older backup was removed from ${place}: ${older}`)
  if (damaged.length === 0) {
    say(`backup of ${what}`)
    return older === undefined ? CLEAN : CANNOT_RUN
  }
  say(`incomplete backup of ${what}`)
  const files = damagedText(damaged, url === undefined ? config.dataDir : place)
  fail(
    `the backup ${place} is incomplete, these files were damaged before it was made: ${files}. weir repair moves damaged segments of the data folder aside; weir restore --incomplete restores this backup as it is`,
  )
  return DAMAGED
}

/** @throws CannotRun flags that do not go together */
function destinationOf(given: string, flags: CommandInput['flags']): Destination {
  const [keep, endpoint] = [flags.get('keep'), flags.get('endpoint')]
  if (!isBucketUrl(given)) {
    if (keep !== undefined || endpoint !== undefined)
      throw new CannotRun('--keep and --endpoint are for a bucket: weir backup s3://bucket/prefix')
    return { folder: resolve(given) }
  }
  if (endpoint !== undefined && flags.has('url'))
    throw new CannotRun(
      'a running server takes endpoint and credentials from its own environment: set AWS_ENDPOINT_URL there',
    )
  if (keep !== undefined && !/^[1-9]\d{0,5}$/.test(keep))
    throw new CannotRun(`--keep takes a number of backups from 1, not "${keep}"`)
  return {
    bucket: given,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(keep === undefined ? {} : { keep: Number(keep) }),
  }
}

function placeOf(to: Destination): string {
  return 'bucket' in to ? to.bucket : to.folder
}

function sentText(written: Written): string {
  if (!('sent' in written)) return 'synced'
  const { id, sent, removed } = written
  const went = removed === undefined ? '' : `; removed ${removed.backups} backups and ${removed.bytes} bytes`
  const { mended, lost } = written.wrong
  const wrong =
    mended + lost === 0
      ? ''
      : `; ${mended + lost} objects of the last backup were missing or wrong: ${mended} were sent again, ${lost} are lost (weir backups --verify names them)`
  return `${sent} of them sent, as ${id}${went}${wrong}`
}

/**
 * Copies a stopped folder. It replays and flushes first, so nothing of the log needs to be copied.
 */
async function copyStopped(config: Config, to: Destination): Promise<Written> {
  const offline = await openOffline(config)
  try {
    const why = whyNotToDestination(config.dataDir, to)
    if (why !== undefined) throw new CannotRun(why)
    const throttle = new BackupThrottle(0)
    const state = stateOf(offline)
    let written: Promise<Written> | undefined
    const forget = whenInterrupted(() => {
      throttle.cancel()
      return written // removes what it wrote
    })
    written = withCopyProgress('backup', onProgress =>
      writeTo(config.dataDir, to, state, { throttle, onProgress, onLogCopied: () => undefined }),
    )
    return await written.finally(forget)
  } catch (error) {
    throw error instanceof Unavailable
      ? new CannotRun(`backup to ${placeOf(to)} failed: ${error.message}`)
      : error
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
async function askServer(config: Config, url: string, to: Destination): Promise<Written> {
  const answer = await postToServer(config, url, '/v1/admin/backup', to, 'the backup')
  const last = await withCopyProgress('backup', onProgress => readLastLine(url, answer.body, onProgress))
  if (last !== undefined && 'damaged' in last) return last
  const place = placeOf(to)
  if (last === undefined || !('error' in last)) {
    const left =
      'bucket' in to
        ? `weir backups ${place} shows what is there`
        : `without a file BACKUP, ${place} is no backup: remove it, and run weir backup again`
    throw new CannotRun(
      `backup failed: the server at ${url} closed the connection before it said that the copy is complete; ${left}`,
    )
  }
  const text = `backup failed: ${last.error}; there is no ${'bucket' in to ? 'new ' : ''}backup in ${place}`
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
