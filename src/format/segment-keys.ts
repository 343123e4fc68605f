/**
 * Reads the sorted keys of a segment's rows from its file, for merges, rebuilds and checks. One
 * segment at a time is in memory.
 *
 * The loop over rows exists twice and gives equal bytes: in index/native/segment_keys.cpp, and
 * here, which is the specification.
 */
import type { Data } from 'apache-arrow'
import { Damaged, must } from '../util/errors.ts'
import { type KernelChoice, tryNative } from '../util/native.ts'
import { type KeyValues, STRING_PART_BYTES_MAX, VERSION_BYTES, writeKeyPart, writeVersion } from './key.ts'
import { buildKeyRun, type KeyRun, type RunKey } from './key-run.ts'
import {
  COLUMN_TYPE,
  type ColumnType,
  KEY_RECEIVED_AT,
  type PoolSchema,
  RECEIVED_AT,
  SEQUENCE,
} from './schema.ts'
import { readColumns, type StoredColumns } from './segment-file.ts'
import { rangeFields, rangeOf, valueReader, wordsOf, type ZoneMap } from './zone-map.ts'

/** The facts that the index keeps of a segment, read from its Parquet file. */
export interface SegmentKeys {
  readonly rows: number
  /** Each row's key and number, without versions. undefined in a pool without a key. */
  readonly run: KeyRun | undefined
  /** By row, VERSION_BYTES each; undefined in a pool without a version column. */
  readonly versions: Uint8Array | undefined
  /** By row. */
  readonly sequences: Float64Array
  /** As a flush gives them to its SegmentMeta. */
  readonly ranges: ZoneMap
}

/** A key column: its type, and its pieces. */
interface Part {
  readonly type: ColumnType
  readonly pieces: readonly Data[]
}

/**
 * Reads the key columns of all rows. `kernel` chooses the loop.
 * @throws Damaged that names the file where it is unreadable, or a row has no key of its own
 */
export async function readSegmentKeys(
  file: string,
  schema: PoolSchema,
  kernel: KernelChoice = 'native',
): Promise<SegmentKeys> {
  const keys = (schema.key?.columns ?? []).map(index => columnOf(schema, index))
  const timestamp = columnOf(schema, schema.timestamp)
  const tenant = schema.tenant < 0 ? undefined : columnOf(schema, schema.tenant)
  const version = schema.columns[schema.key?.version ?? -1]
  const names = new Set([SEQUENCE, RECEIVED_AT, timestamp.name, ...keys.map(({ name }) => name)])
  for (const column of [tenant, version]) if (column !== undefined) names.add(column.name)
  const columns = await readColumns(file, [...names])
  const parts = keys.map(({ name, type }) => ({ type, pieces: columns.column(name, type) }))
  return {
    rows: columns.rows,
    run: schema.key === null ? undefined : keyRunOf(file, parts, kernel),
    versions: version && versionsOf(file, columns.column(version.name, version.type), version.type),
    sequences: sequencesOf(columns),
    ranges: rangeFields({
      received: rangeOf(columns.column(RECEIVED_AT, 'TIMESTAMP'), 'TIMESTAMP'),
      timestamp: rangeOf(columns.column(timestamp.name, timestamp.type), timestamp.type),
      timestampIsDate: timestamp.type === 'DATE',
      tenant:
        tenant === undefined ? undefined : rangeOf(columns.column(tenant.name, tenant.type), tenant.type),
      tenantType: tenant?.type,
    }),
  }
}

/** Sequences of a segment's rows, by row. Throws Damaged naming the file. */
export async function readSequences(file: string): Promise<Float64Array> {
  return sequencesOf(await readColumns(file, [SEQUENCE]))
}

function columnOf(schema: PoolSchema, index: number): { readonly name: string; readonly type: ColumnType } {
  const column = index === KEY_RECEIVED_AT ? undefined : schema.columns[index]
  return column ?? { name: RECEIVED_AT, type: 'TIMESTAMP' }
}

function sequencesOf(columns: StoredColumns): Float64Array {
  const sequences = new Float64Array(columns.rows)
  let row = 0
  for (const piece of columns.column(SEQUENCE, 'INT64')) {
    const words = wordsOf(piece)
    for (let i = 0; i < piece.length; i++, row++)
      sequences[row] = words[2 * i + 1]! * 4_294_967_296 + (words[2 * i]! >>> 0)
  }
  return sequences
}

