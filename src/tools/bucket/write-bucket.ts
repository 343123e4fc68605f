/**
 * Writes a backup into a bucket.
 *
 *   claim → share of shared objects checked → log (its files may go then) → catalog → segments
 *         → all objects looked for → manifest
 *
 * The manifest is written last, so objects without one are no backup. An object that the bucket has
 * is not sent again: segments never change, so those that the last backup names are not even read.
 * One that is found wrong or missing is sent again. A backup that dies leaves an unfinished
 * manifest of what it has sent: the next one goes on from there, or retention removes the objects.
 *
 * A damaged segment does not stop the backup of all others (docs/decisions/0014).
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { readSecretKey, sealEntry } from '../../catalog/lmdb/seal.ts'
import { hasDeleteFile, type SegmentMeta } from '../../format/segment-meta.ts'
import { extractLog } from '../../log/copy-log.ts'
import { must } from '../../util/assert.ts'
import { monotonicMs, wallMs } from '../../util/clock.ts'
import { crc32, SELF_CHECKED } from '../../util/crc32.ts'
import { FORMAT_VERSION } from '../../util/data-folder.ts'
import { disk, readFile, removeFolder } from '../../util/disk.ts'
import { isUnreadable, Unavailable } from '../../util/errors.ts'
import { BACKUP_CHUNK_BYTES } from '../../util/limits.ts'
import { deleteFile, type Paths, pathsOf, poolFolder, segmentFile } from '../../util/paths.ts'
import { WEIR_VERSION } from '../../util/version.ts'
import type { BackupSummary } from '../backup/backup-format.ts'
import {
  asUnavailable,
  type BackupState,
  type CopyControl,
  counter,
  logOptions,
} from '../backup/write-backup.ts'
import { readBucketAddress } from './bucket-address.ts'
import {
  type BackupId,
  findUnfinished,
  forEachAtOnce,
  listBackups,
  listObjects,
  manifestName,
  newId,
  objectName,
  readManifest,
  UNFINISHED,
  whyNotListed,
} from './bucket-folder.ts'
import {
  type BackedUpPool,
  type BackedUpSegment,
  BUCKET_FORMAT,
  type BucketManifest,
  type CheckedPart,
  encodeManifest,
  type LogPart,
  type Part,
  partsOf,
  type SegmentPart,
  summaryOfManifest,
} from './bucket-format.ts'
import { checkShare } from './check-objects.ts'
import { Claim } from './claim.ts'
import { type Removed, removeOld } from './retention.ts'
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
  readonly removed?: Removed
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

/** The state of a backup that is being written. */
interface Writing {
  readonly client: S3Client
  readonly control: CopyControl
  readonly state: BackupState
  readonly from: Paths
  /** Objects that the bucket has, with their bytes. */
  readonly objects: Map<string, number>
  /** Names of those that the last backup or an unfinished one names, and that this one has sent. */
  readonly trusted: Set<string>
  /** Rows of segments that are trusted, by `keyOf`. */
  readonly known: ReadonlyMap<string, Part>
  /** Names of objects of the last backup that are missing or wrong. */
  readonly wrong: Set<string>
  sent: number
  mended: number
  savedMs: number
}

/**
 * Writes the backup, then removes older ones. Rejects with Damaged where the log cannot be read,
 * and with Unavailable where the backup was cancelled, or the bucket or the disk has an error. Then
 * there is no manifest.
 */
export async function writeBucketBackup(
  target: BucketTarget,
  state: BackupState,
  control: CopyControl,
): Promise<BucketSummary> {
  const { signal } = control.throttle
  const client = new S3Client(readBucketAddress(target.bucket, target.endpoint), { signal })
  const from = pathsOf(target.dataDir)
  disk.mkdir(from.temporary)
  const claim = await Claim.make(client, from.bucketClaim)
  try {
    const last = (await listBackups(client)).at(-1)
    const unfinished = await findUnfinished(client)
    control.onProgress({ phase: 'verify', bytesDone: 0, bytesTotal: 0 })
    const there = await findThere(client, last, unfinished)
    const writing: Writing = {
      ...{ client, control, state, from, ...there },
      ...{ sent: 0, mended: 0, savedMs: Number.NEGATIVE_INFINITY },
    }
    const createdAtMs = wallMs()
    const manifest = await sendAll(writing, createdAtMs)
    control.onProgress({ phase: 'sync', bytesDone: 0, bytesTotal: 0 })
    await findAll(client, manifest)
    const id = newId(createdAtMs, last?.id)
    const backups = await nameBackup(client, claim, id, manifest)
    await client
      .brief()
      .remove(manifestName(UNFINISHED))
      .catch(() => undefined) // the next backup finds it
    const removal = await removeOldOnes(client, claim, target.keep, backups)
    const { sent, mended, wrong } = writing
    return {
      ...summaryOfManifest(manifest),
      ...{ id, sent, wrong: { mended, lost: wrong.size } },
      ...removal,
    }
  } catch (error) {
    throw asUnavailable(error)
  } finally {
    await claim.end()
  }
}

