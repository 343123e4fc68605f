/**
 * Reads the rows that a query would see, with hyparquet: the manifest's segments without their
 * deleted rows.
 */
import { readFileSync } from 'node:fs'
import type { QuerySegment } from '../../src/index/index-types.ts'
import type { Manifest } from '../../src/index/manifest.ts'
import { readByHyparquet } from '../util/read-parquet.ts'

/** How the rows of a pool are named and compared. */
interface Names<Value> {
  keyOf(row: Readonly<Record<string, unknown>>): string
  contentOf(row: Readonly<Record<string, unknown>>): Value
}

/**
 * Key → value of all visible rows of a pool. Throws for two rows of one key (W-7), and for a wrong
 * deletion vector.
 */
export async function visibleRows<Value>(
  manifest: Manifest,
  pool: number,
  names: Names<Value>,
): Promise<ReadonlyMap<string, Value>> {
  const rows = new Map<string, Value>()
  const snapshot = await manifest.snapshot(pool)
  for (const segment of snapshot.segments) await readSegment(segment, names, rows)
  snapshot.release()
  return rows
}

async function readSegment<Value>(
  segment: QuerySegment,
  { keyOf, contentOf }: Names<Value>,
  into: Map<string, Value>,
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
    const key = keyOf(row)
    if (into.has(key)) throw new Error(`W-7: two rows of key ${key}; one is in ${file}`)
    into.set(key, contentOf(row))
  }
}
