/** What the merge thread uses of other stages: workers/merge.ts passes their functions. */
import type { Plan } from '../batch/plan.ts'
import type { DeletesHeader, KeyRun, SegmentMeta } from '../keys/protocol.ts'
import type { Disk } from '../util/disk.ts'
import type { Deletes } from './deletes.ts'

/** Of a segment's rows, as the index stage reads them. */
export interface KeysOfRows {
  readonly rows: number
  /** undefined in a pool without a unique id. */
  readonly run: KeyRun | undefined
  /** By row. */
  readonly sequences: Float64Array
  readonly ranges: RangeFields
}

export type RangeFields = Pick<
  SegmentMeta,
  'receivedFromUs' | 'receivedToUs' | 'timestampFromUs' | 'timestampToUs' | 'tenant'
>

export interface MergeCalls {
  /** Throws Damaged naming the file. */
  readonly readSegmentKeys: (file: string, plan: Plan) => Promise<KeysOfRows>
  /** Throws Damaged naming the file. */
  readonly readDeleteFile: (bytes: Uint8Array, file: string) => DeletesHeader & Deletes
  readonly writeDeleteFile: (head: DeletesHeader, run: KeyRun, sequences: Float64Array) => Uint8Array
  /** Makes the files durable; the bytes of both, and the Parquet file's CRC-32. Throws Node's error. */
  readonly publishInPieces: (
    on: Disk,
    folder: string,
    segment: number,
    files: {
      readonly parquet: ((into: Uint8Array, position: number) => number) | undefined
      readonly deletes: Uint8Array | undefined
    },
    pieceBytes: number,
    rest: (bytes: number) => Promise<void>,
  ) => Promise<Pick<SegmentMeta, 'bytes' | 'checksum'>>
}