function versionsOf(file: string, pieces: readonly Data[], type: ColumnType): Uint8Array {
  const rows = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const versions = new Uint8Array(VERSION_BYTES * rows)
  let at = 0
  for (const piece of pieces) {
    if (piece.nullCount > 0) throw new Damaged(file, 0, 'a row has no version: the version column is null')
    const read = valueReader(piece, type) as (row: number) => bigint | number
    for (let row = 0; row < piece.length; row++, at += VERSION_BYTES)
      writeVersion(versions, at, type, read(row))
  }
  return versions
}

function keyRunOf(file: string, parts: readonly Part[], kernel: KernelChoice): KeyRun {
  for (const { pieces } of parts) {
    const holes = pieces.find(piece => piece.nullCount > 0)
    if (holes !== undefined) throw new Damaged(file, 0, 'a row has no key: a key column is null')
  }
  const native = tryNative<NativeSegmentKeys>(kernel)
  if (native === undefined) return jsRun(file, parts)
  const run = native.segmentKeyRun(
    parts.map(({ type }) => COLUMN_TYPE[type].number),
    (parts[0]?.pieces ?? []).map((piece, index) => [
      piece.length,
      ...parts.flatMap(part => buffersOf(must(part.pieces[index], 'columns have equal pieces'))),
    ]),
  )
  if (run instanceof ArrayBuffer) return run
  throw twice(file, run[0], run[1])
}

interface NativeSegmentKeys {
  /** See native/segment_keys.cpp. Returns two rows with the same key instead of a run. */
  segmentKeyRun(
    types: readonly number[],
    chunks: readonly (readonly (number | Uint8Array | null)[])[],
  ): KeyRun | Uint32Array
}

function buffersOf(piece: Data): [data: Uint8Array, offsets: Uint8Array | null] {
  const offsets = piece.valueOffsets as Int32Array | undefined
  return [bytesOf(piece.values as ArrayBufferView), offsets === undefined ? null : bytesOf(offsets)]
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer as ArrayBuffer, view.byteOffset, view.byteLength)
}

function jsRun(file: string, parts: readonly Part[]): KeyRun {
  const keys: RunKey[] = []
  const key = new Uint8Array(parts.length * STRING_PART_BYTES_MAX)
  for (let index = 0; index < (parts[0]?.pieces.length ?? 0); index++) {
    const columns = parts.map(({ type, pieces }) => ({
      type,
      values: keyValuesOf(must(pieces[index], 'columns have equal pieces'), type),
    }))
    const rows = parts[0]?.pieces[index]?.length ?? 0
    for (let row = 0; row < rows; row++) {
      const end = columns.reduce((at, { type, values }) => writeKeyPart(key, at, type, values, row), 0)
      keys.push({ key: key.slice(0, end), row: keys.length })
    }
  }
  const run = buildKeyRun(keys) // sorts them in place
  for (let i = 1; i < keys.length; i++) {
    const [a, b] = [keys[i - 1]!, keys[i]!]
    if (Buffer.compare(a.key, b.key) === 0) throw twice(file, Math.min(a.row, b.row), Math.max(a.row, b.row))
  }
  return run
}

function keyValuesOf(piece: Data, type: ColumnType): KeyValues {
  const read = valueReader(piece, type)
  const values = { bytes: new Uint8Array(0), words: piece.values as Int32Array, doubles: [] }
  switch (type) {
    case 'STRING':
      return { ...values, bytes: piece.values as Uint8Array, words: piece.valueOffsets as Int32Array }
    case 'BOOLEAN':
      return { ...values, words: Array.from({ length: piece.length }, (_, row) => Number(read(row))) }
    case 'FLOAT':
    case 'DOUBLE':
      return { ...values, doubles: piece.values as Float64Array }
    case 'INT64':
    case 'TIMESTAMP':
      return { ...values, words: wordsOf(piece) }
    default:
      return values
  }
}

function twice(file: string, a: number | undefined, b: number | undefined): Damaged {
  return new Damaged(file, 0, `rows ${a} and ${b} have the same key`)
}
