/**
 * Removes backups beyond those to keep, and objects that no backup names: those of backups that
 * were removed, and of backups that died before their manifest.
 *
 * Manifests go first, so an interrupted removal leaves objects and no backup that lacks one. The
 * caller holds the claim, so no other backup counts on an object that goes.
 */
import type { BackupId } from './bucket-folder.ts'
import {
  forEachAtOnce,
  isObjectName,
  listObjects,
  manifestName,
  OBJECTS,
  objectName,
  readManifest,
} from './bucket-folder.ts'
import { partsOf, summaryOfManifest } from './bucket-format.ts'
import type { Claim } from './claim.ts'
import type { S3Client } from './s3-client.ts'

export interface Removed {
  readonly backups: number
  readonly objects: number
  readonly bytes: number
}

/**
 * Keeps the last `keep` complete backups and what is newer than them. An incomplete backup does not
 * count: damage would push the last good one out.
 * @param backups all of them, the oldest first
 * @throws Damaged or CannotRun a manifest that is kept cannot be read: no object was removed
 */
export async function removeOld(
  client: S3Client,
  claim: Claim,
  keep: number,
  backups: readonly BackupId[],
): Promise<Removed> {
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
  const remove = async (name: string) => {
    await claim.check()
    await client.remove(name)
  }
  await forEachAtOnce(old, ({ id }) => remove(manifestName(id)))
  const objects = [...(await listObjects(client))].filter(([name]) => !kept.has(name))
  await forEachAtOnce(objects, ([name]) => remove(name))
  const uploads = (await client.uploads(OBJECTS)).filter(({ name }) => isObjectName(name))
  await forEachAtOnce(uploads, async ({ name, uploadId }) => {
    await claim.check()
    await client.cancelUpload(name, uploadId)
  })
  return {
    backups: old.length,
    objects: objects.length,
    bytes: objects.reduce((sum, [, bytes]) => sum + bytes, 0),
  }
}
