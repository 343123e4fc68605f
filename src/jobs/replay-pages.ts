/**
 * The rejected events of a replay, page by page, as the requests that are posted.
 *
 *   W-9  A page has at most PAGE_ROWS rows, and fewer where their texts are more than an answer
 *        holds. The events of a request that was all or nothing are in one page. They fit: its body
 *        had at most 1 MiB, its envelope is repeated in at most as much, and 500 heads have 2 MiB.
 */
import type { Catalog } from '../catalog/catalog.ts'
import type { Pool, ReplayJob } from '../catalog/documents/model.ts'
import { rejectedPool } from '../catalog/rejected-pool.ts'
import { requestOfId } from '../parse/rejected-rows.ts'
import type { QuestionDeps } from '../query/ask.ts'
import { type BadQuery, isBadQuery } from '../query/expression/values.ts'
import { dataGrid } from '../query/plan/data-grid.ts'
import type { PoolReference } from '../query/plan/question.ts'
import type { Filter } from '../query/plan/where.ts'
import { must } from '../util/errors.ts'
import { ANSWER_CHARACTERS_MAX, BODY_BYTES_MAX, EVENTS_MAX } from '../util/limits.ts'
import { askPool, countRows } from './ask-pool.ts'

/** Rejected events of a page: as many as a DELETE takes, which removes them. */
const PAGE_ROWS = EVENTS_MAX
const COLUMNS = ['id', 'text', 'content_type', 'element_index', 'is_truncated', 'context']
/** A body is the array of its events. */
const BRACKETS_BYTES = 2

/** Events that are posted together. Neighbours that have the same context share a request. */
export interface ReplayedRequest {
  readonly events: readonly Replayed[]
  /**
   * All of its events are stored, or none: `body` where it was refused as a body, which is read as
   * it came; `array` where it was all or nothing. Absent where each event is for itself.
   */
  readonly whole?: 'body' | 'array'
  /** Why it is not posted. */
  readonly leftOut?: 'truncated' | 'incomplete'
  readonly contentType: string | null
  /** What columns read of the request, as JSON; null where they read nothing. */
  readonly context: string | null
}

interface Replayed {
  readonly id: string
  readonly text: string
}

interface AskingDeps {
  readonly catalog: Pick<Catalog, 'read'>
  readonly reading: QuestionDeps
}

export class ReplayPages {
  readonly #job: ReplayJob
  readonly #deps: AskingDeps
  #rows = PAGE_ROWS

  constructor(job: ReplayJob, deps: AskingDeps) {
    this.#job = job
    this.#deps = deps
  }

