/**
 * Refuses a statement whose work on one chunk of rows is too long or takes too much memory, before
 * it starts.
 *
 *   statement's text work × bytes of each column in a chunk  >  limit   ──►  BAD_REQUEST
 *
 * DuckDB hears an interrupt only between two chunks, so that a query's time limit bounds all chunks
 * but the first. The number of rows does not matter here: the time limit bounds it.
 *
 * The bytes come from the footers of the segments. Where those allow too much, the lengths of the
 * texts are read once: 2,048 long rows may stand together, or nowhere.
 *
 * Where a policy hides rows, its own work is on all rows and has one half of the limits, and the
 * question's is on visible rows and has the other. What hidden rows hold refuses no question, and
 * how much is left for a question does not depend on them (docs/decisions/0106):
 *
 *   footers of all rows  ──►  lengths of all rows  ──►  lengths of the visible rows
 *
 * Each of these counts no more than the one before it, so the last alone decides.
 */
import { createHash } from 'node:crypto'
import type { DuckDBConnection } from '@duckdb/node-api'
import { ROW_NUMBER } from '../../format/row-changes.ts'
import { Unavailable } from '../../util/errors.ts'
import { CHUNK_ROWS, CHUNK_TEXT_BYTES_MAX } from '../../util/limits.ts'
import { quoteName, quoteText } from '../../util/sql.ts'
import type { Bound } from '../expression/values.ts'
import type { Statement, TextWork } from '../plan/plan.ts'
import { boundType, duckdbValue } from './duckdb-values.ts'
import { type PoolSources, passedRows, type SegmentSource } from './live-rows.ts'

/** Time of a statement's text operations for one chunk, at the slowest rates that were measured. */
const CHUNK_WORK_MS_MAX = 2_000
/** Nanoseconds for a byte that are not checked: a chunk is at most FLUSH_BYTES, so 2 s. */
const CHUNK_WORK_NS_UNCHECKED = 30
/** Files, and columns of files, of which the bytes of a chunk are known: some 200 bytes each. */
const TEXT_LENGTHS_CACHED_MAX = 20_000
/**
 * DuckDB puts chunks of which a filter leaves fewer than 64 rows together. A window may be parts of
 * two chunks.
 */
const SPARSE_ROWS = 2 * 64

/** The bytes of one column in a chunk of 2,048 rows. */
interface ChunkBytes {
  /** Of rows as they are scanned. */
  readonly scanned: number
  /** Of windows of which a policy leaves few rows: a chunk may have those of many. */
  readonly sparse: number
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

/** What a statement reads of a pool. */
type ReadPool = Pick<PoolSources, 'schema' | 'whole' | 'reduced' | 'restriction'>

/** One column of a segment, as far as its reader sees it. */
interface Column {
  readonly name: string
  readonly source: SegmentSource
  readonly footer: Footer
  readonly schema: PoolSources['schema']
  /** The policy's condition, and what tells it from others. Undefined: all rows are visible. */
  readonly condition: (Pick<Statement, 'sql' | 'bounds'> & { readonly key: string }) | undefined
}

/** Work that is bounded apart from other work of the statement. */
interface Part {
  readonly work: readonly TextWork[]
  readonly pools: readonly ReadPool[]
}

export class ChunkWork {
  readonly #cachedMax: number
  readonly #footers = new Map<string, ReadonlyMap<string, Footer>>()
  readonly #lengths = new Map<string, ChunkBytes>()
  /** Those of visible rows. Apart, because a policy may have as many conditions as tokens. */
  readonly #visibleLengths = new Map<string, ChunkBytes>()

  constructor(cachedMax = TEXT_LENGTHS_CACHED_MAX) {
    this.#cachedMax = cachedMax
  }

