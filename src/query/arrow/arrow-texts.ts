/**
 * Record batches of any types that a statement's copy has (duckdb/parquet-columns.ts) as lines of
 * CSV. Values are those of JSON answers; lists, structs and maps are JSON texts.
 */
import { type Data, type Decimal, type Struct, Type, tableFromIPC } from 'apache-arrow'
import { AssertionFailed, must } from '../../util/errors.ts'
import { printAnyDate, printAnyInstant, printNumber } from '../expression/print-values.ts'
import { csvLine } from '../plan/answer-table.ts'

/** The text of a row; null for a null. */
type Cell = (row: number) => string | null

/** @param stream a whole one, with its schema */
export function csvLinesOf(stream: Uint8Array): string {
  const lines: string[] = []
  for (const { data, numRows } of tableFromIPC(stream).batches) {
    const cells = data.children.map(cellOf)
    for (let row = 0; row < numRows; row += 1) lines.push(csvLine(cells.map(cell => cell(row))))
  }
  return lines.join('')
}

function cellOf(data: Data): Cell {
  const print = printerOf(data)
  return row => (data.getValid(row) ? print(row) : null)
}

function printerOf(data: Data): Cell {
  const values = data.values as unknown as { readonly [at: number]: number | bigint }
  const number = (row: number) => Number(values[row])
  switch (data.typeId) {
    case Type.Utf8:
      return row => bytesAt(data, row).toString()
    case Type.Binary:
      return row =>
        bytesAt(data, row)
          .toString('latin1')
          .replace(/[^ -~]|[\\'"]/g, hexOf)
    case Type.Bool:
      return row => String(((number(row >> 3) >> (row & 7)) & 1) === 1)
    case Type.Int:
      return row => String(values[row])
    case Type.Float:
      return row => printNumber(number(row), data.values instanceof Float32Array)
    case Type.Decimal:
      return row => decimalAt(data, row)
    case Type.Date:
      return row => printAnyDate(number(row))
    case Type.Timestamp:
      return row => printAnyInstant(BigInt(values[row] ?? 0))
    default:
      return nestedPrinter(data)
  }
}

function nestedPrinter(data: Data): Cell {
  const [child] = data.children
  switch (data.typeId) {
    case Type.List: {
      const item = jsonOf(must(child, 'the items of a list'))
      return row => `[${rowsIn(data, row).map(item).join(',')}]`
    }
    case Type.Map: {
      const [keys, values] = must(child, 'the entries of a map').children
      const [key, value] = [cellOf(must(keys, 'the keys')), jsonOf(must(values, 'the values'))]
      return row => `{${rowsIn(data, row).map(at => `${JSON.stringify(key(at))}:${value(at)}`)}}`
    }
    case Type.Struct: {
      const { children: fields } = data.type as Struct
      const cells = data.children.map(jsonOf)
      return row => `{${cells.map((cell, at) => `${JSON.stringify(fields[at]?.name)}:${cell(row)}`)}}`
    }
    default:
      throw new AssertionFailed(`a copy has no columns of type ${data.type}`)
  }
}

/** These types are JSON as they are printed, and all others are JSON's texts. */
const BARE: readonly Type[] = [
  Type.Bool,
  Type.Int,
  Type.Float,
  Type.Decimal,
  Type.List,
  Type.Map,
  Type.Struct,
]

function jsonOf(data: Data): (row: number) => string {
  const cell = cellOf(data)
  const isBare = BARE.includes(data.typeId)
  return row => {
    const text = cell(row)
    return text === null || isBare ? String(text) : JSON.stringify(text)
  }
}

/** The rows of the child that a list or a map has in a row. */
function rowsIn({ valueOffsets }: Data, row: number): number[] {
  const [from, to] = [Number(valueOffsets[row]), Number(valueOffsets[row + 1])]
  return Array.from({ length: to - from }, (_, index) => from + index)
}

function bytesAt({ values, valueOffsets }: Data, row: number): Buffer {
  const { buffer, byteOffset } = values as Uint8Array
  const [from, to] = [Number(valueOffsets[row]), Number(valueOffsets[row + 1])]
  return Buffer.from(buffer, byteOffset + from, to - from)
}

/** As DuckDB prints a BLOB. */
function hexOf(character: string): string {
  return `\\x${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
}

const DECIMAL_WORDS = 4

/** Exact, with all digits of its scale. */
function decimalAt({ values, type }: Data, row: number): string {
  const words = (values as Uint32Array).subarray(DECIMAL_WORDS * row, DECIMAL_WORDS * (row + 1))
  const bits = words.reduceRight((sum, word) => (sum << 32n) | BigInt(word), 0n)
  const units = BigInt.asIntN(32 * DECIMAL_WORDS, bits)
  const { scale } = type as Decimal
  const digits = String(units < 0n ? -units : units).padStart(scale + 1, '0')
  const point = digits.length - scale
  const text = scale === 0 ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`
  return units < 0n ? `-${text}` : text
}
