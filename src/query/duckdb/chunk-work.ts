/**
 * Refuses a statement whose work on one chunk of rows is too long or takes too much memory, before
 * it starts.
 *
 *   statement's text work × bytes of each column in a chunk  >  limit   ──►  BAD_REQUEST
 *
 * DuckDB hears an interrupt only between two chunks, so that a query's time limit bounds all chunks
 * but the first. The number of rows does not matter here: the time limit bounds it.
 *
 * The bytes come from the footers of the segments. Where these allow too much, the lengths of the
 * texts are read once: 2,048 long rows may stand together, or nowhere.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { Unavailable } from '../../util/errors.ts'
import { CHUNK_ROWS, CHUNK_TEXT_BYTES_MAX } from '../../util/limits.ts'
import { quoteName, quoteText } from '../../util/sql.ts'
import type { TextWork } from '../plan/plan.ts'

/** Time of a statement's text operations for one chunk, at the slowest rates that were measured. */
const CHUNK_WORK_MS_MAX = 2_000
/** Nanoseconds for a byte that are not checked: a chunk is at most FLUSH_BYTES, so 2 s. */
const CHUNK_WORK_NS_UNCHECKED = 30
/** Files, and columns of files, of which the bytes of a chunk are known: some 200 bytes each. */
const TEXT_LENGTHS_CACHED_MAX = 20_000

/** The bytes of one column in a chunk of 2,048 rows. */
interface ChunkBytes {
  /** Of rows as they are scanned. */
  readonly scanned: number
  /** Of the longest texts of the file: a filter, a sort or a group may bring them together. */
  readonly longest: number
  /** Of one text. */
  readonly text: number
}

interface Footer {
  readonly groupBytes: number
  readonly fileBytes: number
  /** A text may be that of many rows. */
  readonly hasDictionary: boolean
}

/** The footers of columns by file and name. */
type Footers = ReadonlyMap<string, ReadonlyMap<string, Footer>>

export class ChunkWork {
  readonly #cachedMax: number
  readonly #footers = new Map<string, ReadonlyMap<string, Footer>>()
  readonly #lengths = new Map<string, ChunkBytes>()

  constructor(cachedMax = TEXT_LENGTHS_CACHED_MAX) {
    this.#cachedMax = cachedMax
  }

