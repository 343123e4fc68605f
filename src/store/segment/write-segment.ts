/**
 * One flush in the segment thread: entries → winning rows → Arrow buffers → Parquet → durable
 * files. W-5: the answer is given only when the files are durable. W-7 within a flush: one row per
 * key.
 */

import {
  BATCH_MAGIC,
  BATCH_VERSION,
  type BatchBuffer,
  batchColumns,
  batchRows,
  columnView,
  FIRST_SCHEMA_COLUMN,
  HEADER_WORDS,
  KEY_COLUMN,
  KIND,
  type Kind,
  kindOf,
  PAYLOAD_COLUMN,
  WIDTH_OF_KIND,
} from '../../format/batch-layout.ts'
import { writeDeleteFile } from '../../format/delete-file.ts'
import { type PoolSchema, ZONE_TYPES } from '../../format/schema.ts'
import { type SegmentMeta, segmentFooter } from '../../format/segment-meta.ts'
import { rangeFields, type ZoneMap } from '../../format/zone-map.ts'
import { crc32 } from '../../util/crc32.ts'
import type { Disk } from '../../util/disk.ts'
import { assert } from '../../util/errors.ts'
import { ENTRY_WORDS, type MemtableEntry } from '../flush/memtable.ts'
import type { FlushDone, FlushTask } from '../flush/segment-writer.ts'
import { layOutStream, Scratch, type StreamLayout, writeStreamFrame } from './arrow-stream.ts'
import {
  type Assembler,
  countRows,
  type Deduplicated,
  PLACE_WORDS,
  PLACES_FIRST_COLUMN,
  type StreamColumn,
} from './assembler.ts'
import type { Encoder } from './parquet-encoder.ts'
import { publishSegment } from './publish-segment.ts'

export class FlushWriter {
  readonly #assembler: Assembler
  readonly #encoder: Encoder
  readonly #disk: Disk
  /** For the streams. */
  readonly #scratch = new Scratch()

  constructor(assembler: Assembler, encoder: Encoder, disk: Disk) {
    this.#assembler = assembler
    this.#encoder = encoder
    this.#disk = disk
  }

  /** Writes the flush's files. Throws Node's error when the disk refuses. */
  write(task: FlushTask): FlushDone {
    checkEntries(task)
    const { schema, entries } = task
    const deduplicated = this.#assembler.deduplicate(
      entries,
      schema.key !== null,
      FIRST_SCHEMA_COLUMN + schema.columns.length,
      versionColumn(schema),
    )
    const rows = countRows(deduplicated.keep)
    if (rows === 0 && deduplicated.deletes.length === 0) return { meta: undefined, keys: deduplicated.keys }
    const { parquet, zoneMap } = rows === 0 ? deletesOnly(task) : this.#parquet(task, deduplicated, rows)
    const deletes = deletesOf(task, deduplicated, rows)
    publishSegment(this.#disk, task.folder, task.segment, { parquet, deletes })
    const meta: SegmentMeta = {
      segment: task.segment,
      rows,
      bytes: (parquet?.length ?? 0) + (deletes?.length ?? 0),
      checksum: parquet === undefined ? null : crc32(parquet),
      schemaVersion: schema.version,
      sequenceFrom: task.sequenceFrom,
      sequenceTo: task.sequenceTo,
      ...zoneMap,
      deletes: deduplicated.deletes.length,
    }
    return { meta, keys: deduplicated.keys }
  }

