/**
 * Partial groups of questions that are kept for segments as long as these stay as they are: a
 * question then reads only the rows of the others (plan/partials.ts).
 *
 *   segment    kept where (file, number of deleted rows) is what it was computed with
 *   to keep    it was the same at the last run of the question, and is not small
 *   others     new, small, or with rows deleted since: their rows are read by each run
 *
 * Segments are kept in parts: one statement, and one row of each group. A part is dead when one of
 * its segments changed, so the newest segments, whose rows change most, have parts of their own.
 * The groups of a question are in one table of the instance, which no statement of a user can name.
 *
 *   W-8  A deleted row counts in no kept part: a segment's deleted rows only grow, so their number
 *        names one state, and a segment with another number is read.
 *   W-9  All tables have a limit of bytes, as DuckDB takes them. Beyond it the application with the
 *        most bytes loses the table that was not used for longest. Runs that read it go on.
 *
 * A run of readers below a policy uses parts of their own view alone. What they can learn by its
 * time stands in docs/decisions/0114.
 */
import type { DuckDBConnection, DuckDBInstance, DuckDBPreparedStatement } from '@duckdb/node-api'
import type { QuerySegment } from '../../index/index-types.ts'
import { DuckDBTypeId } from '../../util/duckdb.ts'
import { must } from '../../util/errors.ts'
import { getOrMake } from '../../util/get-or-make.ts'
import { internal } from '../expression/select.ts'
import { KEPT } from '../plan/partials.ts'
import { countDeletedRows } from './live-rows.ts'

/**
 * Segments of the newest part, of the next ones, and of all others. More make fewer rows, and more
 * to read again when one of them changes.
 */
const PART_SEGMENTS: readonly number[] = [1, 1, 2, 4]
/** A segment with fewer rows is read by each run: a merge soon takes its place. */
const SEGMENT_ROWS_MIN = 20_000
/** Of all bytes, for the table of one question. */
const QUESTION_SHARE = 1 / 4
/** Without the bytes of texts. Measured: 24 in large tables, 44 in those of 8,000 rows. */
const VALUE_BYTES = 40
const QUESTION_BYTES = 1_024
/** DuckDB gives each column of a table room for 2,048 values. Measured: 14 to 34 KB. */
const COLUMN_BYTES = 24 * 1_024
/** Of a table that an INSERT has changed, until it is written anew. Measured. */
const LOOSE_BYTES = 256 * 1_024
/** Of a segment's state in the last run. */
const SEEN_BYTES = 256
/** The column that tells the rows of one part. */
const PART = internal('part')

interface Part {
  readonly id: number
  readonly segments: States
  readonly bytes: number
}

/** Partial groups that were added. */
interface Groups {
  readonly rows: number
  readonly textBytes: number
}

/** It never loses rows: those of dead parts go when the others are written to another table. */
interface KeptTable {
  readonly name: string
  /** Runs that read it. */
  users: number
  /** No question needs it. */
  isUnused: boolean
  /** Rows were inserted after it was made. */
  isLoose: boolean
}

/** The number of deleted rows of each file. */
type States = ReadonlyMap<string, number>

interface KeptQuestion {
  readonly asked: AskedPartials
  table: KeptTable | undefined
  parts: readonly Part[]
  /** Bytes of groups in its table that no part has. */
  deadBytes: number
  /** Those of its last run. Undefined before the first one. */
  seen: States | undefined
  /** A run adds parts. */
  isChanging: boolean
  /** Nothing is kept: its groups are too many, or cannot be added. */
  isRefused: boolean
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
  /** False if the statement failed. Rejects as `add` does. */
  run(sql: string): Promise<boolean>
  /**
   * Adds the partial groups of the segments. Undefined if that failed, and the run should read the
   * rows. Rejects if the run is over.
   */
  add(segments: readonly QuerySegment[], to: NewGroups): Promise<Groups | undefined>
}

