/**
 * Reads of segments what a rebuild needs: the footer, the keys of its rows, and the ranges of its columns.
 * The format is the segment stage's (src/segment/FORMAT.md). Only the needed columns are read and decoded.
 */
import { openAsBlob } from 'node:fs'
import { type Data, tableFromIPC, type Vector } from 'apache-arrow'
import { ParquetFile } from 'parquet-wasm'
import { encodeKeyParts, type KeyPart } from '../batch/key.ts'
import { type ColumnType, KEY_RECEIVED_AT, type Plan, RECEIVED_AT, SEQUENCE } from '../batch/plan.ts'
import { Damaged } from '../errors.ts'
import { ROW_GROUP_ROWS } from '../limits.ts'
import { createRange, type Ranges, type Value } from './ranges.ts'

/** What a segment's file says of itself. */
export interface Footer {
  readonly pool: number
  readonly planVersion: number
  readonly segment: number
  readonly sequenceFrom: number
  readonly sequenceTo: number
  readonly rows: number
  /** Keys in the delete file beside it; 0: there is none. */
  readonly deletes: number
  readonly replaces: readonly number[]
}

/** Keys with the sequences that wrote or deleted them, in the file's order. */
export interface StoredKeys {
  readonly keys: readonly Uint8Array[]
  readonly sequences: ArrayLike<number>
}

/** Rows of a segment as the index knows them. `keys` is empty in a pool without a unique id. */
export interface StoredRows extends StoredKeys {
  readonly rows: number
  readonly ranges: Ranges
}

/** The footer of a Parquet file. Throws Damaged naming the file. */
export async function readFooter(file: string): Promise<Footer> {
  const texts = await withFile(file, async parquet => {
    const metadata = parquet.metadata().fileMetadata()
    return metadata.keyValueMetadata() as Map<string, string>
  })
  const number = (name: string): number => {
    const value = Number(texts.get(name) ?? Number.NaN)
    if (!Number.isSafeInteger(value) || value < 0) throw new Damaged(file, 0, `its footer has no ${name}`)
    return value
  }
  if (number('weir.format') !== 1) throw new Damaged(file, 0, 'its format is not known')
  const replaces = texts.get('weir.replaces') ?? ''
  return {
    pool: number('weir.pool_number'),
    planVersion: number('weir.plan_version'),
    segment: number('weir.segment'),
    sequenceFrom: number('weir.sequence_from'),
    sequenceTo: number('weir.sequence_to'),
    rows: number('weir.rows'),
    deletes: number('weir.deletes'),
    replaces: replaces === '' ? [] : replaces.split(',').map(Number),
  }
}

/** Keys, sequences and ranges of all rows. Throws Damaged naming the file. */
export async function readRows(file: string, plan: Plan): Promise<StoredRows> {
  const keyNames = (plan.key?.columns ?? []).map(index => nameOf(plan, index))
  const timestamp = nameOf(plan, plan.timestamp)
  const tenant = plan.tenant < 0 ? undefined : nameOf(plan, plan.tenant)
  const names = new Set([SEQUENCE, RECEIVED_AT, timestamp, ...keyNames])
  if (tenant !== undefined) names.add(tenant)
  const ipc = await withFile(file, async parquet => {
    const table = await parquet.read({ columns: [...names], batchSize: ROW_GROUP_ROWS })
    return table.intoIPCStream() // consumes the table
  })
  const table = tableFromIPC(ipc)
  const column = (name: string): Reader => {
    const vector = table.getChild(name)
    if (vector === null) throw new Damaged(file, 0, `it has no column ${name}`)
    return readerOf(vector, typeOf(plan, name))
  }
  const sequence = column(SEQUENCE)
  const sequences = new Float64Array(table.numRows)
  for (let row = 0; row < sequences.length; row++) sequences[row] = Number(sequence(row))
  const ranges: Ranges = {
    received: createRange(column(RECEIVED_AT), table.numRows),
    timestamp: createRange(column(timestamp), table.numRows),
    timestampIsDate: typeOf(plan, timestamp) === 'DATE',
    tenant: tenant === undefined ? undefined : createRange(column(tenant), table.numRows),
    tenantType: tenant === undefined ? undefined : typeOf(plan, tenant),
  }
  const parts = keyNames.map(name => ({ type: typeOf(plan, name), read: column(name) }))
  return { rows: table.numRows, keys: keysOf(file, parts, table.numRows), sequences, ranges }
}

function keysOf(
  file: string,
  parts: readonly { type: ColumnType; read: Reader }[],
  rows: number,
): Uint8Array[] {
  if (parts.length === 0) return []
  const keys: Uint8Array[] = []
  for (let row = 0; row < rows; row++) {
    const values = parts.map(({ type, read }): KeyPart => {
      const value = read(row)
      if (value === null) throw new Damaged(file, 0, `row ${row} has no key`)
      return { type, value }
    })
    keys.push(encodeKeyParts(values))
  }
  return keys
}

function nameOf(plan: Plan, index: number): string {
  return index === KEY_RECEIVED_AT ? RECEIVED_AT : (plan.columns[index]?.name ?? RECEIVED_AT)
}

function typeOf(plan: Plan, name: string): ColumnType {
  if (name === RECEIVED_AT) return 'TIMESTAMP'
  if (name === SEQUENCE) return 'INT64'
  return plan.columns.find(column => column.name === name)?.type ?? 'JSON'
}

/** The stored value of a row; null where it is null. */
export type Reader = (row: number) => Value

function readerOf(vector: Vector, type: ColumnType): Reader {
  const chunks = vector.data.map(data => ({ rows: data.length, read: chunkReader(data, type) }))
  let [current, from] = [0, 0] // rows are read in order: the chunk of the last row is the one to try first
  return row => {
    if (row < from) [current, from] = [0, 0]
    for (;;) {
      const chunk = chunks[current]
      if (chunk === undefined) return null
      if (row < from + chunk.rows) return chunk.read(row - from)
      from += chunk.rows
      current += 1
    }
  }
}

/** The raw buffers of one record batch's column: Arrow's own getters round timestamps to milliseconds. */
function chunkReader(data: Data, type: ColumnType): Reader {
  const valid = (row: number) => data.getValid(row)
  if (type === 'STRING' || type === 'JSON') {
    const offsets = data.valueOffsets as ArrayLike<number | bigint>
    const bytes = data.values as Uint8Array
    return row => (valid(row) ? bytes.subarray(Number(offsets[row]), Number(offsets[row + 1])) : null)
  }
  const values = data.values as ArrayLike<number | bigint>
  if (type === 'BOOLEAN')
    return row => {
      const bit = data.offset + row
      return valid(row) ? ((Number(values[bit >> 3]) >> (bit & 7)) & 1) === 1 : null
    }
  return row => (valid(row) ? (values[row] as number | bigint) : null)
}

/** Opens, reads and frees; what parquet-wasm throws becomes Damaged. */
async function withFile<T>(file: string, work: (parquet: ParquetFile) => Promise<T>): Promise<T> {
  let parquet: ParquetFile | undefined
  try {
    parquet = await ParquetFile.fromFile(await openAsBlob(file))
    return await work(parquet)
  } catch (error) {
    throw new Damaged(file, 0, error instanceof Error ? error.message : String(error))
  } finally {
    parquet?.free()
  }
}
