/**
 * The keys of a segment's rows, sorted, as the index takes them: for merges, rebuilds and checks. One segment at a time
 * is in memory.
 */
import type { Plan } from '../batch/plan.ts'
import { buildKeyRun } from './key-run.ts'
import type { KeyRun, SegmentMeta } from './protocol.ts'
import { rangeFields } from './ranges.ts'
import { readRows } from './segment-files.ts'

/** What the index knows of a segment, read from its Parquet file. */
export interface SegmentKeys {
  readonly rows: number
  /** Each row's key and number. undefined in a pool without a unique id. */
  readonly run: KeyRun | undefined
  /** By row. */
  readonly sequences: Float64Array
  /** As a seal gives them to its SegmentMeta. */
  readonly ranges: Pick<
    SegmentMeta,
    'receivedFromUs' | 'receivedToUs' | 'timestampFromUs' | 'timestampToUs' | 'tenant'
  >
}

/** Reads the key columns of all rows. Throws Damaged naming the file: unreadable, or two rows have one key. */
export async function readSegmentKeys(file: string, plan: Plan): Promise<SegmentKeys> {
  const { rows, keys, sequences, ranges } = await readRows(file, plan)
  const run = plan.key === null ? undefined : buildKeyRun(keys.map((key, row) => ({ key, row })))
  return { rows, run, sequences: Float64Array.from(sequences), ranges: rangeFields(ranges) }
}
