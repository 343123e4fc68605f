/**
 * Restores a backup from a bucket into a new data folder, by the steps of `weir restore`
 * (backup/new-folder.ts). Each object is compared with its checksum while it is written; a folder
 * with a wrong one is removed again. With --incomplete, segments whose object is lost are left out.
 */

import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { Entry } from '../../catalog/documents/catalog-types.ts'
import { writeCatalog } from '../../catalog/lmdb/catalog-store.ts'
import { openEntry, readSecretKey } from '../../catalog/lmdb/seal.ts'
import { FORMAT_VERSION } from '../../util/data-folder.ts'
import { disk, writeDurably } from '../../util/disk.ts'
import { CannotRun, Damaged, must } from '../../util/errors.ts'
import { jsonIn } from '../../util/json.ts'
import { LOG_FILE_BYTES_MIN, MiB } from '../../util/limits.ts'
import type { Paths } from '../../util/paths.ts'
import { damagedText } from '../backup/backup-format.ts'
import { forEachAtOnce } from '../backup/copy-file.ts'
import {
  type Copy,
  fillNewFolder,
  type LostFile,
  type Restored,
  type RestoreOptions,
} from '../backup/new-folder.ts'
import { readBucketAddress } from './bucket-address.ts'
import {
  listBackups,
  listObjects,
  manifestName,
  OTHER_BYTES,
  objectName,
  readChecked,
  readManifest,
  whyNotListed,
} from './bucket-folder.ts'
import { type BucketManifest, type Part, segmentFiles, summaryOfManifest } from './bucket-format.ts'
import { S3Client } from './s3-client.ts'

/** Bytes of an object that is read into memory: a file of the log, the catalog, a key. */
const SMALL_BYTES_MAX = 512 * MiB

interface BucketRestore extends RestoreOptions {
  /** The last backup where none is given. */
  readonly id: string | undefined
  readonly endpoint: string | undefined
}

/**
 * Rejects with Damaged (an object is missing or has other bytes, the backup is incomplete),
 * CannotRun (no backup, or the folder cannot be used) or Unavailable (the bucket).
 */
export async function restoreBucket(options: BucketRestore): Promise<Restored> {
  const client = new S3Client(readBucketAddress(options.from, options.endpoint))
  const manifest = await findManifest(client, options)
  const leftOut = await fillNewFolder(disk, options.to, () => copyAll(client, manifest, options))
  return { ...summaryOfManifest(manifest), leftOut }
}

/** @throws as `restoreBucket` */
async function findManifest(
  client: S3Client,
  { id, takesIncomplete }: BucketRestore,
): Promise<BucketManifest> {
  const backups = await listBackups(client)
  const backup = id === undefined ? backups.at(-1) : backups.find(one => one.id === id)
  if (backup === undefined) {
    const there = backups.length === 0 ? 'there is none' : `weir backups ${client.url} lists them`
    throw new CannotRun(`${client.url} has no ${id === undefined ? 'backup' : `backup ${id}`}: ${there}`)
  }
  const manifest = await readManifest(client, backup)
  const where = `${client.url}/${manifestName(backup.id)}`
  if (manifest.folder > FORMAT_VERSION)
    throw new CannotRun(
      `${where} is of a data folder of format ${manifest.folder}, and this version of Weir reads up to ${FORMAT_VERSION}: use Weir ${JSON.stringify(manifest.weir)} or a later one`,
    )
  const { damaged } = summaryOfManifest(manifest)
  if (damaged.length > 0 && !takesIncomplete)
    throw new Damaged(
      where,
      0,
      `the backup is incomplete, these files were damaged before it was made: ${damagedText(damaged, '')}; weir restore --incomplete restores it as it is, and --backup another one`,
    )
  return manifest
}

