/**
 * Checks segments on disk: which of a folder are live, and each one against its wanted values.
 *
 * A check of a segment reads checksum, footer, every column, delete file and zone map. Memory holds
 * the keys and zone map of one segment, and the columns of one row group.
 */
import { join } from 'node:path'
import { type DeleteFile, readDeleteFile } from '../format/delete-file.ts'
import type { PoolSchema } from '../format/schema.ts'
import { withParquet } from '../format/segment-file.ts'
import { readSegmentKeys, type SegmentKeys } from '../format/segment-keys.ts'
import {
  type Footer,
  fileNamesOf,
  hasDeleteFile,
  readFooter,
  type SegmentMeta,
} from '../format/segment-meta.ts'
import { footerOfDeletes, liveSegments } from '../index/folder-segments.ts'
import { fileChecksum } from '../util/crc32.ts'
import { disk, readFile } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { deleteFile, numberOfFile, segmentFile } from '../util/paths.ts'
import type { Report } from './report.ts'

/**
 * Returns the live segments of a pool's folder in the order of their sequences. It needs no index:
 * it reads footers and delete files, as a rebuild does. Damage and overlaps go to `report`.
 */
export async function liveFooters(folder: string, pool: number, report: Report): Promise<Footer[]> {
  const names = new Set(disk.exists(folder) ? disk.readdir(folder) : [])
  const found: Footer[] = []
  for (const name of names) {
    const segment = numberOfFile(name)
    const isDeletes = segment !== undefined && name === deleteFile(segment)
    if (segment === undefined || (isDeletes && names.has(segmentFile(segment)))) continue
    const file = join(folder, name)
    const footer = await report.try(() =>
      isDeletes ? footerOfDeletes(readDeleteFile(readFile(disk, file), file)) : readFooter(disk, file),
    )
    if (footer === undefined) continue
    if (footer.pool !== pool || footer.segment !== segment)
      report.find(file, `it belongs to pool ${footer.pool}, segment ${footer.segment}`)
    else if (isDeletes && footer.rows > 0)
      report.note(
        `${file} has no Parquet file beside it: a flush, a merge or a removal was interrupted, or ${segmentFile(segment)} is lost with up to ${footer.rows} rows`,
      )
    else found.push(footer)
  }
  const live = liveSegments(found).sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  for (const [at, { segment, sequenceFrom }] of live.entries()) {
    const last = live[at - 1]
    if (last !== undefined && sequenceFrom <= last.sequenceTo)
      report.find(
        join(folder, segmentFile(segment)),
        `its sequences overlap those of segment ${last.segment}`,
      )
  }
  return live
}

/**
 * The values that a segment should have: those of a footer, and those of the manifest where there
 * is an index.
 */
interface Wanted {
  readonly footer: Omit<Footer, 'replaces'>
  readonly meta: SegmentMeta | undefined
}

/** The content of a segment. A part that is damaged or missing is undefined. */
export type SegmentContent = Awaited<ReturnType<typeof checkSegment>>

/**
 * Reads both files of a segment in full. Damage goes to `report`.
 * @param from the segment in the manifest, or its own footer alone
 */
export async function checkSegment(
  folder: string,
  pool: number,
  schema: PoolSchema | undefined,
  from: Footer | SegmentMeta,
  report: Report,
) {
  const wanted = wantedOf(pool, from)
  const { segment, schemaVersion, rows: rowsWanted } = wanted.footer
  const file = join(folder, segmentFile(segment))
  if (schema === undefined) {
    report.find(file, `the catalog has no schema version ${schemaVersion} of its pool`)
    return { rows: undefined, deletes: undefined }
  }
  const rows = rowsWanted === 0 ? undefined : await report.try(() => checkRows(file, schema, wanted, report))
  const deletes = hasDeleteFile(wanted.footer)
    ? await report.try(() => checkDeletes(folder, wanted, report))
    : undefined
  checkMeta(folder, rows, wanted, report)
  return { rows, deletes }
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
    if (is !== value) report.find(file, `its footer has ${name} ${is}, it should have ${value}`)
  }
  const decoded = await decodeAll(file)
  if (decoded !== footer.rows) report.find(file, `it has ${decoded} rows, it should have ${footer.rows}`)
  const rows = await readSegmentKeys(file, schema)
  checkSequences(file, rows, footer, report)
  return rows
}

/** Called before the columns are decoded: damaged pages may decode. */
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

/**
 * Decodes every column of every row group; returns the rows. Throws Damaged naming file and row
 * group.
 */
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
    if (is !== value) report.find(file, `it has ${name} ${is}, it should have ${value}`)
  }
  if (found.keys.length !== deletes)
    report.find(file, `it has ${found.keys.length} deletes, it should have ${deletes}`)
  for (const [index, sequence] of found.sequences.entries())
    if (sequence < sequenceFrom || sequence > sequenceTo)
      report.find(file, `delete ${index} has sequence ${sequence}, not in ${sequenceFrom} to ${sequenceTo}`)
  return found
}

/** Checks the zone map and the size in the manifest. With a wrong zone map queries miss rows. */
function checkMeta(folder: string, rows: SegmentKeys | undefined, wanted: Wanted, report: Report): void {
  const { meta } = wanted
  if (meta === undefined) return
  const file = join(folder, meta.rows > 0 ? segmentFile(meta.segment) : deleteFile(meta.segment))
  if (rows !== undefined) {
    for (const [name, value] of Object.entries(rows.ranges)) {
      const is = JSON.stringify(meta[name as keyof SegmentMeta])
      if (is !== JSON.stringify(value))
        report.find(file, `the index has ${name} ${is}, its rows have ${JSON.stringify(value)}`)
    }
  }
  const bytes = bytesOf(folder, meta)
  if (bytes !== undefined && bytes !== meta.bytes)
    report.find(file, `the segment has ${bytes} bytes, it should have ${meta.bytes} by the index`)
}

/** The bytes of both files; undefined where one is missing. */
function bytesOf(folder: string, meta: SegmentMeta): number | undefined {
  const files = segmentFilesOf(folder, meta)
  if (files.some(file => !disk.exists(file))) return undefined
  return files.reduce((sum, file) => sum + disk.size(file), 0)
}

/** The files that a segment should have. */
export function segmentFilesOf(folder: string, meta: SegmentMeta | Footer): string[] {
  return fileNamesOf(meta).map(name => join(folder, name))
}

function wantedOf(pool: number, from: Footer | SegmentMeta): Wanted {
  const { segment, schemaVersion, sequenceFrom, sequenceTo, rows, deletes } = from
  const footer = { pool, segment, schemaVersion, sequenceFrom, sequenceTo, rows, deletes }
  return { footer, meta: 'bytes' in from ? from : undefined }
}
