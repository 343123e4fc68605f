/**
 * The rows of a pool into its table: one block after another, while the next one is read.
 *
 *   segments ──DuckDB──► record batches ──► block ──INSERT, with the version that Keeper has──►
 *   tables, then Keeper has the number of rows
 *
 * A move that was killed may have sent the block that comes next. Rows with a key replace
 * themselves. Of a pool without one, a shard that has rows of these versions has all of the block,
 * because an INSERT is one part: the shard gets none. An INSERT that a server has not ended yet is
 * found by ClickHouse, which drops a block that it had in the last hour.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Data } from 'apache-arrow'
import { insertRows, quorumsOf } from '../../cluster/clickhouse/insert-rows.ts'
import { type BlockEntry, REQUEST_WORDS } from '../../cluster/clickhouse/native-block.ts'
import { insertProven } from '../../cluster/clickhouse/stored-rows.ts'
import { syncedReplicas } from '../../cluster/clickhouse/synced-replicas.ts'
import type { Topology } from '../../cluster/clickhouse/topology.ts'
import { ROWS_MAX } from '../../cluster/keeper/versions.ts'
import type { MoveRoot } from '../../cluster/move/move-root.ts'
import { type BatchBuffer, KIND, kindOf, valueBytes } from '../../format/batch-layout.ts'
import type { ColumnType, PoolSchema } from '../../format/schema.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import { Column, KeyWriter, writeBatch } from '../../parse/column-builders.ts'
import { openBatches } from '../../query/arrow/copied-batches.ts'
import { batchesOf, pieceOf } from '../../query/arrow/export-formats.ts'
import { type CopySegments, recordBatches } from '../../query/arrow/export-stream.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { copyRows } from '../../query/copy-rows.ts'
import { countLiveRows } from '../../query/duckdb/live-rows.ts'
import { duckdb } from '../../query/duckdb/write-statement.ts'
import { queryColumns } from '../../query/expression/operand.ts'
import type { SegmentEngine } from '../../query/plan/segment-task.ts'
import { writeSelection } from '../../query/selection.ts'
import { monotonicMs, wallMs } from '../../util/clock.ts'
import { assert, CannotRun, must, Unavailable } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { EXPORT_COPY_MS_MAX, MiB } from '../../util/limits.ts'
import { note } from '../../util/say.ts'
import { quoteClickHouseName } from '../../util/sql.ts'

const ANSWER_BYTES_MAX = 65_536
/** Nobody waits for a block as a client does: servers may be slow, or one may start again. */
const INSERT_MS_MAX = 300_000
const RETRY_MS = 1_000

export interface MovedPool {
  /** Its place among all pools. */
  readonly index: number
  readonly table: string
  readonly schema: PoolSchema
  readonly segments: readonly QuerySegment[]
}

interface MoveDeps {
  readonly root: MoveRoot
  readonly engine: SegmentEngine
  /** data/tmp, absolute. */
  readonly temporaryFolder: string
  readonly quorum: number
  topology(): Topology
  onRows(rows: number): void
}

/**
 * Moves the rows that are not moved yet.
 * @param moved rows that are
 * @param mayBeSent an earlier process may have sent the next block
 */
export async function moveRows(
  pool: MovedPool,
  moved: number,
  mayBeSent: boolean,
  deps: MoveDeps,
): Promise<void> {
  const { schema, segments, index } = pool
  const { root } = deps
  let [first, before] = [0, 0]
  for (const segment of segments) {
    const live = countLiveRows([segment])
    if (before + live > moved) break
    before += live
    first += 1
  }
  let rows = moved
  let isChecked = !mayBeSent || schema.key !== null
  let sent = Promise.resolve()
  for await (const block of blocksOf(schema, messagesOf(pool, first, deps), moved - before)) {
    await sent
    const without = isChecked ? new Set<number>() : await shardsWith(pool, block, deps)
    isChecked = true
    rows += block.rows
    sent = insert(pool, block, without, deps).then(() => root.advance({ pools: index, rows }))
    sent.catch(() => {}) // it is awaited before the next one
    deps.onRows(block.rows)
  }
  await sent
  crashPoint('move.pool')
  await root.advance({ pools: index + 1, rows: 0 })
}

