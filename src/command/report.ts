/** What a check found: findings are damage, notes are not. */
import { Damaged } from '../errors.ts'
import { FINDINGS_TOLD_MAX } from '../limits.ts'

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

export class Report {
  /** The first FINDINGS_TOLD_MAX. */
  readonly findings: Finding[] = []
  readonly notes: string[] = []
  #count = 0

  /** All findings, those that are not kept too. */
  get count(): number {
    return this.#count
  }

  find(file: string, what: string, place: Pick<Finding, 'offset' | 'row'> = {}): void {
    this.#count += 1
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

/** One line for people. */
export function findingText({ file, what, offset, row }: Finding): string {
  const place = offset !== undefined ? ` at byte ${offset}` : row !== undefined ? `, row ${row}` : ''
  return `${file}${place}: ${what}`
}