  /** Rejects with Unavailable (`too_much_work`), and with DuckDB's error. */
  async check(
    connection: DuckDBConnection,
    work: readonly TextWork[],
    pools: readonly ReadPool[],
    check: () => void,
  ): Promise<void> {
    const files = pools.flatMap(pool => sourcesOf(pool).map(({ file }) => file))
    if (files.length === 0 || isSmall(work)) return
    const read = async (sql: string, bounds: readonly Bound[] = []) => {
      check()
      return await (await connection.run(sql, bounds.map(duckdbValue), bounds.map(boundType))).getRows()
    }
    const footers = await this.#footersOf(files, read)
    const parts = partsOf(work, pools)
    for (const part of parts) {
      const problem = await this.#problemOf(part, 1 / parts.length, footers, read)
      if (problem !== undefined) throw new Unavailable('too_much_work', problem)
    }
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

  /** A sentence where the part's work is too much, whichever bytes are known of it. */
  async #problemOf(
    { work, pools }: Part,
    share: number,
    footers: Footers,
    read: Read,
  ): Promise<string | undefined> {
    const names = [...new Set(work.map(({ name }) => name))]
    const columns = names.flatMap(name => pools.flatMap(pool => columnsOf(pool, name, footers)))
    const lengthsOf = (column: Column) => this.#lengthsOf(column, read)
    const visibleOf = (column: Column) => this.#visibleOf(column, read)
    const hides = columns.some(({ condition }) => condition !== undefined)
    let problem: string | undefined
    for (const bytesOf of [boundOf, lengthsOf, ...(hides ? [visibleOf] : [])]) {
      const known = new Map<string, ChunkBytes>()
      for (const column of columns)
        known.set(column.name, both(known.get(column.name) ?? NOTHING, await bytesOf(column)))
      problem = tooMuch(work, known, share)
      if (problem === undefined) return undefined
    }
    return problem
  }

  /** Those of all rows. A policy may leave any of them in one chunk. */
  async #lengthsOf(column: Column, read: Read): Promise<ChunkBytes> {
    const { name, source, footer, condition } = column
    const key = `${source.file} ${name}`
    // A chunk ends with its row group, but the windows do not.
    const groupBytes = footer.hasDictionary ? Infinity : footer.groupBytes
    const rows = `read_parquet([${quoteText(source.file)}], file_row_number = true)`
    const bytes = await this.#remembered(this.#lengths, key, async () =>
      chunkBytes((await read(lengthsSql(rows, 'file_row_number', name))) as LengthRow[], groupBytes),
    )
    return { ...bytes, sparse: condition === undefined ? 0 : Infinity }
  }

  async #visibleOf(column: Column, read: Read): Promise<ChunkBytes> {
    const { name, source, schema, condition } = column
    if (condition === undefined) return await this.#lengthsOf(column, read)
    const key = `${source.file} ${name} ${condition.key}`
    const sql = lengthsSql(passedRows(schema, source, condition.sql), ROW_NUMBER, name)
    return await this.#remembered(this.#visibleLengths, key, async () =>
      chunkBytes((await read(sql, condition.bounds)) as LengthRow[], Infinity),
    )
  }

  async #remembered(known: Map<string, ChunkBytes>, key: string, read: () => Promise<ChunkBytes>) {
    const bytes = known.get(key) ?? (await read())
    if (known.size >= this.#cachedMax) known.clear()
    known.set(key, bytes)
    return bytes
  }
}

/** The work of each policy, then that of the question. */
function partsOf(work: readonly TextWork[], pools: readonly ReadPool[]): readonly Part[] {
  const ofPolicies = pools.map((pool, index) => ({
    work: work.filter(({ policyOf }) => policyOf === index),
    pools: [{ ...pool, restriction: undefined }],
  }))
  const ofQuestion = { work: work.filter(({ policyOf }) => policyOf === undefined), pools }
  return [...ofPolicies.filter(part => part.work.length > 0), ofQuestion]
}

function sourcesOf({ whole, reduced }: ReadPool): readonly SegmentSource[] {
  return [...whole, ...(reduced?.sources ?? [])]
}

/** A column in the segments of a pool, if the pool has it and its reader sees it. */
function columnsOf(pool: ReadPool, name: string, footers: Footers): readonly Column[] {
  const { schema, restriction: { columns = null, alone } = {} } = pool
  if (columns?.includes(name) === false) return []
  const condition = alone && { ...alone, key: keyOf(alone) }
  return sourcesOf(pool).flatMap(source => {
    const footer = footers.get(source.file)?.get(name)
    return footer === undefined ? [] : [{ name, source, footer, schema, condition }]
  })
}

/** A policy of 16 KiB is remembered as briefly as others. */
function keyOf({ sql, bounds }: Pick<Statement, 'sql' | 'bounds'>): string {
  return createHash('sha256')
    .update(JSON.stringify([sql, bounds]))
    .digest('base64url')
}

const NOTHING: ChunkBytes = { scanned: 0, sparse: 0, longest: 0, text: 0 }

