/**
 * Partial groups of questions that are kept for segments as long as these stay as they are: a
 * question then reads only the rows of the others (plan/partials.ts).
 *
 *   segment    kept where (file, number of deleted rows) is what it was computed with
 *   to keep    it was the same at the last run of the question, and is not small
 *   others     new, small, or with rows deleted since: their rows are read by each run
 *
 * Segments are kept in parts of up to PART_SEGMENTS: one statement, and one row of each group. A
 * part is dead when one of its segments changed. The groups of a question are in one table of the
 * instance, which no statement of a user can name.
 *
 *   W-8  A deleted row counts in no kept part: a segment's deleted rows only grow, so their number
 *        names one state, and a segment with another number is read.
 *   W-9  All tables have a limit of bytes. Beyond it the application with the most bytes loses the
 *        table that was not used for longest.
 *
 * A run of readers below a policy uses parts of their own view alone. What they can learn by its
 * time stands in docs/decisions/0114.
 */
import type { DuckDBInstance } from '@duckdb/node-api'
import type { QuerySegment } from '../../index/index-types.ts'
import { getOrMake } from '../../util/get-or-make.ts'
import { internal } from '../expression/select.ts'
import { KEPT } from '../plan/partials.ts'
import { countDeletedRows } from './live-rows.ts'

/** Segments of one part. More make fewer rows, and more to read again when one of them changes. */
const PART_SEGMENTS = 4
/** A segment with fewer rows is read by each run: a merge soon takes its place. */
const SEGMENT_ROWS_MIN = 20_000
/** Of all bytes, for the table of one question. */
const QUESTION_SHARE = 1 / 4
const VALUE_BYTES = 32
const QUESTION_BYTES = 1_024
/** Of a segment's state in the last run. */
const SEEN_BYTES = 256
/** Of SEGMENT_ROWS_MIN: dead rows for which a table is not written anew. */
const DEAD_SHARE_MIN = 1 / 20
/** The column that tells the rows of one part. */
export const PART = internal('part')

interface Part {
  readonly id: number
  readonly segments: States
  readonly rows: number
}

/** The number of deleted rows of each file. */
type States = ReadonlyMap<string, number>

interface KeptQuestion {
  readonly asked: AskedPartials
  table: string | undefined
  parts: readonly Part[]
  /** Rows of its table that no part has. */
  deadRows: number
  /** Those of its last run. Undefined before the first one. */
  seen: States | undefined
  /** Runs that read its table. */
  users: number
  /** `fills`: a run adds parts. `moves`: its table is written anew, and nobody may read it. */
  state: 'rests' | 'fills' | 'moves'
  isTooLarge: boolean
  bytes: number
}

export interface AskedPartials {
  /** Equal for equal questions. */
  readonly key: string
  /** The application. */
  readonly fairKey: string
  readonly duckdb: DuckDBInstance
  /** Of the partial groups. */
  readonly columns: number
}

export interface PartialsWork {
  run(sql: string): Promise<unknown>
  /** Adds the partial groups of the segments, with PART. Returns their number. */
  add(segments: readonly QuerySegment[], table: string, part: number): Promise<number>
}

/** Kept groups that a run reads. `end` must be called. */
export interface KeptGroups {
  /** The segments whose rows the run reads. */
  readonly others: readonly QuerySegment[]
  /** The definition of KEPT. */
  readonly sql: string
  end(): void
}

export class KeptPartials {
  readonly #bytesMax: number
  readonly #rowsMin: number
  /** The least recently used first. */
  readonly #questions = new Map<string, KeptQuestion>()
  readonly #bytesOf = new Map<string, number>()
  /** Tables that no question needs, until a run on their instance drops them. */
  readonly #unused = new Map<DuckDBInstance, string[]>()
  #bytes = 0
  #last = 0

