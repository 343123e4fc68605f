/**
 * One segment on disk against what the manifest says of it: checksum, footer, every column decoded, delete file, ranges.
 * Memory holds the keys and ranges of one segment, and one row group's columns at a time.
 */
import { join } from 'node:path'
import { type DeleteFile, readDeleteFile } from '../format/delete-file.ts'
import type { PoolSchema } from '../format/schema.ts'
import { withParquet } from '../format/segment-file.ts'
import { readSegmentKeys, type SegmentKeys } from '../format/segment-keys.ts'
import type { SegmentMeta } from '../format/segment-meta.ts'
import { type Footer, readFooter } from '../format/segment-meta.ts'
import { fileChecksum } from '../util/crc32.ts'
import { type Disk, disk, readFile } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { deleteFile, segmentFile } from '../util/paths.ts'
import type { Report } from './report.ts'

/** What a segment should be: a footer's facts, and the manifest's where there is an index. */
export interface Wanted {
  readonly footer: Omit<Footer, 'replaces'>
  readonly meta: SegmentMeta | undefined
}

/** What stands in it; a part that is damaged or not there is undefined. */
export interface SegmentContent {
  readonly rows: SegmentKeys | undefined
  readonly deletes: DeleteFile | undefined
  /** Both files are as they should be. */
  readonly isWhole: boolean
}

/** Reads both files of a segment in full; what is wrong goes to `report`. */
export async function checkSegment(
  folder: string,
  schema: PoolSchema | undefined,
  wanted: Wanted,
  report: Report,
): Promise<SegmentContent> {
  const before = report.count
  const { segment, schemaVersion, rows: rowsWanted, deletes: deletesWanted } = wanted.footer
  const file = join(folder, segmentFile(segment))
  if (schema === undefined) {
    report.find(file, `the catalog has no plan version ${schemaVersion} of its pool`)
    return { rows: undefined, deletes: undefined, isWhole: false }
  }
  const rows = rowsWanted === 0 ? undefined : await report.try(() => checkRows(file, schema, wanted, report))
  const deletes =
    deletesWanted === 0 ? undefined : await report.try(() => checkDeletes(folder, wanted, report))
  checkMeta(folder, rows, wanted, report)
  return { rows, deletes, isWhole: report.count === before }
}

async function checkRows(
  file: string,
  schema: PoolSchema,
  { footer, meta }: Wanted,
  report: Report,
): Promise<SegmentKeys> {
  if (!disk.exists(file)) throw new Damaged(file, 0, `the file is missing; it held ${footer.rows} rows`)
  if (meta !== undefined) checkSum(file, meta, report)
  const found = readFooter(disk, file)
  for (const [name, value] of Object.entries(footer)) {
    const is = found[name as keyof Footer]
    if (is !== value) report.find(file, `its footer says ${name} ${is}, it should be ${value}`)
  }
  const decoded = await decodeAll(file)
  if (decoded !== footer.rows) report.find(file, `it has ${decoded} rows, it should have ${footer.rows}`)
  const rows = await readSegmentKeys(file, schema)
  checkSequences(file, rows, footer, report)
  return rows
}

/** Before the content, which says what is wrong only where it does not decode. */
function checkSum(file: string, { checksum }: SegmentMeta, report: Report): void {
  if (fileChecksum(disk, file) !== checksum)
    report.find(file, 'its bytes do not match their checksum in the index')
}

function checkSequences(file: string, rows: SegmentKeys, footer: Wanted['footer'], report: Report): void {
  const { sequenceFrom, sequenceTo } = footer
  for (let row = 0; row < rows.rows; row++) {
    const sequence = rows.sequences[row]!
    if (sequence >= sequenceFrom && sequence <= sequenceTo) continue
    report.find(file, `sequence ${sequence} is not in ${sequenceFrom} to ${sequenceTo}`, { row })
  }
}

/** Decodes every column of every row group; returns the rows. Throws Damaged naming file and row group. */
async function decodeAll(file: string): Promise<number> {
  let group = 0
  try {
    return await withParquet(file, async parquet => {
      const metadata = parquet.metadata()
      const groups = metadata.numRowGroups()
      metadata.free()
      let rows = 0
      for (; group < groups; group++) {
        const table = await parquet.read({ rowGroups: [group] })
        for (const batch of table.recordBatches()) {
          rows += batch.numRows
          batch.free()
        }
        table.free()
      }
      return rows
    })
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    const what = error.message.replace(`${file} is damaged at byte 0: `, '')
    throw new Damaged(file, 0, `row group ${group}: ${what}`)
  }
}

function checkDeletes(folder: string, { footer }: Wanted, report: Report): DeleteFile {
  const file = join(folder, deleteFile(footer.segment))
  if (!disk.exists(file)) throw new Damaged(file, 0, `the file is missing; it held ${footer.deletes} deletes`)
  const found = readDeleteFile(readFile(disk, file), file)
  const { pool, schemaVersion, segment, sequenceFrom, sequenceTo, rows, deletes } = footer
  const wanted = { pool, schemaVersion, segment, sequenceFrom, sequenceTo, rowsOfFlush: rows }
  for (const [name, value] of Object.entries(wanted)) {
    const is = found[name as keyof typeof wanted]
    if (is !== value) report.find(file, `it says ${name} ${is}, it should be ${value}`)
  }
  if (found.keys.length !== deletes)
    report.find(file, `it has ${found.keys.length} deletes, it should have ${deletes}`)
  for (const [index, sequence] of found.sequences.entries())
    if (sequence < sequenceFrom || sequence > sequenceTo)
      report.find(file, `delete ${index} has sequence ${sequence}, not in ${sequenceFrom} to ${sequenceTo}`)
  return found
}

/** The manifest's ranges and bytes: the planner prunes by the first, and nothing may be pruned that has rows. */
function checkMeta(folder: string, rows: SegmentKeys | undefined, wanted: Wanted, report: Report): void {
  const { meta } = wanted
  if (meta === undefined) return
  const file = join(folder, meta.rows > 0 ? segmentFile(meta.segment) : deleteFile(meta.segment))
  if (rows !== undefined) {
    for (const [name, value] of Object.entries(rows.ranges)) {
      const is = JSON.stringify(meta[name as keyof SegmentMeta])
      if (is !== JSON.stringify(value))
        report.find(file, `the index says ${name} ${is}, its rows say ${JSON.stringify(value)}`)
    }
  }
  const bytes = bytesOf(disk, folder, meta)
  if (bytes !== undefined && bytes !== meta.bytes)
    report.find(file, `the segment has ${bytes} bytes, the index says ${meta.bytes}`)
}

/** Of both files; undefined where one is missing. */
function bytesOf(on: Disk, folder: string, { segment, rows, deletes }: SegmentMeta): number | undefined {
  const files = [
    ...(rows > 0 ? [join(folder, segmentFile(segment))] : []),
    ...(deletes > 0 ? [join(folder, deleteFile(segment))] : []),
  ]
  if (files.some(file => !on.exists(file))) return undefined
  return files.reduce((sum, file) => sum + on.size(file), 0)
}