function both(a: ChunkBytes, b: ChunkBytes): ChunkBytes {
  const text = Math.max(a.text, b.text)
  return {
    scanned: Math.max(a.scanned, b.scanned),
    sparse: a.sparse + b.sparse,
    longest: Math.min(text * CHUNK_ROWS, a.longest + b.longest),
    text,
  }
}

function boundOf({ footer, condition }: Column): ChunkBytes {
  const { groupBytes, fileBytes, hasDictionary } = footer
  const times = hasDictionary ? CHUNK_ROWS : 1
  const sparse = condition === undefined ? 0 : Infinity
  return { scanned: groupBytes * times, sparse, longest: fileBytes * times, text: groupBytes }
}

function chunkBytes(rows: readonly LengthRow[], groupBytes: number): ChunkBytes {
  const [[window = 0, sparse = 0] = []] = rows
  let [left, longest] = [CHUNK_ROWS, 0]
  for (const [, , count, bytes, text] of rows) {
    const taken = Math.min(left, count)
    longest += Math.min(bytes, taken * text)
    left -= taken
  }
  return { scanned: Math.min(window, groupBytes), sparse, longest, text: rows[0]?.[4] ?? 0 }
}

type Read = (sql: string, bounds?: readonly Bound[]) => Promise<readonly (readonly unknown[])[]>
type FooterRow = [file: string, column: string, groupBytes: number, fileBytes: number, hasDictionary: boolean]
/**
 * Texts of about one length: their number, bytes, and the longest. Before these the bytes of the
 * largest window of all, and those of all windows with few rows.
 */
type LengthRow = [window: number, sparse: number, count: number, bytes: number, text: number]

/** The longest texts come first. */
function lengthsSql(rows: string, rowNumber: string, name: string): string {
  return `WITH lengths AS MATERIALIZED (
      SELECT ${rowNumber} // ${CHUNK_ROWS} AS w, bit_length(bin(length)) AS b, COUNT(*) AS n,
        SUM(length) AS bytes, MAX(length) AS longest
      FROM (SELECT ${rowNumber}, coalesce(strlen(${quoteName(name)}), 0) AS length FROM ${rows}) GROUP BY w, b),
    windows AS (SELECT SUM(bytes) AS bytes, SUM(n) AS n FROM lengths GROUP BY w)
    SELECT (SELECT MAX(bytes) FROM windows)::DOUBLE,
      (SELECT coalesce(SUM(bytes), 0) FROM windows WHERE n < ${SPARSE_ROWS})::DOUBLE,
      SUM(n)::DOUBLE, SUM(bytes)::DOUBLE, MAX(longest)::DOUBLE
    FROM lengths GROUP BY b ORDER BY b DESC`
}

/** True for work that no chunk of a segment makes too much. */
function isSmall(work: readonly TextWork[]): boolean {
  const sum = (of: 'ns' | 'made') => work.reduce((all, each) => all + each[of], 0)
  return !work.some(({ isOfJoin }) => isOfJoin) && sum('ns') <= CHUNK_WORK_NS_UNCHECKED && sum('made') <= 1
}

function tooMuch(
  work: readonly TextWork[],
  bytes: ReadonlyMap<string, ChunkBytes>,
  share: number,
): string | undefined {
  let [ns, made] = [0, 0]
  for (const each of work) {
    const chunk = bytes.get(each.name)
    if (chunk === undefined) continue
    const size = sizeIn(each, chunk)
    ns += each.ns * size
    made += each.made * size
  }
  if (ns > share * CHUNK_WORK_MS_MAX * 1e6) return SEARCHES_TOO_MUCH
  return made > share * CHUNK_TEXT_BYTES_MAX ? MAKES_TOO_MUCH : undefined
}

function sizeIn({ isScan, isOfJoin, rows }: TextWork, bytes: ChunkBytes): number {
  const { scanned, sparse, longest, text } = bytes
  if (isOfJoin) return text * Math.min(CHUNK_ROWS, rows)
  return isScan ? Math.min(Math.max(scanned, sparse), longest) : longest
}

const SEARCHES_TOO_MUCH = `the query compares or reads long texts too often: ${CHUNK_ROWS} rows of them would take more than ${CHUNK_WORK_MS_MAX / 1000} s, so use fewer patterns and functions, or columns with shorter texts`
const MAKES_TOO_MUCH = `the query makes too many long texts: those of ${CHUNK_ROWS} rows would take more than ${CHUNK_TEXT_BYTES_MAX} bytes, so use fewer functions, a LIMIT, or columns with shorter texts`
