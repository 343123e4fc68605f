/**
 * Random values for the model of counters: the posted JSON, its value, and the spellings of
 * filters.
 */
import type { ColumnType } from '../../src/format/schema.ts'
import { below, type Random } from '../util/random.ts'

/**
 * A stored value: TIMESTAMP in µs since 1970, DATE in days. Texts are compared by their UTF-8
 * bytes.
 */
export type Cell = boolean | string | number | bigint | null

export interface Value {
  readonly cell: Exclude<Cell, null>
  readonly json: string
  readonly text: string
}

const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)]!

const BITS = { INT8: 8n, INT16: 16n, INT32: 32n, INT64: 64n } as const
const TEXTS = ['a', 'A', 'b', 'é', '𝄞', '%', '_', '\\', "'", '"', '\n', '\0', '$1', '--']
const FLOATS = [0, 0.1, -2.5, 1e10, 3.5e-7, 123456.75, -1]
const JSONS = ['{"a":1}', '{"a": 1}', '[]', '"x"', '1', '1.0', 'true', '"null"', '{"b":[1,{"c":null}]}']
/** 2023-11-14T22:13:20Z, and a few days around it. */
const AROUND_US = 1_700_000_000_000_000n
const DAY_US = 86_400_000_000n

/** A text of few kinds of characters, so that patterns match often. */
export function randomText(random: Random): string {
  return Array.from({ length: below(random, 5) }, () => pick(random, TEXTS)).join('')
}

/** An instant: often one of a few, otherwise any microsecond. */
export function randomInstant(random: Random): bigint {
  const days = BigInt(below(random, 7) - 3) * DAY_US
  const within = pick(random, [
    0n,
    1n,
    500n,
    1_000n,
    999_999n,
    3_600_000_000n,
    BigInt(below(random, 1e9)) * 86n,
  ])
  return AROUND_US + days + within
}

/** A random value of a column of `type`, in one of its spellings. */
export function randomValue(random: Random, type: ColumnType): Value {
  switch (type) {
    case 'BOOLEAN':
      return plain(random() < 0.5)
    case 'STRING':
      return textual(randomText(random))
    case 'JSON': {
      const json = pick(random, JSONS)
      return { cell: json, json, text: pick(random, [json, ` ${json}\n`]) }
    }
    case 'FLOAT':
    case 'DOUBLE': {
      const value = pick(random, FLOATS)
      const json = pick(random, [String(value), value.toExponential()])
      return { cell: type === 'FLOAT' ? Math.fround(value) : value, json, text: json }
    }
    case 'DATE': {
      const days = BigInt(19_670 + below(random, 8))
      return { ...textual(new Date(Number(days) * 86_400_000).toISOString().slice(0, 10)), cell: days }
    }
    case 'TIMESTAMP':
      return spellInstant(random, randomInstant(random))
    default:
      return randomInteger(random, BITS[type as keyof typeof BITS])
  }
}

function randomInteger(random: Random, bits: bigint): Value {
  const end = 1n << (bits - 1n)
  const near = BigInt(below(random, 9) - 4)
  const value = pick(random, [near, near, near, end - 1n, -end, end / 3n + near])
  const safe = value > -(2n ** 53n) && value < 2n ** 53n
  const spellings = safe ? [`${value}`, `${value}`, `${value}.0`, `${value}e0`] : [`${value}`]
  return { cell: value, json: pick(random, spellings), text: pick(random, spellings) }
}

/**
 * One instant as text with any offset, or as an epoch number of the coarsest unit that holds it.
 */
export function spellInstant(random: Random, us: bigint): Value {
  if (random() < 0.3) {
    const number = us % 1_000_000n === 0n ? us / 1_000_000n : us % 1_000n === 0n ? us / 1_000n : us
    return { cell: us, json: String(number), text: String(number) }
  }
  const [zone, minutes] = pick(random, [
    ['Z', 0],
    ['', 0],
    ['+05:45', 345],
    ['-0800', -480],
    ['+01', 60],
  ] as const)
  const local = us + BigInt(minutes) * 60_000_000n
  const iso = new Date(Number(local / 1_000n)).toISOString()
  const digits = String(local % 1_000_000n).padStart(6, '0')
  const text = `${iso.slice(0, 10)}${pick(random, ['T', ' ', 't'])}${iso.slice(11, 19)}${pick(random, ['.', ','])}${digits}${pick(random, ['', '9'])}${zone}`
  return { ...textual(text), cell: us }
}

function plain(cell: boolean): Value {
  return { cell, json: String(cell), text: String(cell) }
}

function textual(text: string): Value {
  return { cell: text, json: JSON.stringify(text), text }
}
