/**
 * Reads the rows that a query would see, with hyparquet: the manifest's segments without their
 * deleted rows.
 */
import { readFileSync } from 'node:fs'
import { parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { keyOfRow, type Rows, SCHEMAS } from './pools.ts'
import type { SingleThreadServer } from './single-thread-server.ts'

/**
 * Key → stamp of all visible rows. Throws for two rows of one key (W-7), and for a wrong deletion
 * vector.
 */
export async function visibleRows({ manifest }: SingleThreadServer): Promise<Rows> {
  const all = new Map<number, Map<string, number>>()
  for (const { pool } of SCHEMAS) {
    const rows = new Map<string, number>()
    const snapshot = await manifest.snapshot(pool)
    for (const segment of snapshot.segments) await readSegment(pool, segment, rows)
    snapshot.release()
    all.set(pool, rows)
  }
  return all
}

async function readSegment(pool: number, segment: QuerySegment, into: Map<string, number>): Promise<void> {
  const { file, meta, deletionVectors } = segment
  const rows = await parquetRows(readFileSync(file))
  if (rows.length !== meta.rows) throw new Error(`${file} has ${rows.length} rows, not ${meta.rows}`)
  const deletedRows = new Set<number>()
  for (const part of deletionVectors)
    for (const row of part.rows) {
      if (deletedRows.has(row) || row >= rows.length)
        throw new Error(`${file}: the deletion vector has row ${row} twice, or it is too large`)
      deletedRows.add(row)
    }
  for (const [index, row] of rows.entries()) {
    if (deletedRows.has(index)) continue
    const sequence = Number(row['_service_sequence'])
    if (sequence < meta.sequenceFrom || sequence > meta.sequenceTo)
      throw new Error(`${file}: row ${index} has sequence ${sequence}`)
    const key = keyOfRow(pool, row)
    if (into.has(key)) throw new Error(`W-7: pool ${pool} has two rows of key ${key}; one is in ${file}`)
    into.set(key, Number(row['stamp']))
  }
}

/** Timestamps in µs and dates in days since 1970, as they are stored. */
async function parquetRows(bytes: Buffer): Promise<Record<string, unknown>[]> {
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer
  const raw = (value: unknown) => value
  const parsers = {
    timestampFromMilliseconds: raw,
    timestampFromMicroseconds: raw,
    timestampFromNanoseconds: raw,
    dateFromDays: raw,
    stringFromBytes: (text: Uint8Array | undefined) => text && Buffer.from(text).toString(),
  }
  return (await parquetReadObjects({ file, compressors, parsers: parsers as never })) as Record<
    string,
    unknown
  >[]
}
