/**
 * Files of segments that a restore leaves out, because the backup has lost them: all else is
 * restored, and the folder starts. Rows that the lost ones had updated or deleted come back.
 */
import { basename, dirname, join } from 'node:path'
import type { Pool } from '../../catalog/documents/model.ts'
import { readStore } from '../../catalog/lmdb/catalog-store.ts'
import { readFooter } from '../../format/segment-meta.ts'
import { must } from '../../util/assert.ts'
import { disk, readFile, replaceFile } from '../../util/disk.ts'
import { deleteFile, numberOfFile, type Paths, segmentFile } from '../../util/paths.ts'
import { nameNoDeletes, standAlone } from '../lone-files.ts'
import { countText } from '../text-tables.ts'
import { harmless } from './backup-format.ts'

export interface LostFile {
  /** Below the data folder, with slashes: `segment/<pool>/0000000042.parquet`. */
  readonly path: string
  readonly what: string
  /** Its bytes as they were found, if any. */
  readonly found: string
}

/** True for a file that a restore may leave out. */
export function isOfSegment(path: string): boolean {
  return path.startsWith('segment/')
}

/**
 * Removes lost files from a filled folder, and lets the other file of each segment stand alone.
 * Returns a line for each.
 */
export async function leaveOut(to: Paths, lost: readonly LostFile[]): Promise<string[]> {
  if (lost.length === 0) return []
  const documents = await readStore(to.catalog)
  const names = new Map<string | undefined, string | undefined>(
    documents.map(([, document]) => [(document as Partial<Pool>).id, (document as Partial<Pool>).uniqueName]),
  )
  const lines = lost.map(({ path, what, found }) => {
    const pool = basename(dirname(path))
    const name = names.get(pool) ?? pool
    return `${path} of the pool ${harmless(name)} (${what}): ${lossOf(found)}`
  })
  const isLost = new Set(lost.map(({ path }) => join(to.root, path)))
  for (const file of isLost) if (disk.exists(file)) disk.unlink(file)
  for (const file of isLost) {
    const segment = must(numberOfFile(basename(file)), 'the number of a segment')
    const [rows, deletes] = [segmentFile(segment), deleteFile(segment)].map(one => join(dirname(file), one))
    if (file === deletes && rows !== undefined && disk.exists(rows)) nameNoDeletes(rows)
    if (file === rows && deletes !== undefined && disk.exists(deletes))
      replaceFile(disk, deletes, [standAlone(readFile(disk, deletes))])
  }
  return lines
}

function lossOf(file: string): string {
  if (file.endsWith('.deletes')) return 'its deletes are lost, and the rows that they deleted are back'
  const back = 'older rows that they had updated or deleted are back as they were'
  try {
    const { rows, sequenceFrom, sequenceTo } = readFooter(disk, file)
    return `${countText(rows)} rows of the requests ${sequenceFrom} to ${sequenceTo} are missing, and ${back}`
  } catch {
    return `an unknown number of rows is missing, and ${back}`
  }
}