/** One segment at a time: together, those with deleted rows would come last. */
export async function* messagesOf(
  { schema, segments }: Pick<MovedPool, 'schema' | 'segments'>,
  first: number,
  deps: Pick<MoveDeps, 'engine' | 'temporaryFolder'>,
) {
  const planned = await writeSelection({ schema, policy: null }, {}, async () => new Map(), wallMs(), duckdb)
  assert(!('badRequest' in planned), 'all rows and columns can be selected')
  const copy: CopySegments = (group, gone) =>
    copyRows(schema, planned, group, { fairKey: 'move', gone }, deps, EXPORT_COPY_MS_MAX)
  for (const segment of segments.slice(first)) yield* recordBatches([segment], copy, openBatches)
}

async function insert(
  { table, schema }: MovedPool,
  block: Block,
  without: ReadonlySet<number>,
  { root, topology, quorum }: MoveDeps,
): Promise<void> {
  const entries = entriesOf(block, root.version)
  crashPoint('move.before-insert')
  let said = ''
  // The process before this one may have sent the first block.
  for (const endMs = monotonicMs() + INSERT_MS_MAX; ; )
    try {
      const options = () => {
        const now = topology()
        return { topology: now, quorum: quorumsOf(now, quorum), without, isRepeated: true }
      }
      const rows = { table, kind: 'post' as const, schema, entries }
      await insertProven(rows, options, root.tables, now => insertRows(rows, now))
      break
    } catch (error) {
      if (!(error instanceof Unavailable) || monotonicMs() > endMs) throw error
      if (said !== error.message) note(`rows are sent again for up to five minutes: ${error.message}`)
      said = error.message
      await sleep(RETRY_MS)
    }
  crashPoint('move.inserted')
}

/** The shards that have the rows of the block. */
async function shardsWith(
  { table }: MovedPool,
  { rows }: Block,
  { root, topology }: MoveDeps,
): Promise<ReadonlySet<number>> {
  const { version } = root
  const replicas = await syncedReplicas([table], topology())
  const sql = `SELECT count() FROM ${quoteClickHouseName(table)} WHERE ${VERSION} >= ${version} AND ${VERSION} < ${version + BigInt(rows)}`
  const counts = await Promise.all(
    replicas.map(async ({ http }) => Number((await http.run(sql, {}, ANSWER_BYTES_MAX)).body.toString())),
  )
  return new Set(counts.flatMap((count, shard) => (count > 0 ? [shard] : [])))
}

// ── Record batches become blocks, by the code that makes batches of events ───────────────────────

const BLOCK_BYTES_MAX = 32 * MiB

interface Part {
  readonly batch: BatchBuffer
  /** µs by row. */
  readonly received: Float64Array
}

/** Rows that are inserted together. */
interface Block {
  readonly rows: number
  readonly parts: readonly Part[]
}

/**
 * A block ends where the next row would be one too many, or would make it too long. That follows
 * from the rows alone: a move that goes on makes the same blocks, however the batches were cut.
 *
 * @param messages record batches of all columns of the schema, as queries see them
 * @param skipped rows that are left out at the beginning
 */
export async function* blocksOf(
  schema: PoolSchema,
  messages: AsyncIterable<Uint8Array>,
  skipped: number,
): AsyncGenerator<Block, void, void> {
  const columns = queryColumns(schema)
  let [parts, rows, room, left]: [Part[], number, number, number] = [[], 0, BLOCK_BYTES_MAX, skipped]
  for await (const message of messages)
    for (const batch of batchesOf(columns, message)) {
      const pieces = columns.map((_, at) => pieceOf(batch, at))
      const bytesOf = bytesBetween(columns, pieces)
      let from = Math.min(left, batch.numRows)
      left -= from
      while (from < batch.numRows) {
        let to = from
        const end = Math.min(batch.numRows, from + ROWS_MAX - rows)
        // A block has at least one row, however long.
        while (to < end && (bytesOf(from, to + 1) <= room || (rows === 0 && to === from))) to += 1
        if (to > from) parts.push(partOf(schema, pieces, from, to))
        room -= bytesOf(from, to)
        rows += to - from
        from = to
        if (from === batch.numRows) break
        yield { rows, parts }
        ;[parts, rows, room] = [[], 0, BLOCK_BYTES_MAX]
      }
    }
  if (rows > 0) yield { rows, parts }
}

