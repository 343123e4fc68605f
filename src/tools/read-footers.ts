/** The live segments of a pool where there is no index: told by footers and delete files alone, as a rebuild does. */
import { join } from 'node:path'
import { readDeleteFile } from '../format/delete-file.ts'
import { type Footer, readFooter } from '../format/segment-meta.ts'
import { footerOfDeletes, liveSegments } from '../index/folder-segments.ts'
import { disk, readFile } from '../util/disk.ts'
import { deleteFile, numberOfFile, segmentFile } from '../util/paths.ts'
import type { Report } from './report.ts'

/** By rising sequence. What is damaged or overlaps goes to `report`. */
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
        `${file} stands alone: a flush, a merge or a removal was cut short, or ${segmentFile(segment)} is lost with up to ${footer.rows} rows`,
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
