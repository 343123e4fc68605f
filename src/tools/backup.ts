/**
 * `weir backup <folder>`: of a stopped data folder, or with --url of a running server through its route.
 *
 * Damaged segments do not keep the rest from being backed up: the backup is kept and incomplete, they are named, and the
 * exit code is 1.
 */
import { join, resolve } from 'node:path'
import { CLEAN, type Command, type CommandInput, DAMAGED } from '../engine/command.ts'
import type { Config } from '../engine/config.ts'
import { withoutEndSlashes } from '../util/addresses.ts'
import { must } from '../util/assert.ts'
import { type Disk, disk, readFile } from '../util/disk.ts'
import { CannotRun, Unavailable } from '../util/errors.ts'
import { BACKUP_LINE_BYTES_MAX } from '../util/limits.ts'
import { pathsOf } from '../util/paths.ts'
import { say, warn } from '../util/say.ts'
import type { BackupLine } from './backup/backup-client.ts'
import type { BackupState, BackupSummary } from './backup/backup-types.ts'
import { showCopied } from './backup-progress.ts'
import { whenInterrupted } from './interrupt.ts'
import type { Offline } from './offline.ts'

export const BACKUP: Command = {
  name: 'backup',
  positionals: ['<folder>'],
  flags: [
    {
      flag: 'url',
      value: 'URL',
      why: 'of the running server, as http://127.0.0.1:8420; without it the data folder must be stopped. <folder> is on the server’s machine',
    },
  ],
  why: 'copies everything to a new folder, consistent at one sequence number',
  run,
}

async function run({ config, positionals, flags }: CommandInput): Promise<number> {
  const folder = resolve(must(positionals[0], 'the folder'))
  const url = flags.get('url')
  const { sequence, pools, segments, bytes, damaged } =
    url === undefined ? await ofStopped(config, folder) : await ofRunning(config, url, folder)
  const what = `sequence ${sequence} in ${folder}: ${pools} pools, ${segments} segments, ${bytes} bytes, synced`
  if (damaged.length === 0) {
    say(`backup of ${what}`)
    return CLEAN
  }
  say(`incomplete backup of ${what}`)
  const { damagedText } = await import('./backup/backup-format.ts')
  const files = damagedText(damaged, url === undefined ? config.dataDir : folder)
  warn(
    `the backup is incomplete, these files were damaged before: ${files}. weir restore --incomplete takes it; weir repair sets damaged segments aside`,
  )
  return DAMAGED
}

/** Replays and flushes first, so that nothing is left to copy from the log. */
async function ofStopped(config: Config, folder: string): Promise<BackupSummary> {
  const [{ whyNotTo }, { writeBackup }, { Pace }, { extractLog }, { writeCatalog }, { openOffline }] =
    await Promise.all([
      import('./backup/destination.ts'),
      import('./backup/write-backup.ts'),
      import('./backup/backup-throttle.ts'),
      import('../log/copy-log.ts'),
      import('../catalog/catalog-store.ts'),
      import('./offline.ts'),
    ])
  const offline = await openOffline(config, { replay: true })
  const shown = showCopied('backup')
  try {
    const why = whyNotTo(disk, folder, config.dataDir)
    if (why !== undefined) throw new CannotRun(why)
    const target = { dataDir: config.dataDir, folder, bytesPerSecond: 0 }
    const services = { disk, extractLog, writeCatalog }
    const pace = new Pace(0)
    const calls = { pace, onProgress: shown.step, onLogCopied: () => undefined }
    const state = await stateOf(offline)
    let written: Promise<BackupSummary> | undefined
    const forget = whenInterrupted(() => {
      pace.cancel()
      return written // it removes what it wrote
    })
    written = writeBackup(target, state, services, calls)
    return await written.finally(forget)
  } catch (error) {
    throw plain(error)
  } finally {
    shown.end()
    await offline.close()
  }
}