/** Where groups are added. */
interface NewGroups {
  readonly table: string
  readonly isNewTable: boolean
  /** Of PART. */
  readonly part: number
  /** Of more groups the others may be left out. */
  readonly rowsMax: number
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
    await this.#dropUnused()
    const question = this.#questionOf(asked)
    if (question.isRefused) return undefined
    const states = statesOf(segments)
    const seen = question.seen ?? states
    question.seen = states
    removeParts(question, part => !isAlive(part, states))
    this.#count(question)
    if (!question.isChanging) {
      question.isChanging = true
      try {
        await this.#fill(question, segments, seen, work)
        await this.#writeAnew(question, work)
      } finally {
        question.isChanging = false
      }
      // Nothing is awaited from here on: another run might drop the table before this one has it.
      this.#dropBeyondLimit()
    }
    return this.#groupsOf(question, segments)
  }

  /** Removes what was kept of these files, which nobody reads any more. */
  forget(files: readonly string[]): void {
    const isOfFiles = ({ segments }: Part) => files.some(file => segments.has(file))
    for (const question of this.#questions.values()) {
      if (!question.parts.some(isOfFiles)) continue
      removeParts(question, isOfFiles)
      if (question.parts.length === 0 && !question.isChanging) this.#drop(question)
    }
  }

  /** The question, now the most recently used. */
  #questionOf(asked: AskedPartials): KeptQuestion {
    const question = this.#questions.get(asked.key) ?? newQuestion(asked)
    this.#questions.delete(asked.key)
    this.#questions.set(asked.key, question)
    return question
  }

  /** Writes the table anew where it takes more memory than its parts need. */
  async #writeAnew(question: KeptQuestion, { run }: PartialsWork): Promise<void> {
    const { table, parts, deadBytes } = question
    if (table === undefined) return
    if (parts.length === 0) {
      this.#release(question)
      return
    }
    if (!table.isLoose && deadBytes <= bytesOf(parts)) return
    const anew = this.#newTable()
    if (!(await run(`CREATE TABLE ${anew.name} AS SELECT * FROM ${table.name} WHERE ${isOf(parts)}`))) return
    this.#giveUp(table, question.asked)
    // Parts that died meanwhile have rows in it.
    const dead = parts.filter(part => !question.parts.includes(part))
    Object.assign(question, { table: anew, deadBytes: bytesOf(dead) })
    this.#count(question)
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
    const { columns } = question.asked
    const questionBytesMax = this.#bytesMax * QUESTION_SHARE
    const rowsMax = Math.ceil(questionBytesMax / (columns * VALUE_BYTES))
    for (const chosen of inNewParts(missing)) {
      if (question.isRefused) break
      const isNewTable = question.parts.length === 0
      if (isNewTable) this.#release(question)
      const { table = this.#newTable() } = question
      const id = ++this.#last
      question.table = table
      table.isLoose ||= !isNewTable
      const groups = await add(chosen, { table: table.name, isNewTable, part: id, rowsMax })
      if (groups !== undefined) {
        const bytes = groups.rows * (columns + 1) * VALUE_BYTES + groups.textBytes
        question.parts = [...question.parts, { id, segments: statesOf(chosen), bytes }]
        this.#count(question)
      }
      question.isRefused = groups === undefined || bytesOf(question.parts) > questionBytesMax
    }
    if (question.isRefused) this.#release(question)
  }

  #newTable(): KeptTable {
    return { name: internal(`kept_${++this.#last}`), users: 0, isUnused: false, isLoose: false }
  }

  /** Takes the table of a question away from it. */
  #release(question: KeptQuestion): void {
    if (question.table !== undefined) this.#giveUp(question.table, question.asked)
    Object.assign(question, { table: undefined, parts: [], deadBytes: 0 })
    this.#count(question)
  }

  /** No question needs the table any more. It is dropped when the last run has read it. */
  #giveUp(table: KeptTable, { duckdb }: AskedPartials): void {
    table.isUnused = true
    if (table.users === 0) getOrMake(this.#unused, duckdb, () => []).push(table.name)
  }

  #drop(question: KeptQuestion): void {
    this.#release(question)
    this.#questions.delete(question.asked.key)
    this.#add(question.asked.fairKey, -question.bytes)
  }

  /** The groups of the question's parts, all of which are alive for the segments. */
  #groupsOf(
    { asked, table, parts }: KeptQuestion,
    segments: readonly QuerySegment[],
  ): KeptGroups | undefined {
    if (table === undefined || parts.length === 0) return undefined
    const kept = new Set(parts.flatMap(part => [...part.segments.keys()]))
    table.users += 1
    return {
      others: segments.filter(({ file }) => !kept.has(file)),
      sql: `${KEPT} AS NOT MATERIALIZED (SELECT * EXCLUDE (${PART}) FROM ${table.name} WHERE ${isOf(parts)})`,
      end: () => {
        table.users -= 1
        if (table.isUnused) this.#giveUp(table, asked)
      },
    }
  }

  /** On a connection of its own, which is not interrupted. */
  async #dropUnused(): Promise<void> {
    for (const [duckdb, tables] of this.#unused) {
      this.#unused.delete(duckdb)
      const connection = await duckdb.connect()
      try {
        for (const table of tables) await connection.run(`DROP TABLE IF EXISTS ${table}`)
      } finally {
        connection.closeSync()
      }
    }
  }

  #dropBeyondLimit(): void {
    while (this.#bytes > this.#bytesMax) {
      const [largest] = [...this.#bytesOf].sort((a, b) => b[1] - a[1])
      const free = [...this.#questions.values()].find(
        question => question.asked.fairKey === largest?.[0] && !question.isChanging,
      )
      // Those that change keep theirs: a few tables.
      if (free === undefined) return
      this.#drop(free)
    }
  }

  /** Counts the bytes of a question that has changed. */
  #count(question: KeptQuestion): void {
    const { asked, table, seen, parts, deadBytes, bytes } = question
    const ofTable = (asked.columns + 1) * COLUMN_BYTES + (table?.isLoose === true ? LOOSE_BYTES : 0)
    const own = QUESTION_BYTES + (seen?.size ?? 0) * SEEN_BYTES + (table === undefined ? 0 : ofTable)
    question.bytes = own + bytesOf(parts) + deadBytes
    this.#add(asked.fairKey, question.bytes - bytes)
  }

  #add(fairKey: string, bytes: number): void {
    this.#bytes += bytes
    const own = (this.#bytesOf.get(fairKey) ?? 0) + bytes
    if (own > 0) this.#bytesOf.set(fairKey, own)
    else this.#bytesOf.delete(fairKey)
  }
}

