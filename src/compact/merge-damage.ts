/** Which input a failed merge failed on: it is named, so that merges go around it. */
import { Damaged, SegmentDamaged, Unavailable } from '../errors.ts'
import type { MergeEngine } from './merge-engine.ts'
import type { Input } from './merge-input.ts'
import { fileList } from './merge-sql.ts'

/** DuckDB's message in one line, without where it came from. */
function lineOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return (message.split('\n', 1)[0] ?? message).replace(/^Failure running pending result task: /, '')
}

/** The merge needs more memory than it was given. */
export function isOutOfMemory(error: unknown): boolean {
  return lineOf(error).startsWith('Out of Memory Error')
}

/**
 * The typed error behind what DuckDB threw: SegmentDamaged where it names an input or one cannot be read, Unavailable
 * where the machine refuses, else `error` itself: our own fault. Reads the inputs whole where none is named.
 */
export async function explain(
  error: unknown,
  engine: MergeEngine,
  inputs: readonly Input[],
): Promise<unknown> {
  if (error instanceof Unavailable || error instanceof SegmentDamaged) return error
  const line = lineOf(error)
  if (isOutOfMemory(error)) return new Unavailable('merge_memory', line)
  // The machine's fault, not the segment's, though the message may name one.
  if (/Too many open files|No space left|Disk quota/.test(line)) return new Unavailable('merge_io', line)
  const named = inputs.find(({ file }) => line.includes(file))
  if (named !== undefined) return new SegmentDamaged(named.file, line)
  const found = await findDamaged(engine, inputs)
  if (found !== undefined) return found
  return line.startsWith('IO Error') ? new Unavailable('merge_io', line) : error
}

/** No column of a user begins like that, so it names the whole row. The first input whose `columns` cannot be read to their end, or that does not hold its rows. */
export async function findDamaged(
  engine: MergeEngine,
  inputs: readonly Input[],
  columns = '_service_row',
): Promise<SegmentDamaged | Unavailable | undefined> {
  for (const { file, meta } of inputs) {
    try {
      const sql = `SELECT COUNT(*), BIT_XOR(HASH(${columns})) FROM read_parquet(${fileList([file])}) _service_row`
      const rows = Number((await engine.run(sql))[0]?.[0] ?? 0)
      if (rows !== meta.rows) return new SegmentDamaged(file, `${rows} rows where ${meta.rows} are expected`)
    } catch (error) {
      if (error instanceof Unavailable) return error
      return new SegmentDamaged(file, lineOf(error))
    }
  }
  return undefined
}

/** What a reader of keys or deletes throws of an input: an input is damaged, and nothing else is wrong. */
export function asSegmentDamaged(error: unknown): unknown {
  if (error instanceof Damaged) return new SegmentDamaged(error.file, error.message)
  const { code, path } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' && path !== undefined) return new SegmentDamaged(path, 'the file is missing')
  return error
}
