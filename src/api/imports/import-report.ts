/** The report of an import: what is durable, and which rows were refused. */
import type { ImportProgress } from '../../catalog/documents/model.ts'
import { type FieldComparison, NOTHING_COMPARED } from '../../parse/import/compare-fields.ts'
import type { BadRow, Done, ImportOptions, RowBatch } from '../../parse/import/import-types.ts'
import { must, type Refusal } from '../../util/errors.ts'
import type { Reply } from '../api-types.ts'
import type { Answer } from '../ingest/ingest-answer.ts'
import { problemFields } from '../problem.ts'

type ReportOptions = Pick<ImportOptions, 'format' | 'encoding' | 'skipRows' | 'errorsMax'>

export class ImportReport {
  readonly #options: ReportOptions
  #rows = 0
  #bytes = 0
  #accepted = 0
  #rejected = 0
  readonly #rejectedBy = new Map<string, number>()
  readonly #refused: BadRow[] = []
  #compared: FieldComparison = NOTHING_COMPARED

  constructor(options: ReportOptions) {
    this.#options = options
  }

  /** Adds a batch that is durable. `answer`: of ingest; absent where it had no events. */
  add(batch: RowBatch, answer: Answer | undefined): void {
    this.end(batch)
    const refused: BadRow[] = [...batch.refused]
    this.#count(batch.refusedBy)
    if (answer !== undefined) {
      this.#accepted += answer.accepted
      refused.push(...this.#refusedBy(batch, answer))
    }
    refused.sort((a, b) => a.row - b.row)
    this.#refused.push(...refused.slice(0, this.#options.errorsMax - this.#refused.length))
  }

  /** All rows up to here are counted: those of a batch, or of the body. */
  end({ rows, bytes, compared }: Done): void {
    this.#rows = rows
    this.#bytes = bytes
    this.#compared = compared ?? this.#compared
  }

  /** Rows that a resumed import may leave out: those of `skipRows` were stored before. */
  get durableRows(): number {
    return Math.max(this.#rows, this.#options.skipRows)
  }

  /** As the journal has it. Bytes of a body that is decoded mean nothing to a client. */
  progress(): ImportProgress {
    const { format, encoding } = this.#options
    return {
      rows: this.#rows,
      accepted: this.#accepted,
      rejected: this.#rejected,
      durableRows: this.durableRows,
      durableBytes: encoding === 'identity' && format !== 'parquet' ? this.#bytes : null,
    }
  }

  /** As an answer has it: the refused rows too, and how many of them it does not list. */
  fields() {
    return {
      ...this.progress(),
      skippedRows: Math.min(this.#options.skipRows, this.#rows),
      rejectedBy: Object.fromEntries(this.#rejectedBy),
      refused: this.#refused,
      refusedOmitted: this.#rejected - this.#refused.length,
      ...this.#compared,
    }
  }

  #count(codes: Iterable<readonly [code: string, count: number]>): void {
    for (const [code, count] of codes) {
      this.#rejected += count
      this.#rejectedBy.set(code, (this.#rejectedBy.get(code) ?? 0) + count)
    }
  }

  #refusedBy({ places }: RowBatch, answer: Answer): BadRow[] {
    const { refusal } = answer
    const placeOf = (index: number) => ({
      row: must(places[2 * index], 'the row of an event'),
      line: must(places[2 * index + 1], 'the line of an event'),
    })
    const events = refusal?.events ?? answer.errors ?? []
    if (refusal === undefined || refusal.code === 'no_valid_event') {
      this.#count(answer.rejectedBy)
      if (this.#refused.length >= this.#options.errorsMax) return [] // the report is full
      return events.map(({ index, code, column, message }) => ({
        ...placeOf(index),
        code,
        column,
        message,
      }))
    }
    // The document as a whole was refused: the thread's check and the parser do not agree.
    const { code, message } = refusal
    const count = places.length / 2
    this.#count([[code, count]])
    return Array.from({ length: count }, (_, index) => ({ ...placeOf(index), code, column: null, message }))
  }
}

export function doneReply(id: string, report: ImportReport): Reply {
  const fields = report.fields()
  const body = { import: id, ...fields, durableRows: fields.rows }
  return replyOf(200, 'application/json', body)
}

export function resumeText(durableRows: number): string {
  return `the first ${durableRows} rows are durable: resume with skipRows=${durableRows}`
}

export function failedReply(id: string, report: ImportReport, failure: Refusal): Reply {
  const detail = `${failure.message}; ${resumeText(report.durableRows)}`
  const problem = problemFields({ ...failure, message: detail, events: [] })
  const body = { ...problem, import: id, ...report.fields() }
  return replyOf(failure.status, 'application/problem+json', body, failure.headers)
}

function replyOf(
  status: number,
  contentType: string,
  body: ReturnType<ImportReport['fields']>,
  more: Readonly<Record<string, string>> = {},
): Reply {
  const headers = {
    ...more,
    'content-type': contentType,
    'x-events-accepted': String(body.accepted),
    'x-events-rejected': String(body.rejected),
  }
  return { status, headers, body: JSON.stringify(body) }
}
