/**
 * What stands below the prefix of a bucket: `backups/<id>.json`, the manifests, and
 * `objects/<SHA-256>`, which several backups may share. See FORMAT.md.
 */
import { createHash } from 'node:crypto'
import { Damaged } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'
import { type BucketManifest, decodeManifest, type Part } from './bucket-format.ts'
import { PART_BYTES, type S3Client } from './s3-client.ts'

const BACKUPS = 'backups/'
export const OBJECTS = 'objects/'
/** In the place of an id: the manifest of a backup that has not ended, of what it has sent. */
export const UNFINISHED = 'unfinished'
/** Bytes of a manifest, which is parsed in memory: 200 a segment. */
const MANIFEST_BYTES_MAX = 256 * MiB

/** A backup by its manifest's name. Later ones have larger ids. */
export interface BackupId {
  /** `20260131T093000123Z`: when it was made, UTC. */
  readonly id: string
  readonly bytes: number
}

export function objectName({ sha256 }: Pick<Part, 'sha256'>): string {
  return `${OBJECTS}${sha256}`
}

export function manifestName(id: string): string {
  return `${id === UNFINISHED ? '' : BACKUPS}${id}.json`
}

/** NaN where it is no id. */
function timeOfId(id: string): number {
  return Date.parse(id.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$/, '$1-$2-$3T$4:$5:$6.$7Z'))
}

/** An id above `last`, also where the clock was set back. */
export function newId(nowMs: number, last: string | undefined): string {
  const lastMs = last === undefined ? 0 : timeOfId(last)
  return new Date(Math.max(nowMs, lastMs + 1)).toISOString().replace(/[-:.]/g, '')
}

/** All backups, oldest first. Other names are not looked at. */
export async function listBackups(client: S3Client): Promise<BackupId[]> {
  const { objects } = await client.list(BACKUPS)
  return objects
    .map(({ name, bytes }) => ({ id: /^backups\/(\d{8}T\d{9}Z)\.json$/.exec(name)?.[1] ?? '', bytes }))
    .filter(({ id }) => !Number.isNaN(timeOfId(id)))
    .sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** What a backup that died had sent. */
export async function findUnfinished(client: S3Client): Promise<BackupId | undefined> {
  const { objects } = await client.list(manifestName(UNFINISHED))
  const found = objects.find(({ name }) => name === manifestName(UNFINISHED))
  return found && { id: UNFINISHED, bytes: found.bytes }
}

/** @throws CannotRun a later version wrote it; Damaged */
export async function readManifest(client: S3Client, { id, bytes }: BackupId): Promise<BucketManifest> {
  const where = `${client.url}/${manifestName(id)}`
  if (bytes > MANIFEST_BYTES_MAX)
    throw new Damaged(where, 0, `it has ${bytes} bytes, more than the maximum of ${MANIFEST_BYTES_MAX}`)
  const chunks: Uint8Array[] = []
  for await (const chunk of readObject(client, manifestName(id), bytes)) chunks.push(chunk)
  return decodeManifest(Buffer.concat(chunks), where)
}

/** The bytes of an object, in parts of at most PART_BYTES. @throws Damaged it is not there */
async function* readObject(client: S3Client, name: string, bytes: number): AsyncGenerator<Buffer> {
  for (let from = 0; from === 0 || from < bytes; from += PART_BYTES) {
    const length = Math.min(PART_BYTES, bytes - from)
    const part = bytes <= PART_BYTES ? client.get(name, bytes) : client.getPart(name, from, length)
    const read = await part
    if (read === undefined) throw new Damaged(`${client.url}/${name}`, from, 'it is not in the bucket')
    yield read
  }
}

/** The bytes of an object. @throws Damaged at their end where they are others */
export async function* readChecked(client: S3Client, part: Part): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  const name = objectName(part)
  for await (const bytes of readObject(client, name, part.bytes)) {
    hash.update(bytes)
    yield bytes
  }
  if (hash.digest('hex') !== part.sha256) throw new Damaged(`${client.url}/${name}`, 0, OTHER_BYTES)
}

export const OTHER_BYTES = 'its checksum is not the one in its name'

/** Says where the list lacks an object, or has it in another length. */
export function whyNotListed(objects: ReadonlyMap<string, number>, part: Part): string | undefined {
  const bytes = objects.get(objectName(part))
  if (bytes === part.bytes) return undefined
  return bytes === undefined
    ? 'it is not in the bucket'
    : `it has ${bytes} bytes, it should have ${part.bytes}`
}

/** True for a name that Weir gives. Another one could lead out of the prefix by its dots. */
export function isObjectName(name: string): boolean {
  return /^objects\/[\da-f]{64}$/.test(name)
}

/** Objects and their bytes. */
export async function listObjects(client: S3Client): Promise<Map<string, number>> {
  const { objects } = await client.list(OBJECTS)
  return new Map(objects.filter(({ name }) => isObjectName(name)).map(({ name, bytes }) => [name, bytes]))
}