  /**
   * @param bytesMax 0: nothing is kept
   * @param rowsMin only tests set it
   */
  constructor(bytesMax: number, rowsMin = SEGMENT_ROWS_MIN) {
    this.#bytesMax = bytesMax
    this.#rowsMin = rowsMin
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * What a run need not compute. Adds what is to be kept first. Undefined where nothing is kept:
   * the run reads all rows. Rejects as the work does.
   */
  async begin(
    asked: AskedPartials,
    segments: readonly QuerySegment[],
    work: PartialsWork,
  ): Promise<KeptGroups | undefined> {
    if (this.#bytesMax === 0) return undefined
    await this.#dropUnused(asked.duckdb, work)
    const question = this.#questionOf(asked)
    if (question.state === 'moves' || question.isTooLarge) return undefined
    const states = statesOf(segments)
    const seen = question.seen ?? states
    question.seen = states
    removeParts(question, part => !isAlive(part, states))
    this.#count(question)
    if (question.state === 'rests') {
      if (question.users === 0) await this.#move(question, work)
      await this.#fill(question, segments, seen, work)
      this.#dropBeyondLimit()
    }
    return groupsOf(question, segments)
  }

  /** Removes what was kept of these files, which nobody reads any more. */
  forget(files: readonly string[]): void {
    const isOfFiles = ({ segments }: Part) => files.some(file => segments.has(file))
    for (const question of this.#questions.values()) {
      if (!question.parts.some(isOfFiles)) continue
      removeParts(question, isOfFiles)
      if (question.parts.length === 0 && isFree(question)) this.#drop(question)
    }
  }

  /** The question, now the most recently used. */
  #questionOf(asked: AskedPartials): KeptQuestion {
    const question = this.#questions.get(asked.key) ?? newQuestion(asked)
    this.#questions.delete(asked.key)
    this.#questions.set(asked.key, question)
    return question
  }

  /** Writes the table anew where most of its rows are dead. */
  async #move(question: KeptQuestion, { run }: PartialsWork): Promise<void> {
    const { table, parts, deadRows } = question
    if (table === undefined || deadRows <= Math.max(this.#rowsMin * DEAD_SHARE_MIN, rowsOf(parts))) return
    if (parts.length === 0) {
      this.#release(question)
      return
    }
    question.state = 'moves'
    try {
      const moved = this.#newTable()
      await run(`CREATE TABLE ${moved} AS SELECT * FROM ${table} WHERE ${isOf(parts)}`)
      this.#release(question)
      Object.assign(question, { table: moved, parts })
    } finally {
      question.state = 'rests'
      this.#count(question)
    }
  }

  /** Adds parts of the segments that were the same at the last run. */
  async #fill(
    question: KeptQuestion,
    segments: readonly QuerySegment[],
    seen: States,
    { add }: PartialsWork,
  ): Promise<void> {
    const inParts = new Set(question.parts.flatMap(part => [...part.segments.keys()]))
    const missing = segments.filter(
      ({ file, meta, deletionVectors }) =>
        meta.rows >= this.#rowsMin &&
        !inParts.has(file) &&
        seen.get(file) === countDeletedRows(deletionVectors),
    )
    question.state = 'fills'
    try {
      for (let from = 0; from < missing.length && !question.isTooLarge; from += PART_SEGMENTS) {
        const chosen = missing.slice(from, from + PART_SEGMENTS)
        const { table = this.#newTable() } = question
        const into = question.table === undefined ? `CREATE TABLE ${table} AS` : `INSERT INTO ${table}`
        const id = ++this.#last
        const rows = await add(chosen, into, id)
        question.table = table
        question.parts = [...question.parts, { id, segments: statesOf(chosen), rows }]
        this.#count(question)
        question.isTooLarge = question.bytes > this.#bytesMax * QUESTION_SHARE
      }
    } finally {
      question.state = 'rests'
    }
    if (question.isTooLarge && question.users === 0) this.#release(question)
  }

  #newTable(): string {
    return internal(`kept_${++this.#last}`)
  }

  /** Takes the table of a question away from it. */
  #release(question: KeptQuestion): void {
    const { table, asked } = question
    if (table !== undefined) getOrMake(this.#unused, asked.duckdb, () => []).push(table)
    Object.assign(question, { table: undefined, parts: [], deadRows: 0 })
    this.#count(question)
  }

  #drop(question: KeptQuestion): void {
    this.#release(question)
    this.#questions.delete(question.asked.key)
    this.#add(question.asked.fairKey, -question.bytes)
  }