/** Returns the folders, outermost first, and files whose object is missing or wrong. */
async function copyAll(
  client: S3Client,
  manifest: BucketManifest,
  { to, onProgress, takesIncomplete }: BucketRestore,
): ReturnType<Copy> {
  const bytesTotal = summaryOfManifest(manifest).bytes
  let bytesDone = 0
  const onBytes = (bytes: number) => {
    bytesDone += bytes
    onProgress({ phase: 'copy', bytesDone, bytesTotal })
  }
  const objects = await listObjects(client)
  const small = async (part: Part, bytesMax?: number): Promise<Uint8Array> => {
    const why = whyNotListed(objects, part)
    if (why !== undefined) throw new Damaged(`${client.url}/${objectName(part)}`, 0, why)
    const bytes = await readWhole(client, part)
    onBytes(bytes.byteLength)
    return bytesMax === undefined ? bytes : unpack(client, part, bytes, bytesMax)
  }
  writeDurably(disk, to.format, [Buffer.from(`weir ${manifest.folder}\n`)])
  // The key comes first: the catalog is sealed with it.
  writeDurably(disk, to.secretKey, [await small(manifest.secretKey)])
  if (manifest.admin !== undefined) writeDurably(disk, to.admin, [await small(manifest.admin)])
  disk.mkdir(to.log)
  for (const part of manifest.log)
    writeDurably(disk, join(to.log, part.name), [await small(part, LOG_FILE_BYTES_MIN)])
  const catalog = await small(manifest.catalog, SMALL_BYTES_MAX)
  const documents = readDocuments(`${client.url}/${objectName(manifest.catalog)}`, catalog, to)
  await writeCatalog(to.catalog, documents, disk)
  disk.mkdir(to.segment)
  const files = [...segmentFiles(manifest)]
  const folders = new Set(files.map(([path]) => dirname(join(to.root, path))))
  for (const folder of folders) disk.mkdir(folder)
  const lost: LostFile[] = []
  await forEachAtOnce(files, async ([path, part]) => {
    const file = join(to.root, path)
    const what = whyNotListed(objects, part) ?? (await copyObject(client, part, file, onBytes))
    if (what === undefined) return
    if (!takesIncomplete)
      throw new Damaged(
        `${client.url}/${objectName(part)}`,
        0,
        `${what}; it is ${path}. weir restore --incomplete restores all else, and --backup an earlier backup`,
      )
    lost.push({ path, what, found: file })
  })
  return { folders: [to.log, to.catalog, to.segment, ...folders], lost }
}

/** Returns what is wrong with the object, whose bytes are there all the same. */
async function copyObject(
  client: S3Client,
  part: Part,
  file: string,
  onBytes: (bytes: number) => void,
): Promise<string | undefined> {
  const copy = disk.open(file, 'wx')
  try {
    let position = 0
    for await (const bytes of readChecked(client, part)) {
      disk.write(copy, [bytes], position)
      disk.fdatasync(copy)
      position += bytes.byteLength
      onBytes(bytes.byteLength)
    }
    return undefined
  } catch (error) {
    if (error instanceof Damaged) return OTHER_BYTES
    throw error
  } finally {
    disk.close(copy)
  }
}

async function readWhole(client: S3Client, part: Part): Promise<Buffer> {
  if (part.bytes > SMALL_BYTES_MAX)
    throw new Damaged(`${client.url}/${objectName(part)}`, 0, `it has ${part.bytes} bytes`)
  const chunks: Buffer[] = []
  for await (const bytes of readChecked(client, part)) chunks.push(bytes)
  return Buffer.concat(chunks)
}

function unpack(client: S3Client, part: Part, bytes: Uint8Array, bytesMax: number): Uint8Array {
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax })
  } catch (error) {
    throw new Damaged(`${client.url}/${objectName(part)}`, 0, (error as Error).message)
  }
}

/** The documents of the catalog, opened with the key of the new folder. */
function readDocuments(where: string, json: Uint8Array, to: Paths): Entry[] {
  const refuse = (what: string): never => {
    throw new Damaged(where, 0, what)
  }
  const key = must(readSecretKey(to.secretKey, disk), 'the key was written')
  const documents = jsonIn(Buffer.from(json).toString())
  if (documents === undefined) return refuse('it is not JSON')
  const areEntries =
    Array.isArray(documents) &&
    documents.every(
      one =>
        Array.isArray(one) &&
        one.length === 2 &&
        typeof one[0] === 'string' &&
        typeof one[1] === 'object' &&
        one[1] !== null,
    )
  if (!areEntries) return refuse('it is no list of documents')
  return (documents as Entry[]).map(
    entry =>
      openEntry(entry, key) ??
      refuse(`the secret of the document ${JSON.stringify(entry[0])} cannot be opened`),
  )
}
