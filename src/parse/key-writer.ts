/** Writes the key column of a batch, row by row; key.ts in format/ has the bytes of each value. */
import { SIGN, STRING_PART_BYTES_MAX, writeDouble, writeLong, writeString, writeWord } from '../format/key.ts'
import { type ColumnType, KEY_RECEIVED_AT, type PoolSchema } from '../format/schema.ts'
import { assert } from '../util/assert.ts'
import type { Column } from './column-builders.ts'

/** Writes the key column of a plan from rows just written to its columns. */
export class KeyWriter {
  readonly #columns: readonly (Column | null)[]
  readonly #types: readonly ColumnType[]

  /** `columns`: the plan's, in order. A plan without a key gives keys without bytes. */
  constructor(schema: PoolSchema, columns: readonly Column[]) {
    const key = schema.key?.columns ?? []
    for (const index of key) {
      if (index === KEY_RECEIVED_AT) continue
      const column = schema.columns[index]
      assert(column?.required && column.type !== 'JSON', 'a key names required columns of its plan')
    }
    this.#columns = key.map(index => (index === KEY_RECEIVED_AT ? null : columns[index]!))
    this.#types = key.map(index => (index === KEY_RECEIVED_AT ? 'TIMESTAMP' : schema.columns[index]!.type))
  }

  /** Row `row` of `into`. `receivedAtUs` stands for a received-at column. */
  write(into: Column, row: number, receivedAtUs: number): void {
    const count = this.#columns.length
    let end = into.beginBytes(row, count * STRING_PART_BYTES_MAX)
    for (let i = 0; i < count; i++) {
      const column = this.#columns[i]!
      if (column === null) {
        end = writeLong(into.bytes, end, Math.floor(receivedAtUs / 4294967296), receivedAtUs | 0)
      } else end = writeStored(into.bytes, end, this.#types[i]!, column, row)
    }
    into.endBytes(row, end)
  }
}

function writeStored(key: Uint8Array, at: number, type: ColumnType, column: Column, row: number): number {
  switch (type) {
    case 'STRING':
      return writeString(key, at, column.bytes, column.words[row]!, column.words[row + 1]!)
    case 'BOOLEAN':
      key[at] = column.words[row]!
      return at + 1
    case 'FLOAT':
    case 'DOUBLE':
      return writeDouble(key, at, column.doubles[row]!)
    case 'DATE':
      return writeWord(key, at, column.words[row]! ^ SIGN)
    case 'INT64':
    case 'TIMESTAMP':
      return writeLong(key, at, column.words[2 * row + 1]!, column.words[2 * row]!)
    case 'JSON':
      assert(false, 'a key has no JSON part')
      return at
    default: {
      const word = column.words[row]!
      return writeLong(key, at, word >> 31, word)
    }
  }
}
