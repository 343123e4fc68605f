/**
 * The manifest of a backup in a bucket: what belongs to the backup, and which object holds it. It
 * is written last, so objects without one are no backup. See FORMAT.md.
 *
 * It names parts by what they are and not by the files of a data folder, and a backup may come from
 * somebody else, so every value is checked (docs/decisions/0031).
 */

import { createHash } from 'node:crypto'
import { SELF_CHECKED } from '../../util/crc32.ts'
import { CannotRun, Damaged } from '../../util/errors.ts'
import { isObject, jsonIn } from '../../util/json.ts'
import { deleteFile, segmentFile } from '../../util/paths.ts'
import { type BackupSummary, type DamagedFile, harmless, isCount, shown } from '../backup/backup-format.ts'

/** Version of manifests and objects. A later one is refused. */
export const BUCKET_FORMAT = 1

/** An object: its name is the SHA-256 of its bytes. */
export interface Part {
  readonly sha256: string
  readonly bytes: number
}

/** A part of a segment. `damaged`: what was wrong with it before the backup was made. */
export interface SegmentPart extends Part {
  readonly damaged?: string
}

interface BackedUpSegment {
  readonly segment: number
  /** The Parquet file, with the CRC-32 of its bytes. */
  readonly rows?: SegmentPart & { readonly crc32: number }
  /** The keys that its flush deleted. */
  readonly deletes?: SegmentPart
}

export interface BackedUpPool {
  readonly pool: string
  readonly segments: readonly BackedUpSegment[]
}

/** A file of the log; its object is compressed with gzip. */
export interface LogPart extends Part {
  readonly name: string
}

export interface BucketManifest {
  readonly format: typeof BUCKET_FORMAT
  /** Version of Weir that wrote the backup. */
  readonly weir: string
  /** FORMAT of the data folder: the version of segments, log records and documents. */
  readonly folder: number
  /** The backup has everything acknowledged up to this sequence, and nothing above. */
  readonly sequence: number
  /** ISO 8601 UTC: when copying began. */
  readonly createdAt: string
  /** The documents, sealed, as JSON that is compressed with gzip. */
  readonly catalog: Part
  readonly secretKey: Part
  /** Missing where the first application was deleted. */
  readonly admin?: Part
  readonly log: readonly LogPart[]
  readonly pools: readonly BackedUpPool[]
}

export function encodeManifest(manifest: BucketManifest): Uint8Array {
  return Buffer.from(JSON.stringify({ ...manifest, checksum: checksumOf(manifest) }))
}

/**
 * @param where the manifest's address, for messages
 * @throws CannotRun a later version wrote it; Damaged encodeManifest did not
 */
export function decodeManifest(bytes: Uint8Array, where: string): BucketManifest {
  const refuse = (what: string): never => {
    throw new Damaged(where, 0, what)
  }
  const read = jsonIn(Buffer.from(bytes).toString())
  if (read === undefined) return refuse('it is not JSON')
  if (!isObject(read)) return refuse('it is not a JSON object')
  const { checksum, ...manifest } = read
  if (isCount(manifest['format']) && (manifest['format'] as number) > BUCKET_FORMAT)
    throw new CannotRun(
      `${where} has format ${shown(manifest['format'])}, and this version of Weir reads up to ${BUCKET_FORMAT}: use the version that wrote it (${shown(manifest['weir'])}) or a later one`,
    )
  const mistake = findMistake(manifest)
  if (mistake !== undefined) return refuse(mistake)
  if (checksum !== checksumOf(manifest)) return refuse('its checksum does not match')
  return manifest as unknown as BucketManifest
}

type Unchecked = { readonly [key: string]: unknown }