  /** The requests behind a position; none at the end. */
  async behind(position: string): Promise<readonly ReplayedRequest[] | BadQuery> {
    const rows = await this.#read([condition('id', 'GREATER_THAN', position)])
    if (isBadQuery(rows)) return rows
    const last = rows.at(-1)
    const { request, allOf } = requestOfId(last?.id ?? '')
    const from = rows.findIndex(({ id }) => requestOfId(id).request === request)
    if (allOf === undefined || rows.length - from >= allOf) return requestsOf(rows)
    // Others of its events may stand behind the page.
    if (from > 0) return requestsOf(rows.slice(0, from))
    // Its ids end with a hyphen and the place of the event. A full stop comes after a hyphen.
    const whole = [condition('id', 'GREATER_THAN', position), condition('id', 'LESS_THAN', `${request}.`)]
    const all = await readRows(this.#job, whole, 'ASC', EVENTS_MAX, this.#deps)
    return isBadQuery(all) ? all : requestsOf(all)
  }

  async #read(where: readonly Filter[]): Promise<readonly Row[] | BadQuery> {
    for (;;) {
      const rows = await readRows(this.#job, where, 'ASC', this.#rows, this.#deps)
      if (isBadQuery(rows)) {
        const isTooLarge = 'code' in rows && rows.code === 'answer_too_large'
        if (!isTooLarge || this.#rows === 1) return rows
        this.#rows = Math.ceil(this.#rows / 2)
        continue
      }
      // Twice as many of the same size have room, so the next page is hardly refused.
      if (charactersOf(rows) < ANSWER_CHARACTERS_MAX / 4) this.#rows = Math.min(PAGE_ROWS, 2 * this.#rows)
      return rows
    }
  }
}

interface Row extends Replayed {
  readonly contentType: string | null
  /** It was refused as a whole body. */
  readonly isBody: boolean
  readonly isTruncated: boolean
  readonly context: string | null
}

/** The id of the last event that a new job looks at; "" where there is none. */
export async function lastSelected(job: ReplayJob, deps: AskingDeps): Promise<string | BadQuery> {
  const rows = await readRows(job, [], 'DESC', 1, deps)
  return isBadQuery(rows) ? rows : (rows[0]?.id ?? '')
}

/** The number of events that a new job looks at. */
export function countSelected(job: ReplayJob, deps: AskingDeps): Promise<number | BadQuery> {
  return countRows(rejectedOf(deps), selectionOf(job, []), job.createdBy, deps)
}

async function readRows(
  job: ReplayJob,
  where: readonly Filter[],
  sort: 'ASC' | 'DESC',
  first: number,
  deps: AskingDeps,
): Promise<readonly Row[] | BadQuery> {
  const page = { columns: COLUMNS, orderByColumn: 1, sort, first, ...selectionOf(job, where) }
  const inputOf = (dataPool: PoolReference) => ({ ...page, dataPool })
  // Jobs ask as the application that made them, and wait in its line.
  const answer = await askPool(dataGrid, rejectedOf(deps), inputOf, job.createdBy, deps)
  return isBadQuery(answer) ? answer : answer.rows.map(rowOf)
}

function rejectedOf({ catalog }: AskingDeps): Pool {
  return must(rejectedPool(catalog.read), 'the pool of rejected events')
}

/** The rejected events of the pool that the job asks for. */
function selectionOf({ input, lastId }: ReplayJob, where: readonly Filter[]) {
  const own = [
    condition('data_pool_id', 'EQUALS', input.rejectedBy),
    ...(lastId === '' ? [] : [condition('id', 'LESS_THAN_OR_EQUAL_TO', lastId)]),
    ...where,
  ]
  return { filters: [...own, ...(input.filters as readonly Filter[])], filterSql: input.filterSql }
}

export function condition(column: string, operator: Filter['operator'], value: string): Filter {
  return { column, operator, value, and: [], or: [] }
}

function rowOf([id, text, contentType, index, isTruncated, context]: readonly (string | null)[]): Row {
  return {
    id: must(id, 'the id of a rejected event'),
    text: text ?? '',
    contentType: contentType ?? null,
    isBody: index === null,
    isTruncated: text === null || isTruncated === 'true',
    context: context ?? null,
  }
}

function charactersOf(rows: readonly Row[]): number {
  return rows.reduce((sum, { text, context }) => sum + text.length + (context?.length ?? 0), 0)
}

function requestsOf(rows: readonly Row[]): readonly ReplayedRequest[] {
  const requests: ReplayedRequest[] = []
  for (let from = 0; from < rows.length; ) {
    const request = requestFrom(rows, from)
    from += request.events.length
    requests.push(request)
  }
  return requests
}

function requestFrom(rows: readonly Row[], from: number): ReplayedRequest {
  const first = rows[from]!
  const { contentType, context } = first
  const { request, allOf } = requestOfId(first.id)
  if (allOf !== undefined) {
    const to = endOf(rows, from, ({ id }) => requestOfId(id).request === request)
    const events = rows.slice(from, to)
    const made = { events, whole: 'array', contentType, context } as const
    const isHere = events.length === allOf && !events.some(({ isTruncated }) => isTruncated)
    return isHere ? made : { ...made, leftOut: 'incomplete' }
  }
  if (first.isTruncated) return { events: [first], leftOut: 'truncated', contentType, context }
  if (first.isBody) return { events: [first], whole: 'body', contentType, context }
  // The context counts as a part of the body.
  let bytes = BRACKETS_BYTES + Buffer.byteLength(context ?? '{}')
  const to = endOf(rows, from, row => {
    bytes += 1 + Buffer.byteLength(row.text)
    const isAlike = row.context === context && !row.isBody && !row.isTruncated
    return isAlike && requestOfId(row.id).allOf === undefined && bytes <= BODY_BYTES_MAX
  })
  return { events: rows.slice(from, to), contentType, context }
}

/** The end of the rows from `from` on that belong together: at least one, at most EVENTS_MAX. */
function endOf(rows: readonly Row[], from: number, belongs: (row: Row) => boolean): number {
  let to = from
  while (to < rows.length && to - from < EVENTS_MAX && (belongs(rows[to]!) || to === from)) to += 1
  return to
}
