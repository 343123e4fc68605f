/**
 * The file `BACKUP`, which makes a folder a backup: what it holds, and length and checksum of every file. It is
 * written last, so a folder without it is no backup. See FORMAT.md.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { Damaged } from '../../util/errors.ts'
import type { BackupSummary, DamagedFile } from './backup-types.ts'

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
  if (typeof read !== 'object' || read === null || Array.isArray(read))
    return refuse('it is not a JSON object')
  const { checksum, ...contents } = read
  if (typeof checksum !== 'string' || checksum !== checksumOfRead(contents))
    return refuse('its checksum does not match')
  const format = contents.damaged === undefined ? BACKUP_FORMAT.whole : BACKUP_FORMAT.incomplete
  if (contents.format !== format)
    return refuse(
      `format ${shown(contents.format)}, this version of Weir reads ${Object.values(BACKUP_FORMAT)}`,
    )
  const wrong = wrongIn(contents)
  if (wrong !== undefined) return refuse(wrong)
  const whole = contents as BackupContents
  if (!Buffer.from(encodeBackup(whole)).equals(bytes)) refuse('it is not as it was written')
  if (whole.damaged === undefined) return whole
  return { ...whole, damaged: whole.damaged.map(({ path, what }) => ({ path, what: harmless(what) })) }
}

/** A checksum says that nothing changed, not who wrote it: each value must be what a backup says. undefined: it is. */
function wrongIn(contents: Unchecked): string | undefined {
  const { format: _, weir, sequence, createdAt, pools, segments, files, damaged = [], ...others } = contents
  for (const name of Object.keys(others)) return `it says ${shown(name)}, which no backup says`
  for (const [name, value] of Object.entries({ weir, createdAt }))
    if (typeof value !== 'string') return `its ${name} is no text`
  for (const [name, value] of Object.entries({ sequence, pools, segments }))
    if (!isCount(value)) return `its ${name} is no number of things`
  if (!Array.isArray(files) || !Array.isArray(damaged)) return 'its files are no list'
  const names = new Set<string>()
  for (const file of files as readonly (Unchecked | null)[]) {
    const path = file?.['path']
    if (typeof path !== 'string' || !isName(path))
      return `it names the file ${shown(path)}, which no backup has`
    if (names.has(path)) return `it names the file ${path} twice`
    if (!isCount(file?.['bytes'])) return `it gives no length of ${path}`
    if (typeof file?.['sha256'] !== 'string' || !/^[\da-f]{64}$/.test(file['sha256']))
      return `it gives no checksum of ${path}`
    if (Object.keys(file).length !== 3) return `it says more of ${path} than a backup says`
    names.add(path)
  }
  for (const path of NEVER_MISSING) if (!names.has(path)) return `it does not name the file ${path}`
  for (const one of damaged as readonly (Unchecked | null)[])
    if (
      typeof one?.['path'] !== 'string' ||
      typeof one['what'] !== 'string' ||
      !isName(one['path']) ||
      Object.keys(one).length !== 2
    )
      return `it names the damaged file ${shown(one?.['path'])}`
  return undefined
}

type Unchecked = { readonly [key: string]: unknown }

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** A value of somebody else, in a message: quoted, without control characters, and short. */
function shown(value: unknown): string {
  return harmless(JSON.stringify(value) ?? 'nothing')
}

/** A text of somebody else, for a terminal: without control characters, and short. */
function harmless(text: string): string {
  const short = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text
  return short.replace(/[\p{Cc}\p{Cf}]/gu, '\uFFFD')
}

/** Characters of such a text. */
const SHOWN_MAX = 200

/** Without them a restored folder would be taken for one that was never used. */
const NEVER_MISSING = ['FORMAT', 'catalog/data.mdb']

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

/** The same of what was read; undefined: it is nested so deeply, or is so long, that nothing can write it. */
function checksumOfRead(contents: object): string | undefined {
  try {
    return checksumOf(contents)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Does a backup have files of this name? */
function isName(path: string): boolean {
  return /^(FORMAT|admin\.json|catalog\/data\.mdb|log\/(head|\d{8}-\d{8}\.log)|segment\/\w{1,64}\/\d{10}\.(parquet|deletes))$/.test(
    path,
  )
}