  async #dropUnused(duckdb: DuckDBInstance, { run }: PartialsWork): Promise<void> {
    const tables = this.#unused.get(duckdb) ?? []
    for (let table = tables.pop(); table !== undefined; table = tables.pop()) await run(`DROP TABLE ${table}`)
  }

  #dropBeyondLimit(): void {
    while (this.#bytes > this.#bytesMax) {
      const [largest] = [...this.#bytesOf].sort((a, b) => b[1] - a[1])
      const free = [...this.#questions.values()].find(
        question => question.asked.fairKey === largest?.[0] && isFree(question),
      )
      // Runs that are under way keep theirs: a few tables.
      if (free === undefined) return
      this.#drop(free)
    }
  }

  /** Counts the bytes of a question that has changed. */
  #count(question: KeptQuestion): void {
    const { asked, seen, parts, deadRows, bytes } = question
    const rows = rowsOf(parts) + deadRows
    question.bytes = QUESTION_BYTES + (seen?.size ?? 0) * SEEN_BYTES + rows * asked.columns * VALUE_BYTES
    this.#add(asked.fairKey, question.bytes - bytes)
  }

  #add(fairKey: string, bytes: number): void {
    this.#bytes += bytes
    const own = (this.#bytesOf.get(fairKey) ?? 0) + bytes
    if (own > 0) this.#bytesOf.set(fairKey, own)
    else this.#bytesOf.delete(fairKey)
  }
}

function newQuestion(asked: AskedPartials): KeptQuestion {
  const nothing = { table: undefined, parts: [], deadRows: 0, seen: undefined, users: 0, bytes: 0 }
  return { asked, ...nothing, state: 'rests', isTooLarge: false }
}

/** True if no run uses the question's table. */
function isFree({ users, state }: KeptQuestion): boolean {
  return users === 0 && state === 'rests'
}

function statesOf(segments: readonly QuerySegment[]): States {
  return new Map(segments.map(({ file, deletionVectors }) => [file, countDeletedRows(deletionVectors)]))
}

function isAlive(part: Part, states: States): boolean {
  for (const [file, deleted] of part.segments) if (states.get(file) !== deleted) return false
  return true
}

function removeParts(question: KeptQuestion, isRemoved: (part: Part) => boolean): void {
  const removed = question.parts.filter(isRemoved)
  if (removed.length === 0) return
  question.parts = question.parts.filter(part => !removed.includes(part))
  question.deadRows += rowsOf(removed)
}

function rowsOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { rows }) => sum + rows, 0)
}

function isOf(parts: readonly Part[]): string {
  return `${PART} IN (${parts.map(({ id }) => id).join(', ')})`
}

/** The groups of the question's parts, all of which are alive for the segments. */
function groupsOf(question: KeptQuestion, segments: readonly QuerySegment[]): KeptGroups | undefined {
  const { table, parts } = question
  if (table === undefined || parts.length === 0) return undefined
  const kept = new Set(parts.flatMap(part => [...part.segments.keys()]))
  question.users += 1
  return {
    others: segments.filter(({ file }) => !kept.has(file)),
    sql: `${KEPT} AS NOT MATERIALIZED (SELECT * EXCLUDE (${PART}) FROM ${table} WHERE ${isOf(parts)})`,
    end: () => {
      question.users -= 1
    },
  }
}
