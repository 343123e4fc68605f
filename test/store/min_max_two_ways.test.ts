/**
 * The smallest and largest value of a column: both implementations find the row of a plain search.
 */
import { describe, expect, test } from 'vitest'
import { KIND } from '../../src/format/batch-layout.ts'
import { type StreamColumn, tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { randomOf } from './rows.ts'

type Random = (below: number) => number

const NUMBERS = {
  i8: (values: readonly number[]) => Int8Array.from(values),
  i16: (values: readonly number[]) => Int16Array.from(values),
  i32: (values: readonly number[]) => Int32Array.from(values),
  i64: (values: readonly number[]) => BigInt64Array.from(values, BigInt),
} as const

const LIMITS = { i8: 2 ** 7, i16: 2 ** 15, i32: 2 ** 31, i64: 2 ** 52 } as const

/** The first row of those that no other is before. */
function firstOf<Value>(values: readonly Value[], compare: (a: Value, b: Value) => number): number {
  return values.findIndex(value => values.every(other => compare(value, other) <= 0))
}

function numbers(kind: keyof typeof NUMBERS, random: Random, rows: number) {
  const limit = LIMITS[kind]
  const near = random(2) === 0
  const values = Array.from({ length: rows }, () =>
    near ? random(7) - 3 : random(3) === 0 ? [-limit, limit - 1][random(2)]! : random(2 * limit) - limit,
  )
  const data = NUMBERS[kind](values)
  const stream = new Uint8Array(64 + data.byteLength)
  stream.set(new Uint8Array(data.buffer), 64)
  const column: StreamColumn = { kind: KIND[kind], offsets: -1, data: 64 }
  const compare = (a: number, b: number) => a - b
  return { stream, column, want: [firstOf(values, compare), firstOf(values, (a, b) => compare(b, a))] }
}

function texts(random: Random, rows: number) {
  const parts = ['', '\u0000', 'a', 'ab', 'ä', '\u{1d11e}', 'long '.repeat(20)]
  const values = Array.from({ length: rows }, () =>
    Buffer.from(parts[random(parts.length)]! + parts[random(parts.length)]!),
  )
  const offsets = new Int32Array(rows + 1)
  for (const [row, value] of values.entries()) offsets[row + 1] = offsets[row]! + value.length
  const data = 4 * (rows + 1)
  const stream = new Uint8Array(data + offsets[rows]!)
  stream.set(new Uint8Array(offsets.buffer))
  stream.set(Buffer.concat(values), data)
  const column: StreamColumn = { kind: KIND.binary, offsets: 0, data }
  const compare = (a: Buffer, b: Buffer) => Buffer.compare(a, b)
  return { stream, column, want: [firstOf(values, compare), firstOf(values, (a, b) => compare(b, a))] }
}

const native = tryAssemblerNative()
describe.each(native === undefined ? [assemblerJs] : [assemblerJs, native])('$name', assembler => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  test(`returns the first of equal values, seed ${seed}`, () => {
    const random = randomOf(seed)
    for (let round = 0; round < 60; round++) {
      const rows = 1 + random(round < 10 ? 3 : 120)
      const columns = [
        ...(Object.keys(NUMBERS) as (keyof typeof NUMBERS)[]).map(kind => numbers(kind, random, rows)),
        texts(random, rows),
      ]
      for (const { stream, column, want } of columns)
        expect([...assembler.minMax(stream, column, rows)], `kind ${column.kind}`).toEqual(want)
    }
  })
})

test.runIf(native !== undefined)('the native function refuses a column that is not in the stream', () => {
  const stream = new Uint8Array(32)
  const call = (kind: number, offsets: number, data: number, rows: number) => () =>
    native!.minMax(stream, { kind: kind as StreamColumn['kind'], offsets, data }, rows)
  expect(call(KIND.i64, -1, 8, 3)()).toEqual([0, 0])
  for (const bad of [
    call(KIND.i64, -1, 16, 3),
    call(KIND.i64, -1, -8, 1),
    call(KIND.i64, -1, 4, 1), // not aligned
    call(KIND.i64, -1, Number.NaN, 1),
    call(KIND.i64, -1, 0, 0),
    call(KIND.f64, -1, 0, 1),
    call(KIND.binary, 24, 0, 2),
    call(KIND.binary, -1, 0, 1),
    call(99, -1, 0, 1),
  ])
    expect(bad).toThrow(TypeError)
  new Int32Array(stream.buffer).set([0, 9], 0)
  // The text has nine bytes, and the stream has eight left.
  expect(call(KIND.binary, 0, 24, 1)).toThrow(TypeError)
})
