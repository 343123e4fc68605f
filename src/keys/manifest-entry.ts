/** A segment in the manifest, with its marks. */
import { sep } from 'node:path'
import { deleteFile, segmentFile } from '../paths.ts'
import type { MarkDelta, SegmentMeta } from './protocol.ts'

/** A segment as it is now. */
export interface SegmentView extends SegmentMeta {
  /** Rows that are not visible any more. */
  readonly marked: number
}

interface Part extends MarkDelta {
  readonly commit: number
}

/** A segment. Snapshots share it, so a replaced one lives on until the last of them is released. */
export interface Entry {
  readonly pool: number
  readonly meta: SegmentMeta
  readonly file: string
  readonly deletes: string
  /** Never changed in place: snapshots hold it. */
  marks: readonly Part[]
  /** With the rows in all lists of marks, loaded or not. Made anew with them: a look at a pool of thousands makes no objects. */
  view: SegmentView
  pins: number
}

/** A segment without marks, but for those that `known` counts. */
export function newEntry(folder: string, pool: number, meta: SegmentMeta, known?: SegmentView): Entry {
  // Not join(), which takes both names apart: a start makes tens of thousands of these.
  const file = `${folder}${sep}${segmentFile(meta.segment)}`
  const deletes = `${folder}${sep}${deleteFile(meta.segment)}`
  return { pool, meta, file, deletes, marks: [], view: known ?? { ...meta, marked: 0 }, pins: 0 }
}
