/** Record batches as Arrow files, NDJSON and CSV. Numbers are exact; times are those of queries. */
import { type Data, MetadataVersion, type RecordBatch, tableFromIPC, type Vector } from 'apache-arrow'
import { FileBlock, Footer } from 'apache-arrow/ipc/metadata/file'
import { Message } from 'apache-arrow/ipc/metadata/message'
import { END_OF_STREAM, MESSAGE_HEAD_BYTES, metadataBytes } from '../../format/arrow.ts'
import { assert, must } from '../../util/errors.ts'
import type { QueryColumn } from '../expression/operand.ts'
import { printDate, printInstant, shortestSingle } from '../expression/print-values.ts'
import { csvLine } from '../plan/answer-table.ts'
import { arrowSchema, schemaMessage } from './arrow-schema.ts'

const MAGIC = new TextEncoder().encode('ARROW1')

/** One Arrow IPC file: the stream between two magics, with each batch's position in a footer. */
export async function* arrowFile(
  columns: readonly QueryColumn[],
  batches: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  const head = Buffer.concat([MAGIC, new Uint8Array(2), schemaMessage(columns)])
  yield head
  const blocks: FileBlock[] = []
  let position = head.byteLength
  for await (const batch of batches) {
    const metadataEnd = MESSAGE_HEAD_BYTES + must(metadataBytes(batch), 'a batch is a message')
    const { bodyLength } = Message.decode(batch.subarray(MESSAGE_HEAD_BYTES, metadataEnd))
    blocks.push(new FileBlock(metadataEnd, bodyLength, position))
    yield batch
    position += batch.byteLength
  }
  const footer = Footer.encode(new Footer(arrowSchema(columns), MetadataVersion.V5, blocks, []))
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, footer.byteLength, true)
  yield Buffer.concat([END_OF_STREAM, footer, bytes, MAGIC])
}

type Cell = (row: number) => string | null

/** NDJSON, one JSON object a line, or CSV by RFC 4180 with a header. */
export async function* textFile(
  format: 'ndjson' | 'csv',
  columns: readonly QueryColumn[],
  batches: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  if (format === 'csv') yield encoder.encode(csvLine(columns.map(({ name }) => name)))
  for await (const batch of batches) yield linesOf(format, columns, batch)
}

/**
 * The lines of a record batch. In NDJSON, JSON values and payloads are as they were sent, byte for
 * byte, but their line breaks become spaces; a JSON string can contain none. In CSV a null is an
 * empty field, and an empty text is `""`.
 */
export function linesOf(
  format: 'ndjson' | 'csv',
  columns: readonly QueryColumn[],
  message: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const form = format === 'csv' ? plainText : jsonText
  const names = columns.map(({ name }) => `${JSON.stringify(name)}:`)
  const lines: string[] = []
  for (const batch of batchesOf(columns, message)) {
    const cells = columns.map((column, at) => cellOf(column, vectorOf(batch, at), form))
    for (let row = 0; row < batch.numRows; row += 1)
      if (format === 'csv') lines.push(csvLine(cells.map(cell => cell(row))))
      else lines.push(`{${cells.map((cell, at) => `${names[at]}${cell(row) ?? 'null'}`).join()}}\n`)
  }
  return encoder.encode(lines.join(''))
}

const encoder = new TextEncoder()

interface TextForm {
  readonly string: (text: string) => string
  readonly json: (text: string) => string
}

const jsonText: TextForm = { string: JSON.stringify, json: text => text.replace(/[\r\n]/g, ' ') }
const plainText: TextForm = { string: text => text, json: text => text }

/** The record batches of a message without its schema. */
export function batchesOf(columns: readonly QueryColumn[], message: Uint8Array): readonly RecordBatch[] {
  return tableFromIPC(Buffer.concat([schemaMessage(columns), message, END_OF_STREAM])).batches
}

function vectorOf(batch: RecordBatch, at: number): Vector {
  const vector = batch.getChildAt(at)
  assert(vector !== null && vector.data.length === 1, 'a batch has all columns, each in one piece')
  return vector
}

/** The memory of a column. */
export function pieceOf(batch: RecordBatch, at: number): Data {
  return must(vectorOf(batch, at).data[0], 'the piece of a column')
}

function cellOf({ type }: QueryColumn, vector: Vector, form: TextForm): Cell {
  const values = vector.data[0]?.values as { readonly [at: number]: unknown }
  const text = (): ((row: number) => string) => {
    switch (type) {
      case 'STRING':
        return row => form.string(textAt(vector, row))
      case 'JSON':
        return row => form.json(textAt(vector, row))
      case 'TIMESTAMP':
        return row => form.string(printInstant(values[row] as bigint))
      case 'DATE':
        return row => form.string(printDate(values[row] as number))
      case 'FLOAT':
        return row => shortestSingle(values[row] as number)
      default:
        return row => String(vector.get(row))
    }
  }
  const print = text()
  return row => (vector.isValid(row) ? print(row) : null)
}

/** The text of a row. The vector's own decoder would remove U+FEFF from the beginning of a text. */
function textAt(vector: Vector, row: number): string {
  const { values, valueOffsets } = vector.data[0] as unknown as {
    readonly values: Uint8Array
    readonly valueOffsets: Int32Array
  }
  const [from, to] = [valueOffsets[row] as number, valueOffsets[row + 1] as number]
  return Buffer.from(values.buffer, values.byteOffset + from, to - from).toString()
}