/** Names the first value that no manifest can have. Returns undefined where there is none. */
function findMistake(manifest: Unchecked): string | undefined {
  const { format, weir, folder, sequence, createdAt, catalog, secretKey, admin, log, pools, ...others } =
    manifest
  for (const name of Object.keys(others)) return `it has the key ${shown(name)}, which no backup has`
  if (format !== BUCKET_FORMAT) return `it has format ${shown(format)}`
  if (typeof weir !== 'string' || typeof createdAt !== 'string' || Number.isNaN(Date.parse(createdAt)))
    return 'it does not say which version made it, and when'
  if (!isCount(folder) || !isCount(sequence)) return 'its folder or its sequence is not a number'
  if (!isPart(catalog) || !isPart(secretKey) || (admin !== undefined && !isPart(admin)))
    return 'it lacks the catalog or its key'
  if (!Array.isArray(log) || !log.every(one => isPart(one, ['name']) && isLogName((one as LogPart).name)))
    return 'its list of log files is not one'
  if (new Set(log.map(one => (one as LogPart).name)).size !== log.length) return 'it lists a log file twice'
  if (!Array.isArray(pools)) return 'it has no pools'
  const seen = new Set<string>()
  for (const one of pools as readonly (Unchecked | null)[]) {
    const pool = one?.['pool']
    if (typeof pool !== 'string' || !/^\w{1,64}$/.test(pool) || seen.has(pool))
      return `it lists the pool ${shown(pool)}`
    seen.add(pool)
    if (Object.keys(one!).length !== 2) return `the pool ${pool} has more keys than a backup has`
    if (!areSegments(one?.['segments'])) return `the segments of the pool ${pool} are not a list`
  }
  return undefined
}

function areSegments(segments: unknown): boolean {
  const seen = new Set<unknown>()
  return (
    Array.isArray(segments) &&
    segments.every((one: Partial<BackedUpSegment> | null) => {
      if (!isCount(one?.segment) || one!.segment! > 9_999_999_999 || seen.has(one!.segment)) return false
      seen.add(one!.segment)
      const { segment: _, rows, deletes, ...others } = one!
      if (Object.keys(others).length > 0) return false
      if (rows !== undefined && !(isPart(rows, ['crc32', 'damaged']) && isCount(rows.crc32))) return false
      if (deletes !== undefined && !isPart(deletes, ['damaged'])) return false
      return [rows, deletes].every(part => ['string', 'undefined'].includes(typeof part?.damaged))
    })
  )
}

function isPart(value: unknown, more: readonly string[] = []): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { sha256, bytes, ...others } = value as Unchecked
  if (typeof sha256 !== 'string' || !/^[\da-f]{64}$/.test(sha256) || !isCount(bytes)) return false
  return Object.keys(others).every(key => more.includes(key))
}

function isLogName(name: unknown): boolean {
  return typeof name === 'string' && /^(head|\d{8}-\d{8}\.log)$/.test(name)
}

/** An object with the CRC-32 of its bytes, where the manifest tells it. */
export interface CheckedPart extends Part {
  readonly crc32?: number
}

/** Every object that a backup needs. */
export function* partsOf(manifest: BucketManifest): Generator<CheckedPart> {
  const { catalog, secretKey, admin, log } = manifest
  yield* [catalog, secretKey, ...(admin === undefined ? [] : [admin]), ...log]
  for (const [, { sha256, bytes, damaged }, crc32] of segmentFiles(manifest))
    yield { sha256, bytes, ...(damaged === undefined ? { crc32 } : {}) }
}

/** Parts of segments with their places below a data folder, and the CRC-32 of undamaged ones. */
export function* segmentFiles({
  pools,
}: BucketManifest): Generator<[path: string, part: SegmentPart, crc32: number]> {
  for (const { pool, segments } of pools)
    for (const { segment, rows, deletes } of segments) {
      if (rows !== undefined) yield [`segment/${pool}/${segmentFile(segment)}`, rows, rows.crc32]
      if (deletes !== undefined) yield [`segment/${pool}/${deleteFile(segment)}`, deletes, SELF_CHECKED]
    }
}

/** The counts of a backup. `files` are its objects. */
export function summaryOfManifest(manifest: BucketManifest): BackupSummary {
  const parts = [...partsOf(manifest)]
  const damaged: DamagedFile[] = []
  for (const [path, part] of segmentFiles(manifest))
    if (part.damaged !== undefined) damaged.push({ path, what: harmless(part.damaged) })
  return {
    sequence: manifest.sequence,
    pools: manifest.pools.length,
    segments: manifest.pools.reduce((sum, { segments }) => sum + segments.length, 0),
    files: parts.length,
    bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    damaged,
  }
}

/** SHA-256 of the manifest without its checksum, as JSON without white space. */
function checksumOf(manifest: object): string {
  return createHash('sha256').update(JSON.stringify(manifest)).digest('hex')
}
