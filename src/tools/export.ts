/**
 * `weir export`: writes the live rows of a pool to one file.
 *
 * DuckDB writes a Parquet file itself, all segments in one statement. The other formats are made of
 * record batches, which come as in the Arrow route (api/export-routes.ts).
 *
 *   W-8  A file gets its name when it is complete and synced.
 */

import { accessSync, constants, statSync } from 'node:fs'
import { dirname, extname, join, resolve } from 'node:path'
import { CLEAN, type CommandInput } from '../database/command.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import { openBatches } from '../query/arrow/copied-batches.ts'
import { arrowFile, textFile } from '../query/arrow/export-formats.ts'
import { type CopySegments, recordBatches, type SegmentGroup } from '../query/arrow/export-stream.ts'
import { copyRows, copyTo, parquetTarget, sweepCopies } from '../query/copy-rows.ts'
import { duckdb } from '../query/duckdb/write-statement.ts'
import { queryColumns } from '../query/expression/operand.ts'
import { prune } from '../query/plan/prune-segments.ts'
import type { SegmentEngine } from '../query/plan/segment-task.ts'
import { readColumns, type WrittenSelection, writeSelection } from '../query/selection.ts'
import { wallMs } from '../util/clock.ts'
import { disk, syncFile, syncFolder } from '../util/disk.ts'
import { CannotRun, Unavailable } from '../util/errors.ts'
import { EXPORT_COPY_MS_MAX, EXPORT_PIECE_BYTES } from '../util/limits.ts'
import { exportFile, unfinishedFile } from '../util/paths.ts'
import { note, sayBytes } from '../util/say.ts'
import { whenInterrupted } from './interrupts.ts'
import { type Offline, openOffline } from './offline.ts'
import { withProgress } from './progress.ts'
import { findPool } from './stopped-folder.ts'

/** Time for a whole export as Parquet, which is one statement. */
const EXPORT_FILE_MS_MAX = 24 * 3_600_000
/** Interval at which the size of an export is checked for its progress. */
const PROGRESS_CHECK_MS = 250

const FORMATS = ['parquet', 'arrow', 'ndjson', 'csv'] as const
const COMPRESSIONS = ['zstd', 'snappy', 'gzip', 'none'] as const

type ExportOptions = ReturnType<typeof optionsOf>

/** Runs `weir export`. Leaves no file when it throws CannotRun, Damaged or SegmentDamaged. */
export async function exportPool({ config, positionals, flags }: CommandInput): Promise<number> {
  const options = optionsOf(flags)
  checkOut(options)
  const offline = await openOffline(config)
  try {
    const { rows, bytes } = await writeRows(offline, positionals[0] ?? '', options)
    note(`${rows} rows, ${bytes} bytes`)
    return CLEAN
  } finally {
    await offline.close()
  }
}

/** `out` is a path, or `-`. */
function optionsOf(flags: CommandInput['flags']) {
  const out = flags.get('out')
  const compression = flags.get('compression')
  if (out === undefined || out === '')
    throw new CannotRun('weir export needs --out: a file, as in --out rows.parquet, or - for standard output')
  const format = formatOf(flags.get('format'), out)
  if (compression !== undefined && format !== 'parquet')
    throw new CannotRun('--compression is for --format parquet')
  return {
    format,
    compression: oneOf(COMPRESSIONS, 'compression', compression ?? 'zstd'),
    selection: {
      columns: columnsOf(flags.get('columns')),
      filters: flags.get('where'),
      start: flags.get('start'),
      stop: flags.get('stop'),
    },
    out,
    force: flags.has('force'),
  }
}

/** The format by its flag, else by the suffix of the file, else Parquet. */
function formatOf(given: string | undefined, out: string): (typeof FORMATS)[number] {
  if (given !== undefined) return oneOf(FORMATS, 'format', given)
  const suffix = extname(out).toLowerCase()
  if (UNWRITTEN.includes(suffix))
    throw new CannotRun(`no format is written as ${suffix}: name one with --format, as in --format parquet`)
  return SUFFIXES[suffix] ?? 'parquet'
}

/** Suffixes of files that nobody expects to be Parquet. */
const UNWRITTEN: readonly string[] = ['.json', '.tsv', '.txt', '.gz', '.zst', '.zip']

const SUFFIXES: Readonly<Record<string, (typeof FORMATS)[number]>> = {
  '.parquet': 'parquet',
  '.arrow': 'arrow',
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.csv': 'csv',
}

