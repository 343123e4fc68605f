/**
 * The file `BACKUP`, which makes a folder a backup: what it holds, and length and checksum of every file. It is
 * written last, so a folder without it is no backup. See FORMAT.md.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { Damaged } from '../errors.ts'
import type { BackupSummary, DamagedFile } from './protocol.ts'

/** Versions of BACKUP and of the folder around it. 2: with damaged files, which a reader of 1 must not take for whole. */
export const BACKUP_FORMAT = { whole: 1, incomplete: 2 } as const

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
  readonly format: 1 | 2
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
  /** Format 2, never empty: those of `files` that were damaged already; one that was missing is empty here. */
  readonly damaged?: readonly DamagedFile[]
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
  const format = contents.damaged === undefined ? BACKUP_FORMAT.whole : BACKUP_FORMAT.incomplete
  if (contents.format !== format)
    return refuse(`format ${contents.format}, this version of Weir reads ${Object.values(BACKUP_FORMAT)}`)
  const whole = contents as BackupContents
  if (!Buffer.from(encodeBackup(whole)).equals(bytes)) refuse('it is not as it was written')
  for (const file of whole.files) if (!isInside(file.path)) refuse(`it names the file ${file.path}`)
  return whole
}

/** Counts of a backup, for people. */
export function summaryOf(contents: BackupContents): BackupSummary {
  const { sequence, pools, segments, files, damaged = [] } = contents
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  return { sequence, pools, segments, files: files.length, bytes, damaged }
}

/** The damaged files in one line, the first few by name; `root` is the folder that holds them. */
export function damagedText(damaged: readonly DamagedFile[], root: string): string {
  const named = damaged.slice(0, DAMAGED_NAMED_MAX).map(({ path, what }) => `${join(root, path)} (${what})`)
  const more = damaged.length - named.length
  return `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** `weir verify` names all. */
const DAMAGED_NAMED_MAX = 5

/** SHA-256 of the contents as JSON without white space, keys in their order. */
function checksumOf(contents: object): string {
  return createHash('sha256').update(JSON.stringify(contents)).digest('hex')
}

/** A path that leads nowhere but into the folder. */
function isInside(path: string): boolean {
  return path !== '' && path.split('/').every(part => /^[\w.-]+$/.test(part) && !/^\.+$/.test(part))
}
