/**
 * Exported record batches become the blocks of a move, by the code that makes batches of events
 * (parse/column-builders.ts).
 *
 * A block ends where the next row would be one too many, or would make it too long. That follows
 * from the rows alone: a move that goes on makes the same blocks, however the batches were cut.
 */
import type { Data } from 'apache-arrow'
import { type BlockEntry, REQUEST_WORDS } from '../../cluster/clickhouse/native-block.ts'
import { ROWS_MAX } from '../../cluster/keeper/versions.ts'
import { type BatchBuffer, KIND, kindOf, valueBytes } from '../../format/batch-layout.ts'
import type { ColumnType, PoolSchema } from '../../format/schema.ts'
import { Column, KeyWriter, writeBatch } from '../../parse/column-builders.ts'
import { batchesOf, pieceOf } from '../../query/arrow/export-formats.ts'
import { queryColumns } from '../../query/expression/operand.ts'
import { must } from '../../util/assert.ts'
import { CannotRun } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'

const BLOCK_BYTES_MAX = 32 * MiB

interface Part {
  readonly batch: BatchBuffer
  /** µs by row. */
  readonly received: Float64Array
}

/** Rows that are inserted together. */
export interface Block {
  readonly rows: number
  readonly parts: readonly Part[]
}

/**
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
