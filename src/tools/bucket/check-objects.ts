/**
 * Whether the objects of a bucket are what was sent. Backups share them, so one that changed would
 * spoil each backup that names it.
 *
 * Where the server keeps the CRC-32 of an object, it is asked for it; else the object is read and
 * compared with its SHA-256. The server keeps none for objects of earlier versions of Weir, and
 * some servers keep none at all.
 */
import { Damaged, Unavailable } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'
import { forEachAtOnce } from '../backup/copy-file.ts'
import { OTHER_BYTES, objectName, readChecked } from './bucket-folder.ts'
import type { CheckedPart } from './bucket-format.ts'
import type { S3Client } from './s3-client.ts'

/** How an object was compared. 'not yet' where it must be read, and was not. */
type Compared = 'asked' | 'read' | 'not yet'

interface Check {
  readonly how: Compared
  /** What is wrong with the object. */
  readonly wrong?: string
}

/** A backup asks for the checksums of so many objects: at 20 ms each, 50 s. */
const SHARE_ASKED_MAX = 10_000
/** It reads so many bytes of objects without one, or this part of all: 32 backups read all. */
const SHARE_READ_BYTES_MIN = 64 * MiB
const SHARE_READ = 1 / 32

/** The last part that a backup has checked stands in the name of an empty object. */
const CHECKED = 'checked/'

/** @param mayRead false where an object without a checksum is not to be read */
export async function checkObject(client: S3Client, part: CheckedPart, mayRead = true): Promise<Check> {
  const { crc32 } = part
  if (crc32 !== undefined) {
    const head = await client.head(objectName(part))
    if (head === undefined) return { how: 'asked', wrong: 'it is not in the bucket' }
    if (head.crc32 !== undefined)
      return { how: 'asked', ...(head.crc32 === crc32 ? {} : { wrong: 'its CRC-32 is another one' }) }
  }
  return mayRead ? await readObjectOnce(client, part) : { how: 'not yet' }
}

/** An object in an archive can be shared, and cannot be read now. */
function passOverArchived(error: Error): Check {
  if (error instanceof Unavailable && error.code === 'bucket_archived') return { how: 'read' }
  throw error
}

/** Reads an object whole and compares it. */
export async function readObjectOnce(client: S3Client, part: CheckedPart): Promise<Check> {
  try {
    for await (const _ of readChecked(client, part));
    return { how: 'read' }
  } catch (error) {
    if (error instanceof Damaged) return { how: 'read', wrong: OTHER_BYTES }
    throw error
  }
}

/**
 * Checks a share of the objects, and goes on where the last backup stopped.
 * @param parts listed in their length, each once
 * @returns the names of wrong objects
 */
export async function checkShare(
  client: S3Client,
  parts: readonly CheckedPart[],
  share = { asked: SHARE_ASKED_MAX, readBytes: SHARE_READ_BYTES_MIN },
): Promise<Set<string>> {
  const { objects } = await client.list(CHECKED)
  const last =
    objects
      .map(({ name }) => /^checked\/([\da-f]{64})$/.exec(name)?.[1] ?? '')
      .sort()
      .at(-1) ?? ''
  const sorted = [...parts].sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
  const at = sorted.findIndex(({ sha256 }) => sha256 > last)
  const order = at < 0 ? sorted : [...sorted.slice(at), ...sorted.slice(0, at)]
  const wrong = new Set<string>()
  const open = new Set<CheckedPart>(order)
  let askedLeft = share.asked
  let readLeft = Math.max(share.readBytes, SHARE_READ * parts.reduce((sum, { bytes }) => sum + bytes, 0))
  await forEachAtOnce(order, async part => {
    if (askedLeft-- <= 0) return
    const check = await checkObject(client, part, readLeft > 0).catch(passOverArchived)
    if (check.how === 'read') readLeft -= part.bytes
    if (check.how !== 'not yet') open.delete(part)
    if (check.wrong !== undefined) wrong.add(objectName(part))
  })
  const next = order.findIndex(part => open.has(part))
  const reached = next > 0 ? order[next - 1]?.sha256 : undefined
  if (reached !== undefined) await client.put(`${CHECKED}${reached}`, new Uint8Array(0))
  for (const { name } of objects)
    if (/^checked\/[\da-f]{64}$/.test(name) && name !== `${CHECKED}${reached}`) await client.remove(name)
  return wrong
}
