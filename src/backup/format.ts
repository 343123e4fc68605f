/**
 * The file `BACKUP`, which makes a folder a backup: what it holds, and length and checksum of every file. It is
 * written last, so a folder without it is no backup. See FORMAT.md.
 */
import { createHash } from 'node:crypto'
import { Damaged } from '../errors.ts'
import type { BackupSummary } from './protocol.ts'

/** Version of BACKUP and of the folder around it. 1: the first. */
export const BACKUP_FORMAT = 1

/** One file of a backup. */
export interface BackupFile {
  /** From the backup's folder, with slashes. */
  readonly path: string
  readonly bytes: number
  /** Hex. */
  readonly sha256: string
}

/** What BACKUP says. */
export interface BackupContents {
  readonly format: typeof BACKUP_FORMAT
  /** Version of Weir that wrote it. */
  readonly weir: string
  /** Everything acknowledged up to this sequence is in it, nothing above. */
  readonly sequence: number
  /** ISO 8601 UTC: when the state was taken. */
  readonly createdAt: string
  readonly pools: number
  readonly segments: number
  /** In the order of their paths. */
  readonly files: readonly BackupFile[]
}

/** The bytes of BACKUP. */
export function encodeBackup(contents: BackupContents): Uint8Array {
  return Buffer.from(`${JSON.stringify({ ...contents, checksum: checksumOf(contents) }, null, 1)}\n`)
}

/** @throws Damaged naming `path`: not what encodeBackup wrote, or of a later format */
export function decodeBackup(bytes: Uint8Array, path: string): BackupContents {
  const refuse = (what: string): never => {
    throw new Damaged(path, 0, what)
  }
  let read: Partial<BackupContents> & { readonly checksum?: unknown }
  try {
    read = JSON.parse(Buffer.from(bytes).toString()) as typeof read
  } catch {
    return refuse('it is not JSON')
  }
  if (typeof read !== 'object' || read === null) return refuse('it is not a JSON object')
  const { checksum, ...contents } = read
  if (checksum !== checksumOf(contents)) return refuse('its checksum does not match')
  if (contents.format !== BACKUP_FORMAT)
    return refuse(`format ${contents.format}, this version of Weir reads ${BACKUP_FORMAT}`)
  const whole = contents as BackupContents
  if (!Buffer.from(encodeBackup(whole)).equals(bytes)) refuse('it is not as it was written')
  for (const file of whole.files) if (!isInside(file.path)) refuse(`it names the file ${file.path}`)
  return whole
}

/** Counts of a backup, for people. */
export function summaryOf({ sequence, pools, segments, files }: BackupContents): BackupSummary {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  return { sequence, pools, segments, files: files.length, bytes }
}

/** SHA-256 of the contents as JSON without white space, keys in their order. */
function checksumOf(contents: object): string {
  return createHash('sha256').update(JSON.stringify(contents)).digest('hex')
}

/** A path that leads nowhere but into the folder. */
function isInside(path: string): boolean {
  return path !== '' && path.split('/').every(part => /^[\w.-]+$/.test(part) && !/^\.+$/.test(part))
}