/** @param version of the first row. Each further row has the next one. */
export function entriesOf({ parts }: Block, version: bigint): BlockEntry[] {
  let next = version
  return parts.map(({ batch, received }) => {
    const requests = new Float64Array(REQUEST_WORDS * received.length)
    for (const [row, at] of received.entries()) requests.set([0, at, 1, 1], REQUEST_WORDS * row)
    const versions = BigInt64Array.from({ length: received.length }, () => next++)
    return { batch, requests, versions }
  })
}

/** The bytes of rows, from one to before another. */
function bytesBetween(columns: readonly { readonly type: ColumnType }[], pieces: readonly Data[]) {
  const fixed = columns.reduce((sum, { type }) => sum + Math.max(1, valueBytes(type)), 0)
  const texts = pieces.flatMap(({ valueOffsets }) => valueOffsets ?? []) as Int32Array[]
  return (from: number, to: number): number =>
    texts.reduce((sum, offsets) => sum + offsets[to]! - offsets[from]!, fixed * (to - from))
}

function partOf(schema: PoolSchema, pieces: readonly Data[], from: number, to: number): Part {
  const [receivedAt, payload, ...values] = pieces
  const received = Float64Array.from(
    (must(receivedAt, 'received-at').values as BigInt64Array).subarray(from, to),
    Number,
  )
  const columns = schema.columns.map(({ name, type, required }, index) => {
    const piece = must(values[index], 'a column')
    if (required && piece.nullCount > 0)
      throw new CannotRun(`pool ${schema.pool} has a row with null in ${name}, which takes none`)
    return columnOf(type, piece, from, to)
  })
  const keys = new Column(KIND.binary)
  const writer = new KeyWriter(schema, columns)
  for (const [row, at] of received.entries()) {
    keys.reserve(row)
    writer.write(keys, row, at)
  }
  const all = [columnOf('JSON', must(payload, 'a payload'), from, to), keys, ...columns]
  return { batch: writeBatch(all, to - from, bytes => new ArrayBuffer(bytes)), received }
}

/** Arrow's memory as a column of a batch, which has the same values (format/batch.md). */
function columnOf(type: ColumnType, piece: Data, from: number, to: number): Column {
  const column = new Column(kindOf(type))
  column.valid =
    piece.nullCount === 0 ? new Uint8Array(to - from).fill(1) : bitsOf(piece.nullBitmap, from, to)
  const values = piece.values as Uint8Array<ArrayBuffer>
  switch (column.kind) {
    case KIND.binary: {
      const offsets = (piece.valueOffsets as Int32Array).subarray(from, to + 1)
      const first = offsets[0]!
      column.words = Int32Array.from(offsets, offset => offset - first)
      column.bytes = values.subarray(first, offsets[to - from])
      break
    }
    case KIND.bool:
      column.words = Int32Array.from(bitsOf(values, from, to))
      break
    case KIND.f32:
    case KIND.f64:
      column.doubles = Float64Array.from(values.subarray(from, to))
      break
    case KIND.i64:
      column.words = new Int32Array(values.buffer, values.byteOffset + 8 * from, 2 * (to - from))
      break
    default:
      column.words = Int32Array.from(values.subarray(from, to))
  }
  return column
}

function bitsOf(bits: Uint8Array, from: number, to: number): Uint8Array<ArrayBuffer> {
  const each = new Uint8Array(to - from)
  for (let row = from; row < to; row += 1) each[row - from] = (bits[row >> 3]! >> (row & 7)) & 1
  return each
}
