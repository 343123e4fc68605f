/**
 * A pool's live rows as one file: the way of the Arrow route, with another end.
 *
 *   W-8  A file has its name only when all rows are in it and synced.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Plan } from '../batch/plan.ts'
import { CannotRun, Unavailable } from '../errors.ts'
import { openBatches } from '../export/batches.ts'
import { arrowFile, COMPRESSIONS, type ExportCompression, parquet } from '../export/encode.ts'
import { recordBatches } from '../export/stream.ts'
import { csv, ndjson } from '../export/text.ts'
import { copyRows, sweepCopies } from '../exporter.ts'
import { queryColumns } from '../query/column.ts'
import { printDate, printInstant, shortestSingle } from '../query/print.ts'
import type { QuerySegment } from '../query/protocol.ts'
import { prune } from '../query/prune.ts'
import { type PlannedSelection, planSelection, type Selection } from '../query/select.ts'
import { must } from '../util/assert.ts'
import { type Disk, disk, syncFolder } from '../util/disk.ts'
import { note, sayBytes } from '../util/say.ts'
import { whenInterrupted } from './interrupt.ts'
import { type Offline, openOffline } from './offline.ts'
import { createProgress } from './progress.ts'
import { CLEAN, type CommandInput } from './protocol.ts'

const FORMATS = ['parquet', 'arrow', 'ndjson', 'csv'] as const

export interface ExportOptions {
  readonly format: (typeof FORMATS)[number]
  readonly compression: ExportCompression
  readonly selection: Selection
  /** A path, or `-`. */
  readonly out: string
  readonly force: boolean
}

/** Runs `weir export`. Throws CannotRun, Damaged or SegmentDamaged; no file is left then. */
export async function exportCommand({ config, positionals, flags }: CommandInput): Promise<number> {
  const options = optionsOf(flags)
  checkOut(options)
  const offline = await openOffline(config, { replay: true })
  try {
    const { rows, bytes } = await exportPool(offline, positionals[0] ?? '', options)
    note(`${rows} rows, ${bytes} bytes`)
    return CLEAN
  } finally {
    await offline.close()
  }
}

function optionsOf(flags: CommandInput['flags']): ExportOptions {
  const columns = columnsOf(flags.get('columns'))
  const filters = flags.get('where')
  const start = flags.get('start')
  const stop = flags.get('stop')
  const out = flags.get('out')
  const format = oneOf(FORMATS, 'format', flags.get('format') ?? 'parquet')
  const compression = flags.get('compression')
  if (out === undefined || out === '')
    throw new CannotRun('--out is needed: a file, as in --out rows.parquet, or - for standard output')
  if (compression !== undefined && format !== 'parquet')
    throw new CannotRun('--compression is for --format parquet')
  return {
    format,
    compression: oneOf(COMPRESSIONS, 'compression', compression ?? 'zstd'),
    selection: {
      ...(columns === undefined ? {} : { columns }),
      ...(filters === undefined ? {} : { filters }),
      ...(start === undefined ? {} : { start }),
      ...(stop === undefined ? {} : { stop }),
    },
    out,
    force: flags.has('force'),
  }
}

/** Names between commas; a JSON list where a name has a comma. */
function columnsOf(text: string | undefined): readonly string[] | undefined {
  if (text?.startsWith('[') !== true) return text?.split(',')
  try {
    const names: unknown = JSON.parse(text)
    if (Array.isArray(names) && names.every(name => typeof name === 'string')) return names as string[]
  } catch {
    // Told below: not JSON, and not a list of texts, need the same.
  }
  throw new CannotRun(
    `--columns takes names between commas, or a JSON list: --columns '["a","b, with a comma"]'`,
  )
}

function oneOf<T extends string>(list: readonly T[], flag: string, text: string): T {
  const found = list.find(one => one === text)
  if (found === undefined) throw new CannotRun(`--${flag} is one of ${list.join(', ')}, not "${text}"`)
  return found
}

