/** A segment that is merged, with what of it goes where. */
import { join } from 'node:path'
import type { SegmentMeta } from '../keys/protocol.ts'
import { deleteFile, segmentFile } from '../paths.ts'
import { assert } from '../util/assert.ts'
import type { MergeInput, MergeJob } from './protocol.ts'

/** What becomes of a row. */
export const FATE = { live: 0, marked: 1, expired: 2 } as const

export interface Input {
  readonly meta: SegmentMeta
  readonly file: string
  readonly deletesFile: string
  /** FATE by row. */
  readonly fates: Uint8Array
  /** Rows of fate live. */
  live: number
}

/** An input as the job gives it: its marked rows apart, the others live. */
export function inputOf(job: MergeJob, { meta, marks }: MergeInput): Input {
  const fates = new Uint8Array(meta.rows)
  const input: Input = {
    meta,
    file: join(job.folder, segmentFile(meta.segment)),
    deletesFile: join(job.folder, deleteFile(meta.segment)),
    fates,
    live: meta.rows,
  }
  for (const { segment, rows } of marks) {
    assert(segment === meta.segment, 'marks are of their segment')
    for (const row of rows) {
      assert(row < meta.rows, 'a marked row is in its segment')
      if (fates[row] === FATE.live) input.live -= 1
      fates[row] = FATE.marked
    }
  }
  return input
}

/** Row `row` is below retention's cutoff. A marked row stays marked. */
export function expire(input: Input, row: number): void {
  if (input.fates[row] !== FATE.live) return
  input.fates[row] = FATE.expired
  input.live -= 1
}

/** Has it rows of this fate? */
export function has(input: Input, fate: number): boolean {
  return input.fates.includes(fate)
}

/** Numbers of the rows that do not go into the new segment. */
export function goneRows({ meta, live, fates }: Input): Uint32Array {
  const rows = new Uint32Array(meta.rows - live)
  let at = 0
  for (let row = 0; row < fates.length; row++) if (fates[row] !== FATE.live) rows[at++] = row
  return rows
}
