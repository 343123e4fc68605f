/** Reads Parquet files with hyparquet, a reader that shares no code with Weir. */
import { parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'

/**
 * The rows of a file. Timestamps are microseconds and dates are days since 1970, as they are
 * stored.
 */
export async function readByHyparquet(bytes: Uint8Array): Promise<Record<string, unknown>[]> {
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer
  const raw = (value: unknown) => value
  const parsers = {
    timestampFromMilliseconds: raw,
    timestampFromMicroseconds: raw,
    timestampFromNanoseconds: raw,
    dateFromDays: raw,
    stringFromBytes: (text: Uint8Array | undefined) => text && Buffer.from(text).toString(),
  }
  const rows = await parquetReadObjects({ file, compressors, parsers: parsers as never })
  return rows as Record<string, unknown>[]
}