/** What the bucket has of the last backup and of one that died, after a share of it was checked. */
async function findThere(client: S3Client, last: BackupId | undefined, unfinished: BackupId | undefined) {
  // A manifest that cannot be read saves nothing, and keeps no backup from being made.
  const read = async (id: BackupId | undefined) =>
    id === undefined ? undefined : await readManifest(client, id).catch(skipUnreadable)
  const manifests = [await read(last), await read(unfinished)]
  const objects = await listObjects(client)
  const parts = new Map<string, CheckedPart>()
  const wrong = new Set<string>()
  for (const [index, manifest] of manifests.entries())
    for (const part of manifest === undefined ? [] : partsOf(manifest))
      if (whyNotListed(objects, part) === undefined) parts.set(objectName(part), part)
      else if (index === 0) wrong.add(objectName(part))
  const trusted = new Set(parts.keys())
  for (const name of await checkShare(client, [...parts.values()])) {
    trusted.delete(name)
    objects.delete(name)
    wrong.add(name)
  }
  const known = new Map(manifests.flatMap(manifest => [...knownRows(manifest, trusted)]))
  return { objects, trusted, known, wrong }
}

function skipUnreadable(error: Error): undefined {
  if (error instanceof Unavailable) throw error
}

/** The segments of a backup that its own time found undamaged. */
function* knownRows(
  manifest: BucketManifest | undefined,
  trusted: ReadonlySet<string>,
): Generator<[string, Part]> {
  for (const { pool, segments } of manifest?.pools ?? [])
    for (const { segment, rows } of segments)
      if (rows !== undefined && rows.damaged === undefined && trusted.has(objectName(rows)))
        yield [keyOf(pool, segment, rows.crc32), rows]
}

function keyOf(pool: string, segment: number, crc: number | null): string {
  return `${pool}/${segment}/${crc}`
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
    await client
      .brief()
      .remove(name)
      .catch(() => undefined)
    throw error
  }
}

async function removeOldOnes(
  client: S3Client,
  claim: Claim,
  keep: number | undefined,
  backups: readonly BackupId[],
) {
  if (keep === undefined) return {}
  try {
    return { removed: await removeOld(client, claim, keep, backups) }
  } catch (error) {
    return { notRemoved: (error as Error).message }
  }
}

async function sendAll(writing: Writing, createdAtMs: number): Promise<BucketManifest> {
  const { state, control, from } = writing
  const log = await sendLog(writing)
  control.onLogCopied()
  control.onProgress({ phase: 'catalog', bytesDone: 0, bytesTotal: 0 })
  const key = must(readSecretKey(from.secretKey, disk), 'the key of an open catalog')
  const documents = JSON.stringify(state.documents.map(entry => sealEntry(entry, key)))
  const head = {
    format: BUCKET_FORMAT,
    weir: WEIR_VERSION,
    folder: FORMAT_VERSION,
    sequence: state.log.lastSequence,
    createdAt: new Date(createdAtMs).toISOString(),
    catalog: await sendBytes(writing, gzipSync(documents)),
    secretKey: await sendBytes(writing, key),
    ...(disk.exists(from.admin) ? { admin: await sendBytes(writing, readFile(disk, from.admin)) } : {}),
    log,
  } as const
  return { ...head, pools: await sendPools(writing, head) }
}

/** The part of the log that is not in segments, in files of its own that are removed when sent. */
async function sendLog(writing: Writing): Promise<LogPart[]> {
  const { state, control, from } = writing
  const folder = from.backupLog
  removeFolder(disk, folder) // of a backup whose thread failed
  try {
    const names = await extractLog({ disk, from: from.log, to: folder, ...logOptions(state, control) })
    const parts: LogPart[] = []
    for (const name of names)
      parts.push({ name, ...(await sendBytes(writing, gzipSync(readFile(disk, join(folder, name))))) })
    return parts
  } finally {
    removeFolder(disk, folder)
  }
}

async function sendPools(writing: Writing, head: Omit<BucketManifest, 'pools'>): Promise<BackedUpPool[]> {
  const { state, control } = writing
  const bytesTotal = state.pools
    .flatMap(({ segments }) => segments)
    .reduce((sum, { bytes }) => sum + bytes, 0)
  const counted = counter(control, 'segments', bytesTotal)
  counted(0)
  const pools = state.pools.map(({ poolId, segments }) => ({
    pool: poolId,
    segments,
    sent: [] as BackedUpSegment[],
  }))
  // A list has holes until all are sent.
  const sentPools = () => pools.map(({ pool, sent }) => ({ pool, segments: sent.filter(() => true) }))
  const all = pools.flatMap(({ pool, segments, sent }) =>
    segments.map((meta, index) => ({ pool, meta, sent, index })),
  )
  await forEachAtOnce(all, async ({ pool, meta, sent, index }) => {
    const before = writing.sent
    sent[index] = await sendSegment(writing, pool, meta)
    counted(meta.bytes)
    if (writing.sent > before) await saveUnfinished(writing, { ...head, pools: sentPools() })
  })
  return sentPools()
}

