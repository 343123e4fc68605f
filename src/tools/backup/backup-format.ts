/**
 * The file `BACKUP`: what the backup holds, with length and checksum of every file. It is written
 * last, so a folder without it is no backup. See FORMAT.md.
 *
 * A backup may come from somebody else. A checksum proves that BACKUP did not change, but not who
 * wrote it, so every value is checked (docs/decisions/0031).
 */

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { Damaged } from '../../util/errors.ts'
import { isObject, jsonIn } from '../../util/json.ts'

/** Versions of the backup format. 2 has damaged files: a reader of 1 would take it for complete. */
export const BACKUP_FORMAT = { complete: 1, incomplete: 2 } as const

export interface BackupFile {
  /** Relative to the backup's folder, with slashes. */
  readonly path: string
  readonly bytes: number
  /** Hex. */
  readonly sha256: string
}

export interface BackupContents {
  readonly format: 1 | 2
  /** Version of Weir that wrote the backup. */
  readonly weir: string
  /** The backup has everything acknowledged up to this sequence, and nothing above. */
  readonly sequence: number
  /** ISO 8601 UTC: when copying began. */
  readonly createdAt: string
  readonly pools: number
  readonly segments: number
  /** Sorted by path. */
  readonly files: readonly BackupFile[]
  /**
   * Format 2 only, never empty: files that were damaged before the copy. The copy of a missing file
   * is empty.
   */
  readonly damaged?: readonly DamagedFile[]
}

/** A file that was damaged before it was copied. */
export interface DamagedFile {
  /** Relative to the backup's folder and to the data folder, with slashes. */
  readonly path: string
  readonly what: string
}

/** Counts of a backup. */
export interface BackupSummary {
  readonly sequence: number
  readonly pools: number
  readonly segments: number
  readonly files: number
  readonly bytes: number
  /** Empty where the backup is complete. */
  readonly damaged: readonly DamagedFile[]
}

/** The bytes of BACKUP. */
export function encodeBackup(contents: BackupContents): Uint8Array {
  return Buffer.from(`${JSON.stringify({ ...contents, checksum: checksumOf(contents) }, null, 1)}\n`)
}

/** @throws Damaged naming `path`: encodeBackup did not write it, or it has a later format */
export function decodeBackup(bytes: Uint8Array, path: string): BackupContents {
  const refuse = (what: string): never => {
    throw new Damaged(path, 0, what)
  }
  const read = jsonIn(Buffer.from(bytes).toString())
  if (read === undefined) return refuse('it is not JSON')
  if (!isObject(read)) return refuse('it is not a JSON object')
  const { checksum, ...contents } = read as Partial<BackupContents> & { readonly checksum?: unknown }
  if (typeof checksum !== 'string' || checksum !== checksumOfRead(contents))
    return refuse('its checksum does not match')
  const format = contents.damaged === undefined ? BACKUP_FORMAT.complete : BACKUP_FORMAT.incomplete
  if (contents.format !== format)
    return refuse(
      `it has format ${shown(contents.format)}, this version of Weir reads ${Object.values(BACKUP_FORMAT)}`,
    )
  const mistake = findMistake(contents)
  if (mistake !== undefined) return refuse(mistake)
  const checked = contents as BackupContents
  if (!Buffer.from(encodeBackup(checked)).equals(bytes)) refuse('it differs from what Weir writes')
  if (checked.damaged === undefined) return checked
  return { ...checked, damaged: checked.damaged.map(({ path, what }) => ({ path, what: harmless(what) })) }
}

/** Names the first value that no backup can have. Returns undefined where there is none. */
function findMistake(contents: Unchecked): string | undefined {
  const { format: _, weir, sequence, createdAt, pools, segments, files, damaged = [], ...others } = contents
  for (const name of Object.keys(others)) return `it has the key ${shown(name)}, which no backup has`
  for (const [name, value] of Object.entries({ weir, createdAt }))
    if (typeof value !== 'string') return `its ${name} is not a text`
  for (const [name, value] of Object.entries({ sequence, pools, segments }))
    if (!isCount(value)) return `its ${name} is not a count`
  if (!Array.isArray(files) || !Array.isArray(damaged)) return 'its files are not a list'
  const names = new Set<string>()
  for (const file of files as readonly (Unchecked | null)[]) {
    const path = file?.['path']
    if (typeof path !== 'string' || !isName(path))
      return `it lists the file ${shown(path)}, which no backup has`
    if (names.has(path)) return `it lists the file ${path} twice`
    if (!isCount(file?.['bytes'])) return `it has no length of ${path}`
    if (typeof file?.['sha256'] !== 'string' || !/^[\da-f]{64}$/.test(file['sha256']))
      return `it has no checksum of ${path}`
    if (Object.keys(file).length !== 3) return `it has more keys of ${path} than a backup has`
    names.add(path)
  }
  for (const path of NEVER_MISSING) if (!names.has(path)) return `it does not list the file ${path}`
  for (const one of damaged as readonly (Unchecked | null)[])
    if (
      typeof one?.['path'] !== 'string' ||
      typeof one['what'] !== 'string' ||
      !isName(one['path']) ||
      Object.keys(one).length !== 2
    )
      return `it lists the damaged file ${shown(one?.['path'])}, which no backup has`
  return undefined
}

type Unchecked = { readonly [key: string]: unknown }

export function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** A value of BACKUP for a message: quoted, short, and without control characters. */
export function shown(value: unknown): string {
  return harmless(JSON.stringify(value) ?? 'nothing')
}

/** A text of BACKUP for a terminal: short, and without control characters. */
export function harmless(text: string): string {
  const short = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text
  return short.replace(/[\p{Cc}\p{Cf}]/gu, '\uFFFD')
}

/** Characters of a text that are shown. */
const SHOWN_MAX = 200

/** Without these files a restored folder would look like one that was never used. */
const NEVER_MISSING = ['FORMAT', 'catalog/data.mdb']

/** The counts of a backup. */
export function summaryOf(contents: BackupContents): BackupSummary {
  const { sequence, pools, segments, files, damaged = [] } = contents
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  return { sequence, pools, segments, files: files.length, bytes, damaged }
}

/** The first damaged files in one line, as paths below `root`. */
export function damagedText(damaged: readonly DamagedFile[], root: string): string {
  const named = damaged.slice(0, DAMAGED_NAMED_MAX).map(({ path, what }) => `${join(root, path)} (${what})`)
  const more = damaged.length - named.length
  return `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** A message names at most this many damaged files. `weir verify` names all. */
const DAMAGED_NAMED_MAX = 5

/** SHA-256 of the contents as JSON without white space, keys in their order. */
function checksumOf(contents: object): string {
  return createHash('sha256').update(JSON.stringify(contents)).digest('hex')
}

/** Returns undefined for contents that are too deep or too long for JSON.stringify. */
function checksumOfRead(contents: object): string | undefined {
  try {
    return checksumOf(contents)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** True for a path that a file of a backup can have. */
function isName(path: string): boolean {
  return /^(FORMAT|admin\.json|secret\.key|catalog\/data\.mdb|log\/(head|\d{8}-\d{8}\.log)|segment\/\w{1,64}\/\d{10}\.(parquet|deletes))$/.test(
    path,
  )
}