function columnsOf(text: string | undefined): readonly string[] | undefined {
  const columns = text === undefined ? undefined : readColumns(text)
  if (columns !== undefined && 'badRequest' in columns)
    throw new CannotRun(
      `--columns takes names between commas, or a JSON list: --columns '["a","b, with a comma"]'`,
    )
  return columns
}

function oneOf<T extends string>(list: readonly T[], flag: string, text: string): T {
  const found = list.find(one => one === text)
  if (found === undefined) throw new CannotRun(`--${flag} is one of ${list.join(', ')}, not "${text}"`)
  return found
}

/** Writes the selected live rows of the pool of this name or id. */
async function writeRows(
  offline: Offline,
  name: string,
  options: ExportOptions,
): Promise<{ readonly rows: number; readonly bytes: number }> {
  const pool = findPool(name, offline.catalog.pools())
  const schema = offline.catalog.read.currentSchema(pool)
  const parse = async () => new Map()
  const planned = await writeSelection({ schema, policy: null }, options.selection, parse, wallMs(), duckdb)
  if ('badRequest' in planned) throw badOption(planned.badRequest, schema)
  const { out } = options
  const engine = await offline.engine(out === '-' ? undefined : dirname(resolve(out)))
  await sweepCopies(offline.paths.temporary)
  const snapshot = await offline.snapshot(pool.number)
  try {
    const segments = prune(schema, planned, snapshot.segments)
    const source: Source = { schema, planned, segments, engine, temporaryFolder: offline.paths.temporary }
    const { format } = options
    return format === 'parquet'
      ? await writeParquet(source, options)
      : await writeBatches(source, format, out)
  } finally {
    snapshot.release()
  }
}

const WHERE_EXAMPLE = `--where '[{"column":"n","operator":"GREATER_THAN","value":"5"}]'`

/**
 * The message of a bad selection, with the flag's name, and with the columns of the pool or an
 * example.
 */
function badOption(what: string, schema: PoolSchema): CannotRun {
  const text = `--${what.replace(/^filters:/, 'where:')}`
  if (/there is no column/.test(what)) {
    const names = queryColumns(schema).map(({ name }) => name)
    return new CannotRun(`${text}; there are ${names.join(', ')}`)
  }
  return new CannotRun(/^filters:/.test(what) ? `${text}; for example ${WHERE_EXAMPLE}` : text)
}

/** The rows to export. */
interface Source {
  readonly schema: PoolSchema
  readonly planned: WrittenSelection
  readonly segments: readonly QuerySegment[]
  readonly engine: SegmentEngine
  readonly temporaryFolder: string
}

/** A format that is made of record batches. */
type BatchFormat = Exclude<ExportOptions['format'], 'parquet'>

async function writeBatches(source: Source, format: BatchFormat, out: string) {
  const { schema, planned, segments } = source
  let [rows, segmentsDone] = [0, 0]
  return await withProgress('exporting', async progress => {
    const copy: CopySegments = async (group, gone) => {
      const asker = { fairKey: 'export', gone }
      const copied = await copyRows(schema, planned, group, asker, source, EXPORT_COPY_MS_MAX)
      rows += copied.rows
      segmentsDone += isLastOf(group) ? group.segments.length : 0
      progress.step(segmentsDone, segments.length, 'segments')
      return copied
    }
    const batches = recordBatches(segments, copy, openBatches)
    const chunks =
      format === 'arrow' ? arrowFile(planned.columns, batches) : textFile(format, planned.columns, batches)
    const bytes = out === '-' ? await print(chunks) : await publish(out, path => fillFile(path, out, chunks))
    return { rows, bytes }
  })
}

/** True unless a later range of the segment follows. */
function isLastOf({ segments: [first], rowRange }: SegmentGroup): boolean {
  return rowRange === undefined || rowRange.to === first?.meta.rows
}

/**
 * Lets DuckDB write the file, in a folder where the engine may write. It cannot write to standard
 * output, so these rows go through a temporary file.
 */
async function writeParquet(source: Source, { out, compression }: ExportOptions) {
  const { schema, planned, segments, temporaryFolder, engine } = source
  const endWriter = () => engine.stop()
  const make = (file: string) =>
    withProgress('exporting', async progress => {
      const expected = segments.reduce((sum, { meta }) => sum + meta.bytes, 0)
      const timer = setInterval(() => {
        const bytes = disk.size(file)
        progress.step(bytes, Math.max(bytes, expected), `${Math.round(bytes / 1e6)} MB written`)
      }, PROGRESS_CHECK_MS)
      try {
        const target = parquetTarget(resolve(file), segments, EXPORT_FILE_MS_MAX, compression)
        return await copyTo(target, schema, planned, { segments }, { fairKey: 'export' }, engine)
      } finally {
        clearInterval(timer)
      }
    })
  if (out !== '-') {
    let rows = 0
    const fill = async (file: string) => {
      rows = await make(file)
    }
    const bytes = await publish(out, fill, endWriter)
    return { rows, bytes }
  }
  const file = exportFile(temporaryFolder, 0)
  const rows = await inNewFile(file, out, make, endWriter)
  return { rows, bytes: await print(piecesOf(file)) }
}

