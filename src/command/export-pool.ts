/**
 * A pool's live rows as one file: the way of the Arrow route, with another end.
 *
 *   W-8  A file has its name only when all rows are in it and synced.
 */
import { dirname } from 'node:path'
import { CannotRun } from '../errors.ts'
import { openBatches } from '../export/batches.ts'
import { arrowFile, COMPRESSIONS, type ExportCompression, parquet } from '../export/encode.ts'
import { recordBatches } from '../export/stream.ts'
import { csv, ndjson } from '../export/text.ts'
import { copyRows, sweepCopies } from '../exporter.ts'
import { printDate, printInstant, shortestSingle } from '../query/print.ts'
import type { QuerySegment } from '../query/protocol.ts'
import { prune } from '../query/prune.ts'
import { type PlannedSelection, planSelection, type Selection } from '../query/select.ts'
import { must } from '../util/assert.ts'
import { type Disk, disk, syncFolder } from '../util/disk.ts'
import { note, sayBytes } from '../util/say.ts'
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
  if (options.out !== '-' && !options.force && disk.exists(options.out))
    throw new CannotRun(`${options.out} is there already; --force replaces it`)
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
  const columns = flags.get('columns')?.split(',')
  const filters = flags.get('where')
  const start = flags.get('start')
  const stop = flags.get('stop')
  const out = flags.get('out')
  const format = oneOf(FORMATS, 'format', flags.get('format') ?? 'parquet')
  const compression = flags.get('compression')
  if (out === undefined || out === '')
    throw new CannotRun('--out is needed: a file, or - for standard output')
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

function oneOf<T extends string>(list: readonly T[], flag: string, text: string): T {
  const found = list.find(one => one === text)
  if (found === undefined) throw new CannotRun(`--${flag} is one of ${list.join(', ')}`)
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
  if ('badRequest' in planned) throw new CannotRun(planned.badRequest.replace(/^filters:/, '--where:'))
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

/** Beside its name first, then synced and renamed. Returns the bytes. */
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
  const file = on.open(temporary, 'wx')
  try {
    try {
      for await (const bytes of chunks) {
        on.write(file, [bytes], position)
        position += bytes.byteLength
      }
      on.fdatasync(file)
    } finally {
      on.close(file)
    }
    on.rename(temporary, out)
  } catch (error) {
    if (on.exists(temporary)) on.unlink(temporary)
    throw error
  }
  syncFolder(on, dirname(out))
  return position
}
