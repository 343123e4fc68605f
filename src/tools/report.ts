/** What a check found: findings are damage, notes are not. */
import { Damaged } from '../util/errors.ts'
import { FINDINGS_TOLD_MAX } from '../util/limits.ts'
import { countText } from './text-table.ts'

/** One place that is not as it should be. */
export interface Finding {
  /** Absolute path of the file or folder. */
  readonly file: string
  readonly what: string
  /** Byte of the file, where it is known. */
  readonly offset?: number
  /** Row of the segment, where it is one row. */
  readonly row?: number
}

/** How much was looked at: a check that found nothing says of what. */
interface Checked {
  /** Files of a backup, compared with its list. */
  files: number
  pools: number
  segments: number
  rows: number
  deletes: number
  /** In the index; 0 where there is none. */
  keys: number
  logRecords: number
}

export class Report {
  readonly checked: Checked = { files: 0, pools: 0, segments: 0, rows: 0, deletes: 0, keys: 0, logRecords: 0 }
  /** There is no index, so that nothing says which segments there should be, nor what their bytes were. */
  isWithoutIndex = false
  /** The first FINDINGS_TOLD_MAX. */
  readonly findings: Finding[] = []
  /** What all findings name, those that are not kept too: no more than there are files and folders. */
  readonly files = new Set<string>()
  readonly notes: string[] = []
  #count = 0

  /** All findings, those that are not kept too. */
  get count(): number {
    return this.#count
  }

  find(file: string, what: string, place: Pick<Finding, 'offset' | 'row'> = {}): void {
    this.#count += 1
    this.files.add(file)
    if (this.findings.length < FINDINGS_TOLD_MAX) this.findings.push({ file, what, ...place })
  }

  /** Nothing is lost or wrong, but an operator may ask. */
  note(what: string): void {
    if (this.notes.length < FINDINGS_TOLD_MAX) this.notes.push(what)
  }

  /** Runs `work`; damage that it throws is a finding, and the answer undefined. Other errors are thrown on. */
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

/** What was looked at, for people. */
export function checkedText({ checked, isWithoutIndex }: Report): string {
  const { files, pools, segments, rows, deletes, keys, logRecords } = checked
  return [
    ...(files === 0 ? [] : [`${countText(files)} files as BACKUP lists them`]),
    `${countText(pools)} pools`,
    `${countText(segments)} segments with ${countText(rows)} rows and ${countText(deletes)} deletes`,
    ...(isWithoutIndex ? [] : [`${countText(keys)} keys`]),
    `${countText(logRecords)} log records`,
  ].join(', ')
}

/** One line for people. */
export function findingText({ file, what, offset, row }: Finding): string {
  const place = offset !== undefined ? ` at byte ${offset}` : row !== undefined ? `, row ${row}` : ''
  return `${file}${place}: ${what}`
}