/** Everything is flushed: an empty log that goes on behind the last sequence. */
async function stateOf({ catalog, index, paths }: Offline): Promise<BackupState> {
  const [{ lookAtLog }, { flushedSequences }] = await Promise.all([
    import('./inspect-log.ts'),
    import('../engine/stages.ts'),
  ])
  const states = new Map(index.opened.pools.map(state => [state.pool, state]))
  const flushed = flushedSequences(catalog, index.opened.pools)
  const look = lookAtLog(paths.log, flushed)
  if (look.damage !== undefined) throw look.damage
  const lastSequence = Math.max(0, look.lastSequence, ...flushed.values())
  return {
    pools: catalog.pools().map(({ number, id }) => {
      const { flushedSequence = 0, segments = [] } = states.get(number) ?? {}
      return { pool: number, poolId: id, flushedSequence, segments }
    }),
    documents: catalog.documents(),
    deletedPools: catalog.tombstones().map(({ number }) => number),
    log: { generation: 1, position: 0, firstSequence: lastSequence + 1, lastSequence },
  }
}

/** There is no backup then: the disk of <folder> refuses. */
function plain(error: unknown): unknown {
  const { name, message } = error as Error
  return name === 'Unavailable' ? new CannotRun(message) : error
}

/** Asks the server, shows its progress, and believes its last line only. */
async function ofRunning(config: Config, url: string, folder: string): Promise<BackupSummary> {
  if (!/^https?:\/\/[^/]/.test(url))
    throw new CannotRun(`--url takes the address of a running server, as http://127.0.0.1:8420, not "${url}"`)
  const { clientId, clientSecret } = credentials(config)
  const answer = await fetch(`${withoutEndSlashes(url)}/v1/admin/backup`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`,
    },
    body: JSON.stringify({ folder }),
  }).catch(error => {
    throw new CannotRun(`${url} cannot be reached: ${(error as { cause?: Error }).cause?.message ?? error}`)
  })
  if (answer.status !== 200 || answer.body === null) {
    const { detail = '' } = (await answer.json().catch(() => ({}))) as { readonly detail?: string }
    throw new CannotRun(`${url} refuses a backup (${answer.status}): ${detail}`)
  }
  const shown = showCopied('backup')
  try {
    const last = await lastLine(answer.body, shown.step)
    if (last !== undefined && 'damaged' in last) return last
    if (last === undefined || !('error' in last))
      throw new CannotRun('there is no backup: the server went away before the end')
    const text = `there is no backup: ${last.error}`
    throw last.code === 'damaged' ? new Unavailable(last.code, text) : new CannotRun(text)
  } finally {
    shown.end()
  }
}

async function lastLine(
  body: ReadableStream<Uint8Array>,
  onProgress: ReturnType<typeof showCopied>['step'],
): Promise<BackupLine | undefined> {
  const decoder = new TextDecoder()
  let last: BackupLine | undefined
  let rest = ''
  try {
    for await (const chunk of body) {
      rest += decoder.decode(chunk, { stream: true })
      if (rest.length > BACKUP_LINE_BYTES_MAX)
        throw new CannotRun('this is no answer of Weir: a line without an end')
      const lines = rest.split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        last = JSON.parse(line) as BackupLine
        if ('phase' in last) onProgress(last)
      }
    }
  } catch (error) {
    if (error instanceof CannotRun) throw error
    return undefined // cut off: what came before does not count
  }
  return last
}

/** Those of the environment, else those that the data folder keeps. */
function credentials(config: Config, on: Disk = disk): { clientId: string; clientSecret: string } {
  if (config.clientId !== '') return config
  const path = join(pathsOf(config.dataDir).admin)
  try {
    return JSON.parse(Buffer.from(readFile(on, path)).toString()) as {
      clientId: string
      clientSecret: string
    }
  } catch (error) {
    throw new CannotRun(
      `WEIR_CLIENT_ID and WEIR_CLIENT_SECRET are not given, and ${path} cannot be read: ${(error as Error).message}`,
    )
  }
}
