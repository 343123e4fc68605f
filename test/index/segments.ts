/**
 * Writes segments as the segment thread does (src/format/segment.md): an independent small writer
 * for the tests.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Int64, Table, TimestampMicrosecond, tableToIPC, Utf8, Vector, vectorFromArray } from 'apache-arrow'
import * as parquet from 'parquet-wasm'
import { writeDeleteFile } from '../../src/format/delete-file.ts'
import { buildKeyRun } from '../../src/format/key-run.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import type { SegmentMeta } from '../../src/format/segment-meta.ts'
import type { FlushCommit } from '../../src/index/index-types.ts'
import { type Opened, openIndexFolder } from '../../src/index/open-index.ts'
import type { LoggedSequences } from '../../src/index/rebuild-index.ts'
import { type Disk, disk } from '../../src/util/disk.ts'
import { deleteFile, type Paths, segmentFile } from '../../src/util/paths.ts'
import { encodeKeyParts } from '../util/key-parts.ts'

/** Key: (ts, id). Tenant: id. */
export const SCHEMA: PoolSchema = {
  pool: 1,
  version: 1,
  columns: [
    { name: 'ts', type: 'TIMESTAMP', jsonProperty: 'ts', required: true },
    { name: 'id', type: 'STRING', jsonProperty: 'id', required: true },
  ],
  timestamp: 0,
  tenant: 1,
  key: { columns: [0, 1], version: -1 },
}

/** A row, or a delete of its key. Received-at is 1000 × sequence, in µs. */
export interface Change {
  readonly ts: number
  readonly id: string
  readonly sequence: number
}

export interface Flush {
  readonly schema: PoolSchema
  readonly folder: string
  readonly segment: number
  readonly rows: readonly Change[]
  readonly deletes?: readonly Change[]
  readonly replaces?: readonly number[]
  readonly from: number
  readonly to: number
}

const keyOf = ({ ts, id }: Change) =>
  encodeKeyParts([
    { type: 'TIMESTAMP', value: ts },
    { type: 'STRING', value: id },
  ])

/**
 * Opens the index of a folder with one pool, POOL1, in this thread, because an index thread takes a
 * second to start.
 */
export function openHere(
  paths: Paths,
  held: LoggedSequences = () => undefined,
  on: Disk = disk,
): Promise<Opened> {
  return openIndexFolder({
    disk: on,
    folder: paths.index,
    segmentFolder: paths.segment,
    identity: 'here',
    pools: [{ pool: 1, poolId: 'POOL1', schemas: [SCHEMA] }],
    kernel: 'native',
    loggedSequences: held,
    onProgress: () => undefined,
  })
}

/** Writes the files of a flush and returns its commit. */
export function writeFlush(flush: Flush): FlushCommit {
  const { schema, folder, segment, rows, deletes = [], replaces = [], from, to } = flush
  mkdirSync(folder, { recursive: true })
  const files: Uint8Array[] = []
  let checksum: number | null = null
  if (deletes.length > 0) files.push(writeDeletes(flush, deletes))
  if (rows.length > 0) {
    const bytes = parquetOf(flush)
    writeFileSync(join(folder, segmentFile(segment)), bytes)
    files.push(bytes)
    checksum = crc32(bytes)
  }
  const bytes = files.reduce((sum, file) => sum + file.byteLength, 0)
  const keys = [
    ...rows.map((change, row) => ({ key: keyOf(change), row })),
    ...deletes
      .filter(({ ts, id }) => !rows.some(row => row.ts === ts && row.id === id))
      .map(change => ({ key: keyOf(change), row: -1 })),
  ]
  return {
    pool: schema.pool,
    add: {
      segment,
      rows: rows.length,
      bytes,
      checksum,
      schemaVersion: 1,
      sequenceFrom: from,
      sequenceTo: to,
      ...rangesOf(rows),
      deletes: deletes.length,
    },
    remove: replaces,
    keys: schema.key === null ? undefined : buildKeyRun(keys),
    flushedSequence: to,
  }
}

function rangesOf(rows: readonly Change[]) {
  if (rows.length === 0)
    return { receivedFromUs: 0, receivedToUs: 0, timestampFromUs: null, timestampToUs: null, tenant: null }
  const received = rows.map(row => row.sequence * 1000)
  const stamps = rows.map(row => row.ts)
  const ids = rows.map(row => row.id).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  const [min = '', max = ''] = [ids[0], ids.at(-1)]
  const isLong = min.length > 64 || max.length > 64
  return {
    receivedFromUs: Math.min(...received),
    receivedToUs: Math.max(...received),
    timestampFromUs: Math.min(...stamps),
    timestampToUs: Math.max(...stamps),
    tenant: isLong ? null : { min, max },
  } satisfies Partial<SegmentMeta>
}

function writeDeletes(
  { schema, folder, segment, rows, from, to }: Flush,
  deletes: readonly Change[],
): Uint8Array {
  const sorted = [...deletes].sort((a, b) => Buffer.compare(keyOf(a), keyOf(b)))
  const run = buildKeyRun(sorted.map(change => ({ key: keyOf(change), row: -1 })))
  const header = {
    pool: schema.pool,
    schemaVersion: 1,
    segment,
    sequenceFrom: from,
    sequenceTo: to,
    rowsOfFlush: rows.length,
  }
  const bytes = writeDeleteFile(
    header,
    run,
    Float64Array.from(sorted, change => change.sequence),
  )
  writeFileSync(join(folder, deleteFile(segment)), bytes)
  return bytes
}

function parquetOf({ schema, segment, rows, deletes = [], replaces = [], from, to }: Flush): Uint8Array {
  const stamp = () => new TimestampMicrosecond('UTC')
  const table = new Table({
    _service_received_at: micros(
      rows.map(row => row.sequence * 1000),
      stamp(),
    ),
    _service_payload: vectorFromArray(
      rows.map(row => JSON.stringify(row)),
      new Utf8(),
    ),
    ts: micros(
      rows.map(row => row.ts),
      stamp(),
    ),
    id: vectorFromArray(
      rows.map(row => row.id),
      new Utf8(),
    ),
    _service_sequence: vectorFromArray(
      rows.map(row => BigInt(row.sequence)),
      new Int64(),
    ),
  })
  const footer = new Map([
    ['weir.format', '1'],
    ['weir.pool', 'pool'],
    ['weir.pool_number', String(schema.pool)],
    ['weir.schema_version', '1'],
    ['weir.segment', String(segment)],
    ['weir.sequence_from', String(from)],
    ['weir.sequence_to', String(to)],
    ['weir.rows', String(rows.length)],
    ['weir.deletes', String(deletes.length)],
    ['weir.replaces', replaces.join(',')],
  ])
  const properties = new parquet.WriterPropertiesBuilder()
    .setMaxRowGroupSize(100)
    .setKeyValueMetadata(footer)
    .build()
  return parquet.writeParquet(parquet.Table.fromIPCStream(tableToIPC(table, 'stream')), properties)
}

/** Builds a vector of integers, because Arrow's builder for timestamps takes milliseconds. */
function micros(values: readonly number[], type: TimestampMicrosecond) {
  const integers = vectorFromArray(values.map(BigInt), new Int64())
  return new Vector(integers.data.map(data => data.clone(type as never)))
}