/** Notes what was sent, for the next backup if this one is killed. */
async function saveUnfinished(writing: Writing, manifest: BucketManifest): Promise<void> {
  if (monotonicMs() - writing.savedMs < UNFINISHED_MS) return
  writing.savedMs = monotonicMs()
  await writing.client.put(manifestName(UNFINISHED), encodeManifest(manifest))
}

async function sendSegment(writing: Writing, pool: string, meta: SegmentMeta): Promise<BackedUpSegment> {
  const folder = poolFolder(writing.from, pool)
  const { segment, checksum } = meta
  const deletes = hasDeleteFile(meta)
    ? await sendFile(writing, join(folder, deleteFile(segment)), SELF_CHECKED)
    : undefined
  if (meta.rows === 0 || checksum === null) return { segment, ...(deletes && { deletes }) }
  const file = join(folder, segmentFile(segment))
  const known: SegmentPart | undefined = writing.known.get(keyOf(pool, segment, checksum))
  const { sha256, bytes, damaged } = known ?? (await sendFile(writing, file, checksum))
  const rows = { sha256, bytes, crc32: checksum, ...(damaged === undefined ? {} : { damaged }) }
  return { segment, rows, ...(deletes && { deletes }) }
}

/**
 * Sends a file as it is, damaged or not. Of one that is missing or cannot be read nothing is sent.
 * @param checksum the CRC-32 that it should have
 */
async function sendFile(writing: Writing, file: string, checksum: number): Promise<SegmentPart> {
  const hash = createHash('sha256')
  let [crc, bytes] = [0, 0]
  let first: Uint8Array = new Uint8Array(0)
  try {
    for await (const part of readParts(writing, file)) {
      if (bytes === 0) first = part
      bytes += part.byteLength
      crc = crc32(part, crc)
      hash.update(part)
    }
  } catch (error) {
    if (!isUnreadable(error, file)) throw error
    const { code, message } = error as NodeJS.ErrnoException
    const what = code === 'ENOENT' ? 'it is missing' : message
    return { ...(await sendBytes(writing, new Uint8Array(0))), damaged: what }
  }
  const part = { sha256: hash.digest('hex'), bytes }
  await sendOnce(writing, { ...part, crc32: crc }, () =>
    bytes <= PART_BYTES
      ? writing.client.put(objectName(part), first)
      : sendLarge(writing, file, { ...part, crc32: crc }),
  )
  return crc === checksum ? part : { ...part, damaged: 'its bytes do not match their checksum' }
}

async function sendBytes(writing: Writing, bytes: Uint8Array): Promise<Part> {
  const part = { sha256: createHash('sha256').update(bytes).digest('hex'), bytes: bytes.byteLength }
  await sendOnce(writing, { ...part, crc32: crc32(bytes) }, () => writing.client.put(objectName(part), bytes))
  return part
}

type WholePart = Required<CheckedPart>

/**
 * Sends an object that the bucket lacks. Of one that no manifest names the bucket must know the
 * checksum.
 */
async function sendOnce(writing: Writing, part: WholePart, send: () => Promise<unknown>): Promise<void> {
  const name = objectName(part)
  const { client, control, objects, trusted, wrong } = writing
  if (trusted.has(name)) return
  trusted.add(name)
  if (objects.get(name) === part.bytes && (await client.head(name))?.crc32 === part.crc32) return
  await control.throttle.take(0)
  await send()
  writing.sent += part.bytes
  if (wrong.delete(name)) writing.mended += 1
}

/** Reads the file a second time, so that no file is ever whole in memory. */
async function sendLarge(writing: Writing, file: string, part: WholePart): Promise<void> {
  const { client } = writing
  const name = objectName(part)
  const upload = await client.beginUpload(name)
  try {
    const hash = createHash('sha256')
    const sent: SentPart[] = []
    for await (const bytes of readParts(writing, file)) {
      hash.update(bytes)
      sent.push(await client.putPart(name, upload, sent.length + 1, bytes))
    }
    if (hash.digest('hex') !== part.sha256)
      throw new Unavailable(
        'backup_failed',
        `${file} changed while it was read: weir verify checks the folder`,
      )
    await client.endUpload(name, upload, sent, part.crc32)
  } catch (error) {
    await client
      .brief()
      .cancelUpload(name, upload)
      .catch(() => undefined)
    throw error
  }
}

/** The bytes of a file in parts of PART_BYTES, at the rate of the backup. */
async function* readParts({ control }: Writing, file: string): AsyncGenerator<Uint8Array> {
  const opened = disk.open(file, 'r')
  try {
    const size = disk.size(file)
    for (let position = 0; position < size; ) {
      const part = new Uint8Array(Math.min(PART_BYTES, size - position))
      let filled = 0
      while (filled < part.byteLength) {
        const read = disk.read(opened, part.subarray(filled, filled + BACKUP_CHUNK_BYTES), position)
        if (read === 0) break
        filled += read
        position += read
        await control.throttle.take(read)
      }
      if (filled > 0) yield part.subarray(0, filled)
      if (filled < part.byteLength) return
    }
  } finally {
    disk.close(opened)
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
