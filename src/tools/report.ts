/** The result of a check: findings are damage, notes are not. */
import { Damaged } from '../util/errors.ts'
import { countText } from './text-tables.ts'

/** Findings that `weir verify` prints one by one; it counts further ones. */
export const FINDINGS_TOLD_MAX = 1_000

/** One damaged place. */
export interface Finding {
  /** Absolute path of the file or folder. */
  readonly file: string
  readonly what: string
  /** Byte of the file, where it is known. */
  readonly offset?: number
  /** Row of the segment, where one row is damaged. */
  readonly row?: number
}

export class Report {
  /** How much was checked. `files`: of a backup, compared with its list. `keys`: of the index. */
  readonly checked = { files: 0, pools: 0, segments: 0, rows: 0, deletes: 0, keys: 0, logRecords: 0 }
  /** Without an index, the list of live segments and their checksums are unknown. */
  isWithoutIndex = false
  /** The first FINDINGS_TOLD_MAX findings, which are printed. Further ones are only counted. */
  readonly findings: Finding[] = []
  /** The files and folders of all findings. */
  readonly files = new Set<string>()
  readonly notes: string[] = []
  /** The number of all findings, also of those beyond FINDINGS_TOLD_MAX. */
  count = 0

  find(file: string, what: string, place: Pick<Finding, 'offset' | 'row'> = {}): void {
    this.count += 1
    this.files.add(file)
    if (this.findings.length < FINDINGS_TOLD_MAX) this.findings.push({ file, what, ...place })
  }

  /** Adds something that an operator may ask about although nothing is damaged. */
  note(what: string): void {
    if (this.notes.length < FINDINGS_TOLD_MAX) this.notes.push(what)
  }

  /**
   * Runs `work`. Damaged becomes a finding, and the result is undefined; other errors are thrown.
   */
  async try<T>(work: () => Promise<T> | T): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof Damaged)) throw error
      this.damage(error)
      return undefined
    }
  }

  damage({ file, offset, message }: Damaged): void {
    const what = message.replace(`${file} is damaged at byte ${offset}: `, '')
    this.find(file, what, offset > 0 ? { offset } : {})
  }
}

export function checkedText({ checked, isWithoutIndex }: Report): string {
  const { files, pools, segments, rows, deletes, keys, logRecords } = checked
  return [
    ...(files === 0 ? [] : [`${countText(files)} files listed in BACKUP`]),
    `${countText(pools)} pools`,
    `${countText(segments)} segments with ${countText(rows)} rows and ${countText(deletes)} deletes`,
    ...(isWithoutIndex ? [] : [`${countText(keys)} keys`]),
    `${countText(logRecords)} log records`,
  ].join(', ')
}

export function findingText({ file, what, offset, row }: Finding): string {
  const place = offset !== undefined ? ` at byte ${offset}` : row !== undefined ? `, row ${row}` : ''
  return `${file}${place}: ${what}`
}