  /**
   * Rejects with Unavailable (`too_much_work`), and with DuckDB's error.
   * @param files that the statement reads
   */
  async check(
    connection: DuckDBConnection,
    work: readonly TextWork[],
    files: readonly string[],
    check: () => void,
  ): Promise<void> {
    if (files.length === 0 || isSmall(work)) return
    const read = async (sql: string) => {
      check()
      return await (await connection.run(sql)).getRows()
    }
    const footers = await this.#footersOf(files, read)
    const isPossible = (bytes: ReadonlyMap<string, ChunkBytes>) => problemOf(work, bytes) === undefined
    const names = [...new Set(work.map(({ name }) => name))]
    const bounds = new Map(names.map(name => [name, boundOf(footers, name)]))
    if (isPossible(bounds)) return
    const measured = new Map<string, ChunkBytes>()
    for (const name of names) measured.set(name, await this.#measure(footers, name, read))
    const problem = problemOf(work, measured)
    if (problem !== undefined) throw new Unavailable('too_much_work', problem)
  }

  /** Files never change, and a removed file's entry is dropped with the others. */
  async #footersOf(files: readonly string[], read: Read): Promise<Footers> {
    const footers = new Map(files.map(file => [file, this.#footers.get(file) ?? new Map<string, Footer>()]))
    const missing = files.filter(file => !this.#footers.has(file))
    if (missing.length === 0) return footers
    const rows = await read(`SELECT file_name, path_in_schema, MAX(total_uncompressed_size)::DOUBLE,
        SUM(total_uncompressed_size)::DOUBLE, BOOL_OR(encodings LIKE '%DICTIONARY%')
      FROM parquet_metadata([${missing.map(quoteText).join(', ')}]) WHERE type = 'BYTE_ARRAY' GROUP BY ALL`)
    const found = new Map(missing.map(file => [file, new Map<string, Footer>()]))
    for (const [file, column, groupBytes, fileBytes, hasDictionary] of rows as FooterRow[])
      found.get(file)?.set(column, { groupBytes, fileBytes, hasDictionary })
    if (this.#footers.size + found.size > this.#cachedMax) this.#footers.clear()
    for (const [file, each] of found) {
      this.#footers.set(file, each)
      footers.set(file, each)
    }
    return footers
  }

  /** Reads the lengths of a column's texts in the files where they are not known yet. */
  async #measure(footers: Footers, name: string, read: Read): Promise<ChunkBytes> {
    const known: ChunkBytes[] = []
    for (const [file, columns] of footers) {
      const footer = columns.get(name)
      if (footer === undefined) continue
      const key = `${file} ${name}`
      const bytes =
        this.#lengths.get(key) ?? chunkBytes((await read(lengthsSql(file, name))) as LengthRow[], footer)
      if (this.#lengths.size >= this.#cachedMax) this.#lengths.clear()
      this.#lengths.set(key, bytes)
      known.push(bytes)
    }
    const text = Math.max(0, ...known.map(each => each.text))
    return {
      scanned: Math.max(0, ...known.map(each => each.scanned)),
      longest: Math.min(
        text * CHUNK_ROWS,
        known.reduce((sum, each) => sum + each.longest, 0),
      ),
      text,
    }
  }
}

function boundOf(footers: Footers, name: string): ChunkBytes {
  let [scanned, longest, text] = [0, 0, 0]
  for (const columns of footers.values()) {
    const { groupBytes = 0, fileBytes = 0, hasDictionary = false } = columns.get(name) ?? {}
    const times = hasDictionary ? CHUNK_ROWS : 1
    scanned = Math.max(scanned, groupBytes * times)
    longest += fileBytes * times
    text = Math.max(text, groupBytes)
  }
  return { scanned, longest, text }
}

function chunkBytes(rows: readonly LengthRow[], { groupBytes, hasDictionary }: Footer): ChunkBytes {
  const [[window = 0] = []] = rows
  let [left, longest] = [CHUNK_ROWS, 0]
  for (const [, count, bytes, text] of rows) {
    const taken = Math.min(left, count)
    longest += Math.min(bytes, taken * text)
    left -= taken
  }
  // A chunk ends with its row group, but the windows do not.
  const scanned = hasDictionary ? window : Math.min(window, groupBytes)
  return { scanned, longest, text: rows[0]?.[3] ?? 0 }
}

type Read = (sql: string) => Promise<readonly (readonly unknown[])[]>
type FooterRow = [file: string, column: string, groupBytes: number, fileBytes: number, hasDictionary: boolean]
/** Texts of about one length: the largest window of all, their number, bytes, and the longest. */
type LengthRow = [window: number, count: number, bytes: number, text: number]

/** The longest texts come first. */
function lengthsSql(file: string, name: string): string {
  const source = `read_parquet([${quoteText(file)}], file_row_number = true)`
  return `WITH lengths AS MATERIALIZED (
      SELECT file_row_number // ${CHUNK_ROWS} AS w, bit_length(bin(strlen(${quoteName(name)}))) AS b,
        COUNT(*) AS n, SUM(strlen(${quoteName(name)})) AS bytes, MAX(strlen(${quoteName(name)})) AS longest
      FROM ${source} WHERE strlen(${quoteName(name)}) > 0 GROUP BY w, b)
    SELECT (SELECT MAX(all_bytes) FROM (SELECT SUM(bytes) AS all_bytes FROM lengths GROUP BY w))::DOUBLE,
      SUM(n)::DOUBLE, SUM(bytes)::DOUBLE, MAX(longest)::DOUBLE
    FROM lengths GROUP BY b ORDER BY b DESC`
}

/** True for work that no chunk of a segment makes too much. */
function isSmall(work: readonly TextWork[]): boolean {
  const sum = (of: 'ns' | 'made') => work.reduce((all, each) => all + each[of], 0)
  return !work.some(({ isOfJoin }) => isOfJoin) && sum('ns') <= CHUNK_WORK_NS_UNCHECKED && sum('made') <= 1
}

function problemOf(work: readonly TextWork[], bytes: ReadonlyMap<string, ChunkBytes>): string | undefined {
  let [ns, made] = [0, 0]
  for (const each of work) {
    const chunk = bytes.get(each.name)
    if (chunk === undefined) continue
    const size = sizeIn(each, chunk)
    ns += each.ns * size
    made += each.made * size
  }
  if (ns > CHUNK_WORK_MS_MAX * 1e6) return SEARCHES_TOO_MUCH
  return made > CHUNK_TEXT_BYTES_MAX ? MAKES_TOO_MUCH : undefined
}

function sizeIn({ isScan, isOfJoin, rows }: TextWork, { scanned, longest, text }: ChunkBytes): number {
  if (isOfJoin) return text * Math.min(CHUNK_ROWS, rows)
  return isScan ? Math.min(scanned, longest) : longest
}

const SEARCHES_TOO_MUCH = `the query compares or reads long texts too often: ${CHUNK_ROWS} rows of them would take more than ${CHUNK_WORK_MS_MAX / 1000} s, so use fewer patterns and functions, or columns with shorter texts`
const MAKES_TOO_MUCH = `the query makes too many long texts: those of ${CHUNK_ROWS} rows would take more than ${CHUNK_TEXT_BYTES_MAX} bytes, so use fewer functions, a LIMIT, or columns with shorter texts`