/** Writes the selected live rows of the pool of this name or id. */
export async function exportPool(
  offline: Offline,
  name: string,
  options: ExportOptions,
): Promise<{ readonly rows: number; readonly bytes: number }> {
  const pool = offline.findPool(name)
  const plan = must(offline.catalog.plan(pool.number, pool.planVersion), 'the plan of a pool')
  const planned = planSelection(plan, options.selection)
  if ('badRequest' in planned) throw badOption(planned.badRequest, plan)
  const services = { engine: await offline.engine(), temporaryFolder: offline.paths.temporary }
  await sweepCopies(services.temporaryFolder)
  const snapshot = await offline.snapshot(pool.number)
  const progress = createProgress('exporting')
  let rows = 0
  try {
    const segments = prune(plan, planned, snapshot.segments)
    let segmentsDone = 0
    const copy = async (group: readonly QuerySegment[]) => {
      const copied = await copyRows(plan, planned, group, 'export', services)
      rows += copied.rows
      segmentsDone += group.length
      progress.step(segmentsDone, segments.length, 'segments')
      return copied
    }
    const batches = recordBatches(segments, planned.columns, copy, openBatches)
    const bytes = await write(disk, encode(planned, batches, options), options.out)
    return { rows, bytes }
  } finally {
    progress.end()
    snapshot.release()
  }
}

const WHERE_EXAMPLE = `--where '[{"column":"n","operator":"GREATER_THAN","value":"5"}]'`

/** `columns: …` of a selection is `--columns: …` here; with the columns that there are, or an example. */
function badOption(what: string, plan: Plan): CannotRun {
  const text = `--${what.replace(/^filters:/, 'where:')}`
  if (/there is no column/.test(what)) {
    const names = queryColumns(plan).map(({ name }) => name)
    return new CannotRun(`${text}; there are ${names.join(', ')}`)
  }
  return new CannotRun(/^filters:/.test(what) ? `${text}; for example ${WHERE_EXAMPLE}` : text)
}

function encode(
  { columns }: PlannedSelection,
  batches: AsyncIterable<Uint8Array>,
  { format, compression }: ExportOptions,
): AsyncIterable<Uint8Array> {
  const printers = { instant: printInstant, date: printDate, single: shortestSingle }
  switch (format) {
    case 'parquet':
      return parquet(columns, batches, compression)
    case 'arrow':
      return arrowFile(columns, batches)
    case 'ndjson':
      return ndjson(columns, batches, printers)
    case 'csv':
      return csv(columns, batches, printers)
  }
}

/** Before anything is replayed or read. Throws CannotRun where no file can be made of this name. */
function checkOut({ out, force }: ExportOptions): void {
  if (out === '-') return
  const folder = dirname(resolve(out))
  try {
    const found = statSync(out, { throwIfNoEntry: false })
    if (found?.isDirectory() === true)
      throw new CannotRun(
        `--out ${out} is a folder: name a file in it, as in --out ${join(out, 'rows.parquet')}`,
      )
    if (found !== undefined && !found.isFile())
      throw new CannotRun(`--out ${out} is no plain file; - is standard output`)
    if (found !== undefined && !force) throw new CannotRun(`${out} is there already; --force replaces it`)
    accessSync(folder, constants.W_OK)
  } catch (error) {
    throw error instanceof CannotRun ? error : cannotWrite(out, folder, error as NodeJS.ErrnoException)
  }
}

function cannotWrite(out: string, folder: string, { code, message }: NodeJS.ErrnoException): CannotRun {
  if (code === 'ENOENT')
    return new CannotRun(`--out ${out}: the folder ${folder} is not there, make it first`)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return new CannotRun(`--out ${out}: this user may not write to the folder ${folder}`)
  return new CannotRun(`--out ${out} cannot be written: ${message}`)
}

/** Beside its name first, then synced and renamed. Returns the bytes. Throws Unavailable where the disk refuses. */
async function write(on: Disk, chunks: AsyncIterable<Uint8Array>, out: string): Promise<number> {
  let position = 0
  if (out === '-') {
    for await (const bytes of chunks) {
      await sayBytes(bytes)
      position += bytes.byteLength
    }
    return position
  }
  const temporary = `${out}.tmp-${process.pid}`
  const remove = () => {
    if (on.exists(temporary)) on.unlink(temporary)
  }
  const forget = whenInterrupted(remove) // before there is a file: a signal does not wait
  try {
    const file = onDisk(out, () => on.open(temporary, 'wx'))
    try {
      for await (const bytes of chunks) {
        onDisk(out, () => on.write(file, [bytes], position))
        position += bytes.byteLength
      }
      onDisk(out, () => on.fdatasync(file))
    } finally {
      on.close(file)
    }
    onDisk(out, () => on.rename(temporary, out))
  } catch (error) {
    remove()
    throw error
  } finally {
    forget()
  }
  onDisk(out, () => syncFolder(on, dirname(out)))
  return position
}

function onDisk<T>(out: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new Unavailable('out_failed', `--out ${out} cannot be written: ${(error as Error).message}`)
  }
}
