/**
 * Record batches as lines: NDJSON and CSV. Numbers are exact, times as queries print them.
 *
 * JSON values and payloads stand in NDJSON as they were sent, byte for byte but for line breaks, which become spaces: inside
 * a JSON string there can be none.
 */
import { type RecordBatch, tableFromIPC, type Vector } from 'apache-arrow'
import { END_OF_STREAM } from '../util/arrow-frame.ts'
import { assert } from '../util/assert.ts'
import type { ExportColumn } from './protocol.ts'
import { schemaMessage } from './schema.ts'

/** How queries print what JavaScript would print otherwise. */
interface Printers {
  instant(us: bigint): string
  date(days: number): string
  /** The shortest text of an f32. */
  single(value: number): string
}

type Cell = (row: number) => string | null

/** One JSON object a line. */
export async function* ndjson(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<Uint8Array>,
  printers: Printers,
): AsyncGenerator<Uint8Array, void, void> {
  const names = columns.map(({ name }) => `${JSON.stringify(name)}:`)
  for await (const batch of rowsOf(columns, batches)) {
    const cells = columns.map((column, at) => cellOf(column, vectorOf(batch, at), printers, jsonText))
    const lines: string[] = []
    for (let row = 0; row < batch.numRows; row += 1)
      lines.push(`{${cells.map((cell, at) => `${names[at]}${cell(row) ?? 'null'}`).join()}}\n`)
    yield Buffer.from(lines.join(''))
  }
}

/** RFC 4180 with a header; null is an empty field, an empty text is `""`. */
export async function* csv(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<Uint8Array>,
  printers: Printers,
): AsyncGenerator<Uint8Array, void, void> {
  yield Buffer.from(`${columns.map(({ name }) => csvText(name)).join()}\r\n`)
  for await (const batch of rowsOf(columns, batches)) {
    const cells = columns.map((column, at) => cellOf(column, vectorOf(batch, at), printers, plainText))
    const lines: string[] = []
    for (let row = 0; row < batch.numRows; row += 1) {
      const fields = cells.map(cell => cell(row))
      lines.push(`${fields.map(field => (field === null ? '' : csvText(field))).join()}\r\n`)
    }
    yield Buffer.from(lines.join(''))
  }
}

function csvText(text: string): string {
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Texts and values that are text, as a format writes them. */
interface TextForm {
  readonly string: (text: string) => string
  readonly json: (text: string) => string
}

const jsonText: TextForm = { string: JSON.stringify, json: text => text.replace(/[\r\n]/g, ' ') }
const plainText: TextForm = { string: text => text, json: text => text }

async function* rowsOf(columns: readonly ExportColumn[], batches: AsyncIterable<Uint8Array>) {
  const head = schemaMessage(columns)
  for await (const batch of batches)
    yield* tableFromIPC(Buffer.concat([head, batch, END_OF_STREAM])).batches as RecordBatch[]
}

function vectorOf(batch: RecordBatch, at: number): Vector {
  const vector = batch.getChildAt(at)
  assert(vector !== null && vector.data.length === 1, 'a batch has all columns, each in one piece')
  return vector
}

function cellOf({ type }: ExportColumn, vector: Vector, printers: Printers, form: TextForm): Cell {
  const values = vector.data[0]?.values as { readonly [at: number]: unknown }
  const text = (): ((row: number) => string) => {
    switch (type) {
      case 'STRING':
        return row => form.string(textAt(vector, row))
      case 'JSON':
        return row => form.json(textAt(vector, row))
      case 'TIMESTAMP':
        return row => form.string(printers.instant(values[row] as bigint))
      case 'DATE':
        return row => form.string(printers.date(values[row] as number))
      case 'FLOAT':
        return row => printers.single(values[row] as number)
      default:
        return row => String(vector.get(row))
    }
  }
  const print = text()
  return row => (vector.isValid(row) ? print(row) : null)
}

/** Not by the vector itself, whose decoder takes a mark (U+FEFF) away from a text's beginning. */
function textAt(vector: Vector, row: number): string {
  const { values, valueOffsets } = vector.data[0] as unknown as {
    readonly values: Uint8Array
    readonly valueOffsets: Int32Array
  }
  const [from, to] = [valueOffsets[row] as number, valueOffsets[row + 1] as number]
  return Buffer.from(values.buffer, values.byteOffset + from, to - from).toString()
}