/** Called before anything is replayed or read. Throws CannotRun where `out` cannot be written. */
function checkOut({ out, force }: { readonly out: string; readonly force: boolean }): void {
  if (out === '-') return
  const folder = dirname(resolve(out))
  try {
    const found = statSync(out, { throwIfNoEntry: false })
    if (found?.isDirectory() === true)
      throw new CannotRun(
        `--out ${out} is a folder: name a file in it, as in --out ${join(out, 'rows.parquet')}`,
      )
    if (found !== undefined && !found.isFile())
      throw new CannotRun(`--out ${out} is not a plain file: name a new file, or - for standard output`)
    if (found !== undefined && !force)
      throw new CannotRun(`--out ${out} exists already: name another file, or replace it with --force`)
    accessSync(folder, constants.W_OK)
  } catch (error) {
    throw error instanceof CannotRun ? error : cannotWrite(out, folder, error as NodeJS.ErrnoException)
  }
}

function cannotWrite(out: string, folder: string, { code, message }: NodeJS.ErrnoException): CannotRun {
  if (code === 'ENOENT')
    return new CannotRun(`--out ${out}: the folder ${folder} does not exist: make it first`)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return new CannotRun(`--out ${out}: this user has no permission to write to the folder ${folder}`)
  return new CannotRun(`--out ${out} cannot be written: ${message}`)
}

/**
 * Writes a file beside `out`, syncs it and renames it. `fill` gets the path of an empty file.
 * Returns the bytes. Throws Unavailable for an error of the disk.
 * @param endWriter see inNewFile
 */
async function publish(
  out: string,
  fill: (temporary: string) => Promise<void>,
  endWriter?: () => Promise<void>,
): Promise<number> {
  const temporary = unfinishedFile(out)
  const work = async () => {
    await fill(temporary)
    return onDisk(out, () => {
      syncFile(disk, temporary)
      const size = disk.size(temporary)
      disk.rename(temporary, out)
      return size
    })
  }
  const bytes = await inNewFile(temporary, out, work, endWriter)
  onDisk(out, () => syncFolder(disk, dirname(out)))
  return bytes
}

/**
 * Runs `work` with a new, empty file. The file is removed after a failure or an interrupt.
 * @param endWriter ends another process that writes the file, which could make it again
 */
async function inNewFile<T>(
  path: string,
  out: string,
  work: (path: string) => Promise<T>,
  endWriter = async () => {},
): Promise<T> {
  let isMade = false
  const remove = () => {
    if (isMade && disk.exists(path)) disk.unlink(path)
  }
  // Before the file is made, because a signal between the two would leave it.
  const forget = whenInterrupted(async () => {
    remove()
    await endWriter()
    remove()
  })
  try {
    onDisk(out, () => disk.close(disk.open(path, 'wx')))
    isMade = true
    return await work(path)
  } catch (error) {
    remove()
    throw error
  } finally {
    forget()
  }
}

/** Writes `chunks` to the file `path`, which `publish` made. */
async function fillFile(path: string, out: string, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const file = disk.open(path, 'r+')
  try {
    let position = 0
    for await (const bytes of chunks) {
      onDisk(out, () => disk.write(file, [bytes], position))
      position += bytes.byteLength
    }
  } finally {
    disk.close(file)
  }
}

/** Writes to standard output, as fast as its reader reads. Returns the bytes. */
async function print(chunks: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0
  for await (const chunk of chunks) {
    await sayBytes(chunk)
    bytes += chunk.byteLength
  }
  return bytes
}

/** Reads a file in pieces. It removes the name of the file first. */
async function* piecesOf(path: string): AsyncGenerator<Uint8Array, void, void> {
  const file = disk.open(path, 'r')
  try {
    disk.unlink(path)
    for (let position = 0; ; ) {
      const piece = new Uint8Array(EXPORT_PIECE_BYTES)
      const read = disk.read(file, piece, position)
      if (read === 0) return
      position += read
      yield piece.subarray(0, read)
    }
  } finally {
    disk.close(file)
  }
}

function onDisk<T>(out: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new Unavailable('out_failed', `--out ${out} cannot be written: ${(error as Error).message}`)
  }
}
