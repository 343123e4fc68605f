/**
 * One instant makes one key in every form that a producer may write it in, with nanoseconds too, in
 * a pool whose schema cuts epoch numbers. Both kernels, posts and deletes.
 */
import { describe, expect, test } from 'vitest'
import type { PoolSchema, RequestKind } from '../../src/format/schema.ts'
import type { MakeKernel } from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'
import { tryNativeKernel } from '../../src/parse/kernel-native.ts'
import { below, randomFrom } from '../util/random.ts'
import { parseAll, readColumn, readErrors, schemaOf } from './reading.ts'

const SEED = Date.now() >>> 0
const CASES = 60
/** The years 0001 and 9999 are closer than this. */
const SECONDS_MAX = 60_000_000_000
const COLUMN = { type: 'TIMESTAMP', required: true } as const

const cutting = (columns: readonly object[]): PoolSchema => ({
  ...schemaOf(columns, { columns: [0], version: -1 }),
  cutsEpochs: true,
})

/** Nanoseconds since 1970 as a decimal number of units of 10^`places` ns. */
function decimal(ns: bigint, places: number): string {
  const size = String(ns < 0n ? -ns : ns).padStart(places + 1, '0')
  const [whole, fraction] = [size.slice(0, size.length - places), size.slice(size.length - places)]
  return `${ns < 0n ? '-' : ''}${whole}${places === 0 ? '' : `.${fraction}`}`
}

/** `YYYY-MM-DDTHH:MM:SS.nnnnnnnnn` of the clock that is so many minutes east of UTC. */
function text(ns: bigint, east: number): string {
  const rest = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n
  const seconds = (ns - rest) / 1_000_000_000n + BigInt(60 * east)
  const clock = new Date(Number(seconds) * 1000).toISOString().slice(0, 19)
  return `${clock}.${String(rest).padStart(9, '0')}`
}

/** All forms of an instant with nanoseconds. The unit of a number follows from its size. */
function formsOf(ns: bigint, random: () => number): string[] {
  const size = ns < 0n ? -ns : ns
  const numbers = [
    ...(size < 10n ** 20n ? [decimal(ns, 9)] : []),
    ...(size >= 10n ** 17n && size < 10n ** 20n ? [decimal(ns, 6)] : []),
    ...(size >= 10n ** 17n && size < 10n ** 20n ? [decimal(ns, 3)] : []),
    ...(size >= 10n ** 17n && size < 2n ** 63n ? [decimal(ns, 0)] : []),
    `${ns}e-9`,
  ]
  const [plus, minus] = [below(random, 1440), below(random, 1440)]
  const zone = (minutes: number, colon: string) =>
    `${String(Math.floor(minutes / 60)).padStart(2, '0')}${colon}${String(minutes % 60).padStart(2, '0')}`
  const texts = [
    text(ns, 0),
    `${text(ns, 0)}Z`,
    `${text(ns, 0).replace('T', ' ').replace('.', ',')}z`,
    `${text(ns, 0).replace('T', ' ')} UTC`,
    `${text(ns, plus)}+${zone(plus, '')}`,
    `${text(ns, plus).replace('T', ' ')} +${zone(plus, '')}`,
    `${text(ns, -minus)}-${zone(minus, ':')}`,
    `${text(ns, -minus).replace('T', 't')} -${zone(minus, ':')}`,
  ]
  return [...numbers, ...texts.map(each => JSON.stringify(each))]
}

/** The keys of bodies that hold one event each. */
function keysOf(schema: PoolSchema, values: readonly string[], kind: RequestKind, make: MakeKernel) {
  const requests = values.map(value => ({ body: `{"c0":${value}}` }))
  const parsed = parseAll(schema, requests, kind, make)
  const errors = readErrors(parsed).map(each => `${values[Number(each.split('/')[0])]}: ${each}`)
  expect(errors, `seed ${SEED}`).toEqual([])
  return readColumn(parsed.batch, 1)
}

describe.each([
  ['js', makeJsKernel],
  ['native', tryNativeKernel()],
])('the %s kernel', (_, make) => {
  test(`gives ${CASES} instants one key each, seed ${SEED}`, () => {
    const random = randomFrom(SEED)
    for (let n = 0; n < CASES; n++) {
      const seconds = BigInt(Math.floor((2 * random() - 1) * (random() < 0.5 ? SECONDS_MAX : 3e9)))
      const ns = 1_000_000_000n * seconds + BigInt(below(random, 1e9))
      const values = formsOf(ns, random)
      const keys = [
        ...keysOf(cutting([COLUMN]), values, 'post', make!),
        ...keysOf(cutting([COLUMN]), values, 'delete', make!),
      ]
      const other = keys.findIndex(key => key !== keys[0])
      expect([ns, values[other % values.length]], `seed ${SEED}`).toEqual([ns, undefined])
    }
  })

  test('cuts numbers toward the past, also before 1970, and rounds them in older pools', () => {
    const values = [
      '1710072000.1234567',
      '-0.0000001',
      '-1e-300',
      '1710072000123456789',
      '-1710072000123456789',
    ]
    const stored = (schema: PoolSchema) =>
      readColumn(
        parseAll(
          schema,
          values.map(each => ({ body: `{"c0":${each}}` })),
          'post',
          make,
        ).batch,
        2,
      )
    expect(stored(cutting([COLUMN]))).toEqual([
      ...[1710072000123456n, -1n, -1n, 1710072000123456n, -1710072000123457n],
    ])
    expect(stored(schemaOf([COLUMN]))).toEqual([
      ...[1710072000123457n, 0n, 0n, 1710072000123457n, -1710072000123457n],
    ])
  })
})

test('columns that take texts have the same rule, and a DATE is the day of the instant that is cut', () => {
  const make = makeJsKernel
  const lenient = cutting([{ ...COLUMN, coerce: true }])
  const values = ['1710072000.1234567', '"1710072000.1234567"', '" 2024-03-10T12:00:00.1234567Z"']
  expect(new Set(keysOf(lenient, values, 'post', make)).size).toBe(1)
  const days = ['"86399.9999999"', '"1970-01-01T23:59:59.9999999Z"']
  const day = { type: 'DATE', required: true, coerce: true }
  expect(new Set(keysOf(cutting([day]), days, 'post', make)).size).toBe(1)
})
