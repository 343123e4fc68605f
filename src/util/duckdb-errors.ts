/**
 * What DuckDB's errors mean, in queries and merges. They differ by their messages alone.
 *
 *   W-8  A damaged or missing segment is named, never counted short. What the machine refuses is
 *        never taken for damage.
 */
import { fileChecksum } from './crc32.ts'
import { disk } from './disk.ts'
import { CHECKSUM_DIFFERS, SegmentDamaged, Unavailable } from './errors.ts'
import { warn } from './say.ts'
import { quoteText } from './sql.ts'

/** The first line of DuckDB's message, without what the package puts before it. */
export function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return (message.split('\n', 1)[0] ?? message).replace(/^Failure running pending result task: /, '')
}

/** True if DuckDB or the system had no memory. An appender words this differently. */
export function isOutOfMemory(error: unknown): boolean {
  return /^Out of Memory Error|^Failed to append: (failed to|could not) allocate |std::bad_alloc|^(?:Invalid Input Error: )?Failed to allocate /.test(
    firstLine(error),
  )
}

/** True if the statement was interrupted. */
function isInterrupt(error: unknown): boolean {
  return firstLine(error).startsWith('INTERRUPT')
}

/** True for a bug of DuckDB's. No connection of the database answers anything after it. */
export function isBroken(error: unknown): boolean {
  const message = error instanceof Error ? error.message : ''
  return /^(?:INTERNAL|FATAL) Error/.test(firstLine(error)) || message.includes('has been invalidated')
}

/** The beginning of a code of Unavailable. */
type Stage = 'query' | 'merge'

/** Runs a statement, and resolves with its rows. */
type Run = (sql: string) => Promise<readonly (readonly unknown[])[]>

/** A segment that a failed statement read. */
interface ReadSegment {
  /** Absolute. */
  readonly file: string
  readonly meta: { readonly rows: number; readonly checksum: number | null }
}

/** The error where the machine refuses for now. The message may name a segment that is whole. */
function refusalOf(error: unknown, stage: Stage): Unavailable | undefined {
  if (error instanceof Unavailable) return error
  const line = firstLine(error)
  if (isOutOfMemory(error))
    return stage === 'query' ? queryMemory(line) : new Unavailable('merge_memory', line)
  const isOfDisk = /too many open files|no space left|disk quota/i.test(line)
  return isOfDisk ? ioFailure(stage, line) : undefined
}

/** A failure of another file than a segment. Only the log has its path. */
function ioFailure(stage: Stage, line: string): Unavailable {
  if (stage === 'query') warn(`a query failed: ${line}`)
  return new Unavailable(`${stage}_io`, stage === 'query' ? QUERY_IO : line)
}

const QUERY_IO =
  'the server cannot read or write a file that the query needs: try again later; the log of the server has the error'

const ASK_FOR_LESS = 'ask for fewer rows, groups or columns'

/**
 * What the caller of a query can do about DuckDB's limit, which its message shows as (used/limit
 * used). Other lines are about the memory of the process, which a query beside it may have taken.
 */
function queryMemory(line: string): Unavailable {
  if (line.includes('failed to offload'))
    return new Unavailable(
      'query_memory',
      `the query keeps more rows aside on the disk than it may: ${ASK_FOR_LESS}`,
    )
  const end = line.indexOf(' used)')
  if (end < 0)
    return new Unavailable(
      PROCESS_MEMORY,
      `the query process has no memory left for the query: ${ASK_FOR_LESS}, or shorter texts`,
    )
  const used = line.slice(line.lastIndexOf('(', end), end + ' used)'.length)
  return new Unavailable('query_memory', tooMuchMemory(` ${used}`))
}

/** The code of an error that no client sees (query/duckdb/engine-client.ts). */
export const PROCESS_MEMORY = 'process_memory'

function tooMuchMemory(used: string): string {
  return `the query needs more memory than its propeller has${used}: ${ASK_FOR_LESS}, or give the application a larger propeller`
}

/**
 * The error as a reader with a policy may see it. DuckDB's figures depend on hidden rows too, and
 * its lines about damage quote the values that it met.
 */
export function withoutDetails(error: unknown): unknown {
  if (error instanceof SegmentDamaged) return new SegmentDamaged(error.file, 'it is damaged')
  const isMemory = error instanceof Unavailable && ['query_memory', PROCESS_MEMORY].includes(error.code)
  return isMemory ? new Unavailable(error.code, tooMuchMemory('')) : error
}

/**
 * The first segment that is not what was written, that cannot be read to its end, or that lacks
 * rows. Damage may be readable: a flipped bit may make another column name. Rejects where an
 * interrupt, or a refusal of the machine, says nothing about a file.
 */
export async function findDamaged(
  segments: readonly ReadSegment[],
  stage: Stage,
  run: Run,
): Promise<SegmentDamaged | undefined> {
  for (const { file, meta } of segments) {
    try {
      if (meta.checksum !== null && fileChecksum(disk, file) !== meta.checksum)
        return new SegmentDamaged(file, CHECKSUM_DIFFERS)
      const sql = `SELECT COUNT(*), BIT_XOR(HASH(_service_row)) FROM read_parquet([${quoteText(file)}]) _service_row`
      const rows = Number((await run(sql))[0]?.[0] ?? 0)
      if (rows !== meta.rows) return new SegmentDamaged(file, `${rows} rows where ${meta.rows} are expected`)
    } catch (error) {
      if (isInterrupt(error)) throw error
      throwIfRefused(error, stage)
      return new SegmentDamaged(file, firstLine(error))
    }
  }
  return undefined
}

function throwIfRefused(error: unknown, stage: Stage): void {
  const refusal = refusalOf(error, stage)
  if (refusal !== undefined) throw refusal
}

/**
 * The typed error behind one of DuckDB's: SegmentDamaged where it names a segment, or a segment
 * cannot be read (all are read to find it); Unavailable where memory, disk or file descriptors ran
 * out; else `error` itself, which is a bug or an interrupt.
 */
export async function typedError(
  error: unknown,
  stage: Stage,
  segments: readonly ReadSegment[],
  run: Run,
): Promise<unknown> {
  if (error instanceof SegmentDamaged || isInterrupt(error)) return error
  const refusal = refusalOf(error, stage)
  if (refusal !== undefined) return refusal
  const line = firstLine(error)
  const named = segments.find(({ file }) => line.includes(file))
  if (named !== undefined) return new SegmentDamaged(named.file, line)
  try {
    const found = await findDamaged(segments, stage, run)
    if (found !== undefined) return found
  } catch (refused) {
    return isInterrupt(refused) ? error : refused
  }
  // No segment is damaged, so it was a file of our own: spilled data, or a copy.
  return line.startsWith('IO Error') ? ioFailure(stage, line) : error
}
