/**
 * The facts about one segment: those that the index keeps (SegmentMeta), and those that its own
 * Parquet file carries in the footer (Footer), from which the index can be rebuilt (W-6).
 * segment.md describes the file.
 */
import type { Disk } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { deleteFile, segmentFile } from '../util/paths.ts'
import { readParquetFooter } from './parquet-footer.ts'
import type { PoolSchema } from './schema.ts'

/** Smallest and largest value of a column that the planner prunes by, as filters print them. */
export interface ColumnRange {
  readonly min: string
  readonly max: string
}

/** One segment in the manifest. */
export interface SegmentMeta {
  readonly segment: number
  readonly rows: number
  readonly bytes: number
  /** CRC-32 of the Parquet file's bytes; null where there is no Parquet file (`rows` is 0). */
  readonly checksum: number | null
  readonly schemaVersion: number
  /** First and last sequence of the flushes that the segment stands for. */
  readonly sequenceFrom: number
  readonly sequenceTo: number
  /** Smallest and largest received-at of its rows, µs. */
  readonly receivedFromUs: number
  readonly receivedToUs: number
  /**
   * Smallest and largest primary timestamp of its rows, µs (a DATE is its midnight); null where a
   * row's is null. Equal to received-at in a pool without a timestamp.
   */
  readonly timestampFromUs: number | null
  readonly timestampToUs: number | null
  /** Range of the tenant column; null where there is none, or a value is null or over 64 bytes. */
  readonly tenant: ColumnRange | null
  /** Keys in its delete file. */
  readonly deletes: number
}

/**
 * True where a segment has a delete file. Without rows the delete file stands alone, and may be
 * empty: see W-6 of store/compaction/run-compaction.ts.
 */
export function hasDeleteFile({ rows, deletes }: Pick<SegmentMeta, 'rows' | 'deletes'>): boolean {
  return rows === 0 || deletes > 0
}

/** The names of a segment's files. */
export function fileNamesOf(meta: Pick<SegmentMeta, 'segment' | 'rows' | 'deletes'>): string[] {
  const names = meta.rows > 0 ? [segmentFile(meta.segment)] : []
  return hasDeleteFile(meta) ? [...names, deleteFile(meta.segment)] : names
}

type Sequences = Pick<SegmentMeta, 'segment' | 'sequenceFrom' | 'sequenceTo'>

/** True where the sequences of `outer` hold those of `inner`. */
export function isWithin(inner: Sequences, outer: Sequences): boolean {
  return outer.sequenceFrom <= inner.sequenceFrom && inner.sequenceTo <= outer.sequenceTo
}

/** True where `other` names the segment `one` as replaced, or holds its sequences. */
export function covers(other: Sequences & Partial<Pick<Footer, 'replaces'>>, one: Sequences): boolean {
  return other.replaces?.includes(one.segment) === true || isWithin(one, other)
}

/** The numbers in the footer of a segment's Parquet file, and their keys (segment.md). */
const FOOTER_KEYS = {
  pool: 'weir.pool_number',
  schemaVersion: 'weir.schema_version',
  segment: 'weir.segment',
  sequenceFrom: 'weir.sequence_from',
  sequenceTo: 'weir.sequence_to',
  rows: 'weir.rows',
  /** Keys in its delete file. */
  deletes: 'weir.deletes',
} as const

type FooterNumbers = { readonly [Name in keyof typeof FOOTER_KEYS]: number }
const FOOTER_NUMBERS = Object.entries(FOOTER_KEYS) as [name: keyof FooterNumbers, key: string][]

/** The key-value metadata of a segment's Parquet file, as it is read. */
export interface Footer extends FooterNumbers {
  /** The segments that it replaces. */
  readonly replaces: readonly number[]
}

/**
 * Reads the footer of a segment's Parquet file, and nothing of its content.
 * @throws Damaged that names the file; Node's error where it cannot be opened
 */
export function readFooter(disk: Disk, file: string): Footer {
  const { texts } = readParquetFooter(disk, file)
  const number = (key: string): number => {
    const value = Number(texts.get(key) ?? Number.NaN)
    if (!Number.isSafeInteger(value) || value < 0) throw new Damaged(file, 0, `its footer has no ${key}`)
    return value
  }
  if (number('weir.format') !== 1) throw new Damaged(file, 0, 'its format is not known')
  const numbers = Object.fromEntries(FOOTER_NUMBERS.map(([name, key]) => [name, number(key)]))
  const replaces = texts.get('weir.replaces') ?? ''
  return {
    ...(numbers as Record<keyof FooterNumbers, number>),
    replaces: replaces === '' ? [] : replaces.split(',').map(Number),
  }
}

/** The footer fields that are compared with the manifest. */
interface CheckedFields extends Omit<FooterNumbers, 'pool' | 'schemaVersion'> {
  readonly schema: PoolSchema
}

/** The footer (segment.md) without the pool's id and the replaced segments. */
export function footerFields({ schema, ...meta }: CheckedFields): [key: string, value: string][] {
  const numbers: FooterNumbers = { ...meta, pool: schema.pool, schemaVersion: schema.version }
  const texts = FOOTER_NUMBERS.map(([name, key]): [string, string] => [key, String(numbers[name])])
  return [['weir.format', '1'], ...texts]
}

/** Makes the footer of a segment's Parquet file. */
export function segmentFooter(
  segment: CheckedFields & { readonly poolId: string; readonly replaces: readonly number[] },
): Map<string, string> {
  return new Map([
    ['weir.pool', segment.poolId],
    ...footerFields(segment),
    ['weir.replaces', segment.replaces.join(',')],
  ])
}
