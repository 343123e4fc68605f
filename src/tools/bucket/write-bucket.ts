/**
 * A bucket as the target of a backup.
 *
 *   claim → share of shared objects checked → log, catalog, segments → all objects looked for
 *         → manifest → older backups removed
 *
 * The manifest is written last, so objects without one are no backup. An object that the bucket has
 * is not sent again: segments never change, so those that the last backup names are not even read.
 * One that is found wrong or missing is sent again. A backup that dies leaves an unfinished
 * manifest of what it has sent: the next one goes on from there, or retention removes the objects.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { readSecretKey, sealEntry } from '../../catalog/lmdb/seal.ts'
import { monotonicMs, wallMs } from '../../util/clock.ts'
import { crc32, SELF_CHECKED } from '../../util/crc32.ts'
import { FORMAT_VERSION } from '../../util/data-folder.ts'
import { disk, readFile, removeFolder } from '../../util/disk.ts'
import { must, Unavailable } from '../../util/errors.ts'
import { deleteFile, type Paths, pathsOf, segmentFile } from '../../util/paths.ts'
import { WEIR_VERSION } from '../../util/version.ts'
import type { BackupSummary } from '../backup/backup-format.ts'
import { type Copied, type CopyDeps, forEachAtOnce, hashFile, readParts } from '../backup/copy-file.ts'
import type { BackupState, CopiedFile, CopyControl, Target } from '../backup/write-backup.ts'
import { readBucketAddress } from './bucket-address.ts'
import {
  type BackupId,
  findUnfinished,
  isObjectName,
  listBackups,
  listObjects,
  manifestName,
  newId,
  OBJECTS,
  objectName,
  readManifest,
  UNFINISHED,
  whyNotListed,
} from './bucket-folder.ts'
import {
  type BackedUpPool,
  BUCKET_FORMAT,
  type BucketManifest,
  type CheckedPart,
  encodeManifest,
  type LogPart,
  type Part,
  partsOf,
  segmentFiles,
  summaryOfManifest,
} from './bucket-format.ts'
import { checkShare } from './check-objects.ts'
import { Claim } from './claim.ts'
import { PART_BYTES, S3Client, type SentPart } from './s3-client.ts'

/** Time after which what was sent is noted again. A killed backup sends it once more. */
const UNFINISHED_MS = 10_000

export interface BucketTarget {
  /** Absolute path of the data folder. */
  readonly dataDir: string
  /** `s3://bucket/prefix`. */
  readonly bucket: string
  /** In place of the environment's. */
  readonly endpoint?: string
  /** Complete backups that stay; without it all do. */
  readonly keep?: number
}

export interface BucketSummary extends BackupSummary {
  readonly id: string
  /** Bytes of objects that were not in the bucket before. */
  readonly sent: number
  /** Objects of the last backup that were missing or wrong: those sent again, and the others. */
  readonly wrong: { readonly mended: number; readonly lost: number }
  readonly removed?: { readonly backups: number; readonly objects: number; readonly bytes: number }
  /** Why older backups were not removed. The backup itself is there. */
  readonly notRemoved?: string
}

