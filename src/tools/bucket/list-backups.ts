/** `weir backups`: lists the backups in a bucket, oldest first. */
import { CLEAN, type CommandInput } from '../../database/command.ts'
import { must } from '../../util/assert.ts'
import { CannotRun, Unavailable } from '../../util/errors.ts'
import { say } from '../../util/say.ts'
import { tableLines } from '../text-tables.ts'
import { readBucketAddress } from './bucket-address.ts'
import { type BackupId, listBackups, readManifest } from './bucket-folder.ts'
import { summaryOfManifest } from './bucket-format.ts'
import { S3Client } from './s3-client.ts'

/** Runs `weir backups`. */
export async function backups({ positionals, flags }: CommandInput): Promise<number> {
  const url = must(positionals[0], 'the bucket')
  const client = new S3Client(readBucketAddress(url, flags.get('endpoint')))
  try {
    const shown = []
    for (const backup of await listBackups(client)) shown.push(await showBackup(client, backup))
    if (flags.has('json')) say(JSON.stringify(shown, null, 2))
    else if (shown.length === 0) say(`no backups in ${client.url}`)
    else
      for (const line of tableLines(shown, [
        ['backup', ({ id }) => id],
        ['made', ({ createdAt }) => createdAt ?? '-'],
        ['sequence', ({ sequence }) => sequence ?? '-'],
        ['pools', ({ pools }) => pools ?? '-'],
        ['segments', ({ segments }) => segments ?? '-'],
        ['bytes', ({ bytes }) => bytes ?? '-'],
        ['state', ({ state }) => state],
      ]))
        say(line)
    return CLEAN
  } catch (error) {
    throw error instanceof Unavailable ? new CannotRun(error.message) : error
  }
}

interface ShownBackup {
  readonly id: string
  readonly createdAt?: string
  readonly sequence?: number
  readonly pools?: number
  readonly segments?: number
  readonly bytes?: number
  readonly state: string
}

/** A backup that cannot be read is shown too: it stands in the way of the retention. */
async function showBackup(client: S3Client, backup: BackupId): Promise<ShownBackup> {
  try {
    const manifest = await readManifest(client, backup)
    const { sequence, pools, segments, bytes, damaged } = summaryOfManifest(manifest)
    const state = damaged.length === 0 ? 'complete' : `incomplete: ${damaged.length} damaged files`
    return { id: backup.id, createdAt: manifest.createdAt, sequence, pools, segments, bytes, state }
  } catch (error) {
    if (error instanceof Unavailable) throw error
    return { id: backup.id, state: (error as Error).message }
  }
}
