/**
 * `weir backups`: lists the backups in a bucket, oldest first, and compares the list of objects
 * with them. With --verify it compares the bytes of each object too.
 */
import { CLEAN, type CommandInput, DAMAGED } from '../../database/command.ts'
import { CannotRun, must, Unavailable } from '../../util/errors.ts'
import { say } from '../../util/say.ts'
import { forEachAtOnce } from '../backup/copy-file.ts'
import { withProgress } from '../progress.ts'
import { tableLines } from '../text-tables.ts'
import { readBucketAddress } from './bucket-address.ts'
import {
  type BackupId,
  listBackups,
  listObjects,
  objectName,
  readManifest,
  whyNotListed,
} from './bucket-folder.ts'
import {
  type BucketManifest,
  type CheckedPart,
  partsOf,
  segmentFiles,
  summaryOfManifest,
} from './bucket-format.ts'
import { checkObject, readObjectOnce } from './check-objects.ts'
import { S3Client } from './s3-client.ts'

/** Runs `weir backups`. The exit code is 1 where an object is missing or wrong. */
export async function backups({ positionals, flags }: CommandInput): Promise<number> {
  const url = must(positionals[0], 'the bucket')
  const client = new S3Client(readBucketAddress(url, flags.get('endpoint')))
  try {
    const read: (BackupId & Read)[] = []
    for (const backup of await listBackups(client))
      read.push({ ...backup, ...(await readBackup(client, backup)) })
    const { wrong, checked } = await findWrong(client, read, {
      verifies: flags.has('verify') || flags.has('read'),
      reads: flags.has('read'),
    })
    const shown = read.map(one => showBackup(one, wrong))
    if (flags.has('json')) say(JSON.stringify(shown, null, 2))
    else if (shown.length === 0) say(`no backups in ${client.url}`)
    else sayBackups(client.url, shown, checked)
    return shown.some(({ damaged }) => damaged.length > 0) ? DAMAGED : CLEAN
  } catch (error) {
    throw error instanceof Unavailable ? new CannotRun(error.message) : error
  }
}

type Read = { readonly manifest: BucketManifest } | { readonly unreadable: string }

/** A backup that cannot be read is shown too: it stands in the way of the retention. */
async function readBackup(client: S3Client, backup: BackupId): Promise<Read> {
  try {
    return { manifest: await readManifest(client, backup) }
  } catch (error) {
    if (error instanceof Unavailable) throw error
    return { unreadable: (error as Error).message }
  }
}

/** Names of objects that are missing or wrong, with what is wrong. Each is looked at once. */
async function findWrong(
  client: S3Client,
  read: readonly Read[],
  { verifies, reads }: { readonly verifies: boolean; readonly reads: boolean },
): Promise<{ readonly wrong: ReadonlyMap<string, string>; readonly checked?: string }> {
  const objects = await listObjects(client)
  const parts = new Map<string, CheckedPart>()
  const wrong = new Map<string, string>()
  for (const one of read)
    if ('manifest' in one) for (const part of partsOf(one.manifest)) parts.set(objectName(part), part)
  const listed: CheckedPart[] = []
  for (const [name, part] of parts) {
    const why = whyNotListed(objects, part)
    if (why === undefined) listed.push(part)
    else wrong.set(name, why)
  }
  if (!verifies) return { wrong }
  const count = { asked: 0, read: 0, 'not yet': 0, bytes: 0 }
  await withProgress('checking objects', async progress => {
    let done = 0
    await forEachAtOnce(listed, async part => {
      const check = reads ? await readObjectOnce(client, part) : await checkObject(client, part)
      if (check.wrong !== undefined) wrong.set(objectName(part), check.wrong)
      count[check.how] += 1
      if (check.how === 'read') count.bytes += part.bytes
      progress.step(++done, listed.length)
    })
  })
  const why = reads ? '' : ', because the bucket keeps no checksum of theirs'
  return {
    wrong,
    checked: `checked: ${count.asked} objects by the checksum that the bucket keeps, ${count.read} by reading ${count.bytes} bytes${why}`,
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
  readonly damaged: readonly { readonly object: string; readonly file: string; readonly what: string }[]
}

function showBackup(one: BackupId & Read, wrong: ReadonlyMap<string, string>): ShownBackup {
  const { id } = one
  if (!('manifest' in one)) return { id, state: one.unreadable, damaged: [] }
  const { manifest } = one
  const { sequence, pools, segments, bytes, damaged: before } = summaryOfManifest(manifest)
  const files = new Map([...segmentFiles(manifest)].map(([path, part]) => [objectName(part), path]))
  const damaged = [...new Set([...partsOf(manifest)].map(objectName))]
    .filter(object => wrong.has(object))
    .map(object => ({
      object,
      file: files.get(object) ?? 'catalog, keys or log',
      what: wrong.get(object) ?? '',
    }))
  const state =
    damaged.length > 0
      ? `damaged: ${damaged.length} objects missing or wrong`
      : before.length === 0
        ? 'complete'
        : `incomplete: ${before.length} damaged files`
  return { id, createdAt: manifest.createdAt, sequence, pools, segments, bytes, state, damaged }
}

function sayBackups(url: string, shown: readonly ShownBackup[], checked: string | undefined): void {
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
  const lines = new Set(
    shown.flatMap(({ damaged }) =>
      damaged.map(({ object, file, what }) => `${url}/${object} (${file}): ${what}`),
    ),
  )
  for (const line of lines) say(line)
  if (checked !== undefined) say(checked)
}
