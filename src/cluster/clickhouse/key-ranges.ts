/** Positions in the order of a table's key, as texts that a catalog holds, and as conditions. */
import type { ColumnType, PoolSchema } from '../../format/schema.ts'
import { RECEIVED_AT } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import { quoteClickHouseName, quoteClickHouseText } from '../../util/sql.ts'
import { sortedBy } from './table.ts'

/** Keys above `after` up to `to`; null: from the first one, to the last one. */
export interface KeyRange {
  readonly after: readonly string[] | null
  readonly to: readonly string[] | null
}

interface KeyPart {
  readonly name: string
  /** What is compared. */
  readonly column: string
  /** A text of it, which tells every value. */
  readonly text: string
  /** The value of a text. */
  readonly value: (text: string) => string
}

export class KeyRanges {
  readonly #parts: readonly KeyPart[]

  constructor(schema: PoolSchema) {
    this.#parts = sortedBy(schema).map(name => {
      const type = schema.columns.find(column => column.name === name)?.type
      return partOf(name, name === RECEIVED_AT ? 'TIMESTAMP' : must(type, 'a column'))
    })
  }

  /** The SELECT of the key that is so many rows behind another one. */
  selectEnd(table: string, after: readonly string[] | null, rows: number): string {
    const texts = this.#parts.map(({ text }) => `toString(${text})`).join(', ')
    const order = this.#parts.map(({ name }) => quoteClickHouseName(name)).join(', ')
    const where = this.condition({ after, to: null })
    return `SELECT ${texts} FROM ${quoteClickHouseName(table)}${where === '' ? '' : ` WHERE ${where}`} ORDER BY ${order} LIMIT ${rows - 1}, 1`
  }

  /** '' for all keys. */
  condition({ after, to }: KeyRange): string {
    const conditions = [
      ...(after === null ? [] : [this.#beyond('>', after)]),
      ...(to === null ? [] : [this.#beyond('<', to)]),
    ]
    return conditions.join(' AND ')
  }

  /** A comparison of whole keys by their columns, so that the index is used. */
  #beyond(operator: '>' | '<', texts: readonly string[]): string {
    const last = this.#parts.length - 1
    const from = (index: number): string => {
      const { column, value } = must(this.#parts[index], 'a column of the key')
      const bound = value(must(texts[index], 'a value of the key'))
      if (index === last) return `${column} ${operator === '<' ? '<=' : '>'} ${bound}`
      return `(${column} ${operator} ${bound} OR (${column} = ${bound} AND ${from(index + 1)}))`
    }
    return from(0)
  }
}

function partOf(name: string, type: ColumnType): KeyPart {
  const own = quoteClickHouseName(name)
  const part = (column: string, text: string, value: KeyPart['value']): KeyPart => ({
    name,
    column,
    text,
    value,
  })
  const quoted = quoteClickHouseText
  const whole = (text: string) => `toInt64(${quoted(text)})`
  switch (type) {
    case 'STRING':
    case 'JSON':
      return part(own, own, quoted)
    case 'FLOAT':
    case 'DOUBLE': {
      // Texts of real numbers are rounded, and earlier versions read the bits of texts alone.
      const bits = type === 'FLOAT' ? 32 : 64
      const real = (text: string) =>
        `reinterpretAsFloat${bits}(reinterpretAsString(toUInt${bits}(${quoted(text)})))`
      return part(own, `reinterpretAsUInt${bits}(reinterpretAsString(${own}))`, real)
    }
    case 'TIMESTAMP':
      return part(
        own,
        `toUnixTimestamp64Micro(${own})`,
        text => `fromUnixTimestamp64Micro(${whole(text)}, 'UTC')`,
      )
    case 'DATE':
      // Date32 has no literals of years that a column has.
      return part(`toInt32(${own})`, `toInt32(${own})`, whole)
    case 'BOOLEAN':
      return part(own, `toUInt8(${own})`, whole)
    default:
      return part(own, own, whole)
  }
}