  #parquet(
    task: FlushTask,
    deduplicated: Deduplicated,
    rows: number,
  ): { parquet: Uint8Array; zoneMap: ZoneMap } {
    const { schema, entries } = task
    const layout = layOutStream(schema, rows, deduplicated.sums, this.#encoder.headOf)
    const stream = this.#scratch.of(layout.bytes)
    writeStreamFrame(stream, layout)
    this.#assembler.gather(entries, deduplicated.keep, stream, layout.places)
    const zoneMap = zoneMapOf(schema, { stream, layout, rows, sums: deduplicated.sums }, this.#assembler)
    const footer = segmentFooter({ ...task, rows, deletes: deduplicated.deletes.length })
    const source = { entries, keep: deduplicated.keep }
    return { parquet: this.#encoder.encode(stream, layout, schema, rows, footer, source), zoneMap }
  }
}

/** The place of the version column in a batch of posts; -1 where there is none. */
function versionColumn({ key }: PoolSchema): number {
  return key === null || key.version < 0 ? -1 : FIRST_SCHEMA_COLUMN + key.version
}

function deletesOf(task: FlushTask, deduplicated: Deduplicated, rows: number): Uint8Array | undefined {
  if (deduplicated.deletes.length === 0) return undefined
  assert(deduplicated.keys !== undefined, 'deletes have keys')
  const header = {
    pool: task.schema.pool,
    schemaVersion: task.schema.version,
    segment: task.segment,
    sequenceFrom: task.sequenceFrom,
    sequenceTo: task.sequenceTo,
    rowsOfFlush: rows,
  }
  return writeDeleteFile(header, deduplicated.keys, deduplicated.deletes)
}

/**
 * A flush of deletes alone. It has the received-at of its requests, so that retention can remove
 * it.
 */
function deletesOnly(task: FlushTask): { parquet: undefined; zoneMap: ZoneMap } {
  let [from, to] = [Number.POSITIVE_INFINITY, 0]
  for (const { requests } of task.entries)
    for (let r = 1; r < requests.length; r += ENTRY_WORDS) {
      from = Math.min(from, requests[r]!)
      to = Math.max(to, requests[r]!)
    }
  return {
    parquet: undefined,
    zoneMap: { ...rangeFields(undefined), receivedFromUs: from, receivedToUs: to },
  }
}

/** The rows of a segment in its stream. */
interface Gathered {
  readonly stream: Uint8Array
  readonly layout: StreamLayout
  /** At least one. */
  readonly rows: number
  /** Deduplicated.sums */
  readonly sums: Float64Array
}

/** The zone map of the rows in `gathered`. format/zone-map.ts makes the same from a file. */
export function zoneMapOf(
  schema: PoolSchema,
  gathered: Gathered,
  assembler: Pick<Assembler, 'minMax'>,
): ZoneMap {
  const minMaxOf = (column: StreamColumn) => {
    const [min, max] = assembler.minMax(gathered.stream, column, gathered.rows)
    return { min: valueAt(gathered, column, min), max: valueAt(gathered, column, max) }
  }
  const minMaxOfColumn = (index: number) => {
    const column = columnOf(schema, gathered, index)
    return column === undefined ? undefined : minMaxOf(column)
  }
  const { timestamp, tenant, columns } = schema
  const tenantType = columns[tenant]?.type
  const received = minMaxOf({ kind: KIND.i64, offsets: -1, data: gathered.layout.places[0]! })
  return rangeFields({
    received,
    timestamp: timestamp < 0 ? received : minMaxOfColumn(timestamp),
    timestampIsDate: columns[timestamp]?.type === 'DATE',
    tenant: tenantType !== undefined && ZONE_TYPES.includes(tenantType) ? minMaxOfColumn(tenant) : undefined,
    tenantType,
  })
}

/** Returns column `index` of the schema; undefined if one of its values is null. */
function columnOf(schema: PoolSchema, { sums, layout }: Gathered, index: number): StreamColumn | undefined {
  const batchColumn = FIRST_SCHEMA_COLUMN + index
  const place = PLACES_FIRST_COLUMN + PLACE_WORDS * batchColumn
  if (sums[2 * batchColumn]! > 0) return undefined
  return {
    kind: kindOf(schema.columns[index]!.type),
    offsets: layout.places[place + 1]!,
    data: layout.places[place + 2]!,
  }
}

function valueAt(
  { stream }: Gathered,
  { kind, offsets, data }: StreamColumn,
  row: number,
): bigint | Uint8Array {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength)
  if (kind === KIND.binary) {
    const [from, to] = [view.getInt32(offsets + 4 * row, true), view.getInt32(offsets + 4 * row + 4, true)]
    return stream.slice(data + from, data + to)
  }
  const at = data + WIDTH_OF_KIND[kind] * row
  if (kind === KIND.i64) return view.getBigInt64(at, true)
  if (kind === KIND.i32) return BigInt(view.getInt32(at, true))
  return BigInt(kind === KIND.i16 ? view.getInt16(at, true) : view.getInt8(at))
}

/**
 * Throws AssertionFailed when an entry does not match the task's schema or its own header. It runs
 * once, before any pass reads the entries, so the native passes need no bounds of their own. A
 * mismatch is a bug: batches come from our own parsers.
 */
function checkEntries(task: FlushTask): void {
  const { schema, entries, sequenceFrom, sequenceTo } = task
  for (const entry of entries) {
    const header = new Int32Array(entry.batch, 0, HEADER_WORDS)
    assert(header[0] === BATCH_MAGIC && header[1] === BATCH_VERSION, 'an entry holds a batch')
    assert(header[4]! <= entry.batch.byteLength, 'a batch is complete')
    assert(entry.kind === 'post' || schema.key !== null, 'deletes come to pools with a key')
    checkRequests(entry, sequenceFrom, sequenceTo)
    checkColumns(entry, schema)
  }
}

function checkRequests({ batch, requests }: MemtableEntry, sequenceFrom: number, sequenceTo: number): void {
  let rows = 0
  for (let r = 0; r < requests.length; r += ENTRY_WORDS) {
    const sequence = requests[r]!
    assert(sequence >= sequenceFrom && sequence <= sequenceTo, 'a sequence is in the range of its flush')
    rows += requests[r + 2]!
  }
  assert(rows === batchRows(batch), 'the requests of an entry have its rows')
}

function checkColumns({ kind, batch }: MemtableEntry, schema: PoolSchema): void {
  const columns = batchColumns(batch)
  const wanted = FIRST_SCHEMA_COLUMN + (kind === 'post' ? schema.columns.length : 0)
  assert(columns === wanted, `a batch of pool ${schema.pool} has ${wanted} columns`)
  if (kind === 'post') checkColumn(batch, PAYLOAD_COLUMN, KIND.binary)
  if (schema.key !== null) checkColumn(batch, KEY_COLUMN, KIND.binary)
  for (let c = FIRST_SCHEMA_COLUMN; c < columns; c++)
    checkColumn(batch, c, kindOf(schema.columns[c - FIRST_SCHEMA_COLUMN]!.type))
}

function checkColumn(batch: BatchBuffer, index: number, kind: Kind): void {
  const rows = batchRows(batch)
  const view = columnView(batch, index)
  const bytes = kind === KIND.bool ? Math.ceil(rows / 8) : rows * WIDTH_OF_KIND[kind]
  assert(view.kind === kind, `batch column ${index} has the kind of its schema column`)
  assert(view.dataOffset + view.dataBytes <= batch.byteLength, 'a column ends inside its batch')
  assert(kind === KIND.binary || view.dataBytes >= bytes, 'a column has a value for each row')
  assert(view.nulls === 0 || view.validityOffset > 0, 'a column with nulls has a bitmap')
  assert(view.validityOffset + Math.ceil(rows / 8) <= batch.byteLength, 'a bitmap ends inside its batch')
  if (kind !== KIND.binary) return
  assert(view.offsetsOffset > 0, 'a variable-width column has offsets')
  const offsets = new Int32Array(batch, view.offsetsOffset, rows + 1)
  assert(offsets[0] === 0 && offsets[rows] === view.dataBytes, 'offsets end with the data')
}
