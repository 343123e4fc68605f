/** Writes segments as the segment stage does (src/segment/FORMAT.md): a small writer of its own for the tests. */

import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Int64, Table, TimestampMicrosecond, tableToIPC, Utf8, Vector, vectorFromArray } from 'apache-arrow'
import * as parquet from 'parquet-wasm'
import { encodeKeyParts } from '../../src/batch/key.ts'
import type { Plan } from '../../src/batch/plan.ts'
import { buildKeyRun } from '../../src/keys/key-run.ts'
import { type Opened, openIndexFolder } from '../../src/keys/open.ts'
import type { SealCommit, SegmentMeta } from '../../src/keys/protocol.ts'
import type { HeldSequences } from '../../src/keys/rebuild.ts'
import { deleteFile, type Paths, segmentFile } from '../../src/paths.ts'
import { readDeleteFile, writeDeleteFile } from '../../src/segment/deletes.ts'
import { type Disk, disk } from '../../src/util/disk.ts'

/** Key: (ts, id). Tenant: id. */
export const PLAN: Plan = {
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

export interface Seal {
  readonly plan: Plan
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

/** Opens the index of a folder with one pool, POOL1, in this thread: a thread of its own takes a second to start. */
export function openHere(
  paths: Paths,
  held: HeldSequences = () => undefined,
  on: Disk = disk,
): Promise<Opened> {
  return openIndexFolder({
    disk: on,
    folder: paths.index,
    segmentFolder: paths.segment,
    identity: 'here',
    pools: [{ pool: 1, poolId: 'POOL1', plans: [PLAN] }],
    kernel: 'native',
    parseDeletes: readDeleteFile,
    heldSequences: held,
    onProgress: () => undefined,
  })
}

/** Writes the files of a seal and returns what it gives to the index. */
export function writeSeal(seal: Seal): SealCommit {
  const { plan, folder, segment, rows, deletes = [], replaces = [], from, to } = seal
  mkdirSync(folder, { recursive: true })
  const files: Uint8Array[] = []
  let checksum: number | null = null
  if (deletes.length > 0) files.push(writeDeletes(seal, deletes))
  if (rows.length > 0) {
    const bytes = parquetOf(seal)
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
    pool: plan.pool,
    add: {
      segment,
      rows: rows.length,
      bytes,
      checksum,
      planVersion: 1,
      sequenceFrom: from,
      sequenceTo: to,
      ...rangesOf(rows),
      deletes: deletes.length,
    },
    remove: replaces,
    keys: plan.key === null ? undefined : buildKeyRun(keys),
    sealedSequence: to,
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
  { plan, folder, segment, rows, from, to }: Seal,
  deletes: readonly Change[],
): Uint8Array {
  const sorted = [...deletes].sort((a, b) => Buffer.compare(keyOf(a), keyOf(b)))
  const run = buildKeyRun(sorted.map(change => ({ key: keyOf(change), row: -1 })))
  const header = {
    pool: plan.pool,
    planVersion: 1,
    segment,
    sequenceFrom: from,
    sequenceTo: to,
    rowsOfSeal: rows.length,
  }
  const bytes = writeDeleteFile(
    header,
    run,
    Float64Array.from(sorted, change => change.sequence),
  )
  writeFileSync(join(folder, deleteFile(segment)), bytes)
  return bytes
}

function parquetOf({ plan, segment, rows, deletes = [], replaces = [], from, to }: Seal): Uint8Array {
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
    ['weir.pool_number', String(plan.pool)],
    ['weir.plan_version', '1'],
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

/** Arrow's own builder takes timestamps in milliseconds: the bits are put in as integers. */
function micros(values: readonly number[], type: TimestampMicrosecond) {
  const integers = vectorFromArray(values.map(BigInt), new Int64())
  return new Vector(integers.data.map(data => data.clone(type as never)))
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
}