/** One sentence that says why no backup can go to this bucket. It sends nothing. */
export function whyNotToBucket({ bucket, endpoint }: Omit<BucketTarget, 'dataDir'>): string | undefined {
  try {
    readBucketAddress(bucket, endpoint)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** What the bucket has, and what was sent. */
interface Sending {
  readonly client: S3Client
  readonly deps: CopyDeps
  /** Objects that the bucket has, with their bytes. */
  readonly objects: Map<string, number>
  /** Names of those that the last backup or an unfinished one names, and that this one has sent. */
  readonly trusted: Set<string>
  /** Rows of segments that are trusted, by path and CRC-32. */
  readonly known: ReadonlyMap<string, Copied>
  /** Names of objects of the last backup that are missing or wrong. */
  readonly wrong: Set<string>
  sent: number
  mended: number
}

/** Older backups are removed where the backup has its name. */
export function bucketTarget(
  { dataDir, bucket, endpoint, keep }: BucketTarget,
  state: BackupState,
  { throttle, onProgress }: CopyControl,
): Target<BucketSummary> {
  const client = new S3Client(readBucketAddress(bucket, endpoint), { signal: throttle.signal })
  const from = pathsOf(dataDir)
  const deps = { disk, throttle, onBytes: () => undefined }
  const log: LogPart[] = []
  const files = new Map<string, CopiedFile>()
  let claim: Claim | undefined
  let last: BackupId | undefined
  let sending!: Sending
  let head!: Omit<BucketManifest, 'pools'>
  let createdAtMs = 0
  let saved = { ms: Number.NEGATIVE_INFINITY, sent: 0 }
  return {
    begin: async () => {
      disk.mkdir(from.temporary)
      claim = await Claim.make(client, from.bucketClaim)
      last = (await listBackups(client)).at(-1)
      onProgress({ phase: 'verify', bytesDone: 0, bytesTotal: 0 })
      sending = { client, deps, ...(await findThere(client, last)), sent: 0, mended: 0 }
      createdAtMs = wallMs()
    },
    copyLog: async extract => {
      const folder = from.backupLog
      removeFolder(disk, folder) // of a backup whose thread failed
      try {
        for (const name of await extract(folder))
          log.push({ name, ...(await sendBytes(sending, gzipSync(readFile(disk, join(folder, name))))) })
      } finally {
        removeFolder(disk, folder)
      }
    },
    copyCatalog: async () => {
      head = { ...(await sendCatalog(sending, state, from, createdAtMs)), log }
      saved.sent = sending.sent
    },
    copyFile: async (path, checksum, onBytes) => {
      const known = sending.known.get(`${path} ${checksum}`)
      if (known === undefined) return await sendFile(sending, join(from.root, path), onBytes)
      onBytes(known.bytes)
      return known
    },
    readPart: async () => ({ ...(await sendBytes(sending, new Uint8Array(0))), checksum: 0 }),
    list: async (path, file) => {
      files.set(path, file)
      // Notes what was sent, for the next backup if this one is killed.
      if (sending.sent === saved.sent || monotonicMs() - saved.ms < UNFINISHED_MS) return
      saved = { ms: monotonicMs(), sent: sending.sent }
      await client.put(manifestName(UNFINISHED), encodeManifest({ ...head, pools: poolsOf(state, files) }))
    },
    end: async () => {
      const manifest = { ...head, pools: poolsOf(state, files) }
      await findAll(client, manifest)
      const id = newId(createdAtMs, last?.id)
      const held = must(claim, 'the claim of a backup')
      const backups = await nameBackup(client, held, id, manifest)
      await tryRemove(client, manifestName(UNFINISHED)) // or the next backup finds it
      const { sent, mended, wrong } = sending
      return {
        ...summaryOfManifest(manifest),
        ...{ id, sent, wrong: { mended, lost: wrong.size } },
        ...(keep === undefined ? {} : await removeOld(client, held, keep, backups)),
      }
    },
    close: async () => await claim?.end(),
  }
}

/** What stands in a manifest before the log. */
async function sendCatalog(
  sending: Sending,
  state: BackupState,
  from: Paths,
  createdAtMs: number,
): Promise<Omit<BucketManifest, 'log' | 'pools'>> {
  const key = must(readSecretKey(from.secretKey, disk), 'the key of an open catalog')
  const documents = JSON.stringify(state.documents.map(entry => sealEntry(entry, key)))
  return {
    format: BUCKET_FORMAT,
    weir: WEIR_VERSION,
    folder: FORMAT_VERSION,
    sequence: state.log.lastSequence,
    createdAt: new Date(createdAtMs).toISOString(),
    catalog: await sendBytes(sending, gzipSync(documents)),
    secretKey: await sendBytes(sending, key),
    ...(disk.exists(from.admin) ? { admin: await sendBytes(sending, readFile(disk, from.admin)) } : {}),
  }
}

function poolsOf({ pools }: BackupState, files: ReadonlyMap<string, CopiedFile>): BackedUpPool[] {
  return pools.map(({ poolId: pool, segments }) => ({
    pool,
    segments: segments.flatMap(({ segment, checksum: crc32 }) => {
      const rows = files.get(`segment/${pool}/${segmentFile(segment)}`)
      const deletes = files.get(`segment/${pool}/${deleteFile(segment)}`)
      if (rows === undefined && deletes === undefined) return []
      return [{ segment, ...(rows && { rows: withSum(rows, crc32) }), ...(deletes && { deletes }) }]
    }),
  }))
}

/** Keys stand in the order of FORMAT.md. */
function withSum({ sha256, bytes, damaged }: CopiedFile, crc32: number | null) {
  return { sha256, bytes, crc32: must(crc32, 'the CRC-32 of rows'), ...(damaged && { damaged }) }
}

/** What the bucket has of the last backup and of one that died, after a share of it was checked. */
async function findThere(client: S3Client, last: BackupId | undefined) {
  // A manifest that cannot be read saves nothing, and keeps no backup from being made.
  const read = async (id: BackupId | undefined) =>
    id &&
    (await readManifest(client, id).catch(error => {
      if (error instanceof Unavailable) throw error
    }))
  const manifests = [await read(last), await read(await findUnfinished(client))]
  const objects = await listObjects(client)
  const parts = new Map<string, CheckedPart>()
  const wrong = new Set<string>()
  for (const [index, manifest] of manifests.entries())
    for (const part of manifest ? partsOf(manifest) : [])
      if (whyNotListed(objects, part) === undefined) parts.set(objectName(part), part)
      else if (index === 0) wrong.add(objectName(part))
  const trusted = new Set(parts.keys())
  for (const name of await checkShare(client, [...parts.values()])) {
    trusted.delete(name)
    objects.delete(name)
    wrong.add(name)
  }
  // Rows that their own time found undamaged. The checksum of a delete file is that of all others.
  const known = new Map<string, Copied>()
  for (const manifest of manifests)
    for (const [path, part, checksum] of manifest ? segmentFiles(manifest) : [])
      if (checksum !== SELF_CHECKED && part.damaged === undefined && trusted.has(objectName(part)))
        known.set(`${path} ${checksum}`, { ...part, checksum })
  return { objects, trusted, known, wrong }
}

async function sendFile(sending: Sending, file: string, onBytes: CopyDeps['onBytes']): Promise<Copied> {
  const { client, deps } = sending
  let first: Uint8Array = new Uint8Array(0)
  const use = (bytes: Uint8Array, position: number) => {
    if (position === 0) first = bytes
  }
  const copied = await hashFile({ ...deps, onBytes }, file, use, PART_BYTES)
  const isLarge = copied.bytes > PART_BYTES
  const send = () => (isLarge ? sendLarge(sending, file, copied) : client.put(objectName(copied), first))
  await sendOnce(sending, copied, send)
  return copied
}

async function sendBytes(sending: Sending, bytes: Uint8Array): Promise<Part> {
  const part = { sha256: createHash('sha256').update(bytes).digest('hex'), bytes: bytes.byteLength }
  const send = () => sending.client.put(objectName(part), bytes)
  await sendOnce(sending, { ...part, checksum: crc32(bytes) }, send)
  return part
}

/**
 * Sends an object that the bucket lacks. Of one that no manifest names the bucket must know the
 * checksum.
 */
async function sendOnce(sending: Sending, part: Copied, send: () => Promise<unknown>): Promise<void> {
  const name = objectName(part)
  const { client, deps, objects, trusted, wrong } = sending
  if (trusted.has(name)) return
  trusted.add(name)
  if (objects.get(name) === part.bytes && (await client.head(name))?.crc32 === part.checksum) return
  await deps.throttle.take(0)
  await send()
  sending.sent += part.bytes
  if (wrong.delete(name)) sending.mended += 1
}

/** Reads the file a second time, so that no file is ever whole in memory. */
async function sendLarge(sending: Sending, file: string, part: Copied): Promise<void> {
  const { client, deps } = sending
  const name = objectName(part)
  const upload = await client.beginUpload(name)
  try {
    const hash = createHash('sha256')
    const sent: SentPart[] = []
    for await (const bytes of readParts(deps, file, PART_BYTES)) {
      hash.update(bytes)
      sent.push(await client.putPart(name, upload, sent.length + 1, bytes))
    }
    if (hash.digest('hex') !== part.sha256)
      throw new Unavailable(
        'backup_failed',
        `${file} changed while it was read: weir verify checks the folder`,
      )
    await client.endUpload(name, upload, sent, part.checksum)
  } catch (error) {
    await client
      .brief()
      .cancelUpload(name, upload)
      .catch(() => undefined)
    throw error
  }
}

/** Looks for each object of the backup, and for its length, before the manifest names it. */
async function findAll(client: S3Client, manifest: BucketManifest): Promise<void> {
  const objects = await listObjects(client)
  for (const part of partsOf(manifest)) {
    const why = whyNotListed(objects, part)
    if (why !== undefined)
      throw new Unavailable('bucket_checksum', `${client.url}/${objectName(part)} was sent, and ${why}`)
  }
}

/**
 * Writes the manifest. Takes it back where the claim was lost meanwhile: its objects may be gone.
 * Returns all backups, oldest first.
 */
async function nameBackup(
  client: S3Client,
  claim: Claim,
  id: string,
  manifest: BucketManifest,
): Promise<BackupId[]> {
  const name = manifestName(id)
  const json = encodeManifest(manifest)
  await claim.check()
  try {
    await client.put(name, json)
    await claim.check()
    const backups = await listBackups(client)
    const own = backups.at(-1)
    if (own?.id !== id || own.bytes !== json.byteLength)
      throw new Unavailable('bucket_checksum', `${client.url}: the list does not show the new backup ${id}`)
    return backups
  } catch (error) {
    await tryRemove(client, name)
    throw error
  }
}

async function tryRemove(client: S3Client, name: string): Promise<void> {
  const removed = client.brief().remove(name)
  await removed.catch(() => undefined)
}

/**
 * Removes backups beyond those to keep, and objects that no backup names: those of backups that
 * were removed, and of backups that died before their manifest.
 *
 * It keeps the last `keep` complete backups and what is newer than them. An incomplete backup does
 * not count: damage would push the last good one out. Manifests go first, so an interrupted removal
 * leaves objects and no backup that lacks one. The claim is held, so no other backup counts on an
 * object that goes.
 * @param backups all of them, the oldest first
 * @returns nothing was removed where a manifest that is kept cannot be read
 */
async function removeOld(
  client: S3Client,
  claim: Claim,
  keep: number,
  backups: readonly BackupId[],
): Promise<Pick<BucketSummary, 'removed' | 'notRemoved'>> {
  const remove = async (name: string) => {
    await claim.check()
    await client.remove(name)
  }
  try {
    const kept = new Set<string>()
    const old: BackupId[] = []
    let complete = 0
    for (const backup of backups.toReversed()) {
      if (complete === keep) {
        old.push(backup)
        continue
      }
      const manifest = await readManifest(client, backup)
      for (const part of partsOf(manifest)) kept.add(objectName(part))
      if (summaryOfManifest(manifest).damaged.length === 0) complete += 1
    }
    await forEachAtOnce(old, ({ id }) => remove(manifestName(id)))
    const objects = [...(await listObjects(client))].filter(([name]) => !kept.has(name))
    await forEachAtOnce(objects, ([name]) => remove(name))
    const uploads = (await client.uploads(OBJECTS)).filter(({ name }) => isObjectName(name))
    await forEachAtOnce(uploads, async ({ name, uploadId }) => {
      await claim.check()
      await client.cancelUpload(name, uploadId)
    })
    const bytes = objects.reduce((sum, [, size]) => sum + size, 0)
    return { removed: { backups: old.length, objects: objects.length, bytes } }
  } catch (error) {
    return { notRemoved: (error as Error).message }
  }
}
