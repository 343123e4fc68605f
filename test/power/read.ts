/**
 * Reads the rows that a query would see, with hyparquet: the manifest's segments without their
 * deleted rows.
 */
import { readFileSync } from 'node:fs'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { readByHyparquet } from '../util/read-parquet.ts'
import { keyOfRow, type Rows } from './pools.ts'
import type { SingleThreadServer } from './single-thread-server.ts'

type KeyOf = (pool: number, row: Readonly<Record<string, unknown>>) => string

/**
 * Key → stamp of all visible rows. Throws for two rows of one key (W-7), and for a wrong deletion
 * vector.
 * @param keyOf names the row of a pool by its key
 */
export async function visibleRows(
  { manifest, schemas }: SingleThreadServer,
  keyOf: KeyOf = keyOfRow,
): Promise<Rows> {
  const all = new Map<number, Map<string, number>>()
  for (const { pool } of schemas) {
    const rows = new Map<string, number>()
    const snapshot = await manifest.snapshot(pool)
    for (const segment of snapshot.segments) await readSegment(pool, segment, keyOf, rows)
    snapshot.release()
    all.set(pool, rows)
  }
  return all
}

async function readSegment(
  pool: number,
  segment: QuerySegment,
  keyOf: KeyOf,
  into: Map<string, number>,
): Promise<void> {
  const { file, meta, deletionVectors } = segment
  const rows = await readByHyparquet(readFileSync(file))
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
    const key = keyOf(pool, row)
    if (into.has(key)) throw new Error(`W-7: pool ${pool} has two rows of key ${key}; one is in ${file}`)
    into.set(key, Number(row['stamp']))
  }
}