/** Adds the rows of a statement with groups. `bind` gives it its values. */
export async function addGroups(
  connection: DuckDBConnection,
  groups: string,
  { table, isNewTable, part, rowsMax }: NewGroups,
  bind: (prepared: DuckDBPreparedStatement) => void,
): Promise<Groups> {
  const into = isNewTable ? `CREATE TABLE ${table} AS` : `INSERT INTO ${table}`
  const prepared = await connection.prepare(
    `${into} SELECT ${part}::INTEGER AS ${PART}, * FROM (${groups}) LIMIT ${rowsMax}`,
  )
  try {
    bind(prepared)
    await prepared.run()
  } finally {
    prepared.destroySync()
  }
  const columns = await connection.run(`FROM ${table} LIMIT 0`)
  const lengths = columns.columnNames().flatMap((name, at) => {
    const type = columns.columnTypeId(at)
    if (type === DuckDBTypeId.VARCHAR) return `strlen(${name})`
    return type === DuckDBTypeId.BLOB ? `octet_length(${name})` : []
  })
  const texts = lengths.map(length => ` + coalesce(sum(${length}), 0)`).join('')
  const size = await connection.run(`SELECT count(*), 0${texts} FROM ${table} WHERE ${PART} = ${part}`)
  const [[rows, textBytes] = []] = await size.getRows()
  return { rows: Number(rows), textBytes: Number(textBytes) }
}

/** The segments of each new part, of segments that come with the newest first. */
function* inNewParts(segments: readonly QuerySegment[]): Generator<readonly QuerySegment[]> {
  let from = 0
  for (let part = 0; from < segments.length; part++) {
    const size = must(PART_SEGMENTS[Math.min(part, PART_SEGMENTS.length - 1)], 'a size')
    yield segments.slice(from, from + size)
    from += size
  }
}

function newQuestion(asked: AskedPartials): KeptQuestion {
  const nothing = { table: undefined, parts: [], deadBytes: 0, seen: undefined, bytes: 0 }
  return { asked, ...nothing, isChanging: false, isRefused: false }
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
  question.deadBytes += bytesOf(removed)
}

function bytesOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { bytes }) => sum + bytes, 0)
}

function isOf(parts: readonly Part[]): string {
  return `${PART} IN (${parts.map(({ id }) => id).join(', ')})`
}
