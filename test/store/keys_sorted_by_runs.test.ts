/**
 * W-7 within a flush: for any order of the keys, the winners and the sorted run are those of a
 * plain sort. The native sort looks for ascending runs and merges them, or sorts the whole where
 * the runs are short. The tests take both ways.
 */

import { describe, expect, test } from 'vitest'
import type { MemtableEntry } from '../../src/store/flush/memtable.ts'
import { tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { must } from '../../src/util/errors.ts'
import { keysOf } from '../util/key-runs.ts'
import { keySchema, post, randomOf, remove } from './rows.ts'

interface Row {
  readonly key: string
  readonly sequence: number
  readonly isDelete: boolean
}

/**
 * The winners of a plain sort: for each key the row with the highest sequence, then the last one.
 * Keys are latin1.
 */
function expectedOf(rows: readonly Row[]) {
  const order = rows.map((_, index) => index)
  const bytes = rows.map(({ key }) => Buffer.from(key, 'latin1'))
  order.sort((a, b) => Buffer.compare(bytes[a]!, bytes[b]!) || rows[a]!.sequence - rows[b]!.sequence || a - b)
  const winners = order.filter((row, i) => rows[order[i + 1] ?? -1]?.key !== rows[row]!.key)
  const keep = rows.map(() => 0)
  for (const row of winners) if (!rows[row]!.isDelete) keep[row] = 1
  const places = new Map<number, number>()
  for (const [row, kept] of keep.entries()) if (kept === 1) places.set(row, places.size)
  return {
    keep,
    keys: winners.map(row => rows[row]!.key),
    rows: winners.map(row => places.get(row) ?? -1),
    deletes: winners.filter(row => rows[row]!.isDelete).map(row => rows[row]!.sequence),
  }
}

/** The rows as entries of at most 100, a request for each stretch of one sequence. */
function entriesOf(rows: readonly Row[]): MemtableEntry[] {
  const entries: MemtableEntry[] = []
  for (let from = 0; from < rows.length; ) {
    const { isDelete } = rows[from]!
    let to = from
    const requests: [number, number, number][] = []
    for (; to < rows.length && to < from + 100 && rows[to]!.isDelete === isDelete; to++) {
      if (requests.at(-1)?.[0] !== rows[to]!.sequence) requests.push([rows[to]!.sequence, 0, 0])
      requests.at(-1)![2]++
    }
    const keys = rows.slice(from, to).map(({ key }) => Buffer.from(key, 'latin1'))
    if (isDelete) entries.push(remove(keys, requests))
    else
      entries.push(
        post(
          keySchema,
          keys.map(key => ({ key, payload: '{}', values: ['x'] })),
          requests,
        ),
      )
    from = to
  }
  return entries
}

type Random = (below: number) => number
const digits = (number: number, length: number) => String(number).padStart(length, '0')

/** Key of row `row` of `count`. */
const PATTERNS: Readonly<Record<string, (random: Random) => (row: number, count: number) => string>> = {
  rising: () => row => `0123456789abcdef${digits(row, 9)}`,
  falling: () => (row, count) => `0123456789abcdef${digits(count - row, 9)}`,
  'all equal': () => () => 'one and the same key, longer than what stands in an item',
  'runs that follow each other, out of order': () => (row, count) => {
    const run = Math.floor(row / 50)
    return `${digits(((run * 7919) % count) * 1000, 12)}${digits(row, 9)}`
  },
  'runs that overlap': random => {
    const late = Array.from({ length: 8 }, () => random(500))
    return row => digits(row + late[Math.floor(row / 40) % 8]!, 12)
  },
  'runs around the shortest that are merged': random => {
    let at = 0
    return row => {
      at = row % (8 + random(5)) === 0 ? random(1e6) : at + 1
      return digits(at, 20)
    }
  },
  'interleaved one by one': () => row => `${row % 2 === 0 ? 'a' : 'b'}${digits(row, 30)}`,
  random: random => () => digits(random(1e9), 18),
  'few keys': random => () => `k${random(5)}`,
  'prefixes and zero bytes': random => () =>
    'ab\u0000'.repeat(5).slice(0, random(4)) + '\u0000'.repeat(random(20)) + '\u00ff'.repeat(random(2)),
  'equal in the first sixteen bytes': random => () =>
    `the same sixteen${'\u0000x'.repeat(random(3))}${random(9)}`,
  'seven, eight, fifteen, sixteen and seventeen bytes': random => () =>
    'aaaaaaaaaaaaaaaaa'.slice(0, [7, 8, 15, 16, 17][random(5)]!) + ['', '\u0000'][random(2)]!,
}

/** Orders of sequences: rising by request, or of two interleaved requests, as large bodies are. */
const SEQUENCES: readonly ((row: number, random: Random) => number)[] = [
  row => 1 + Math.floor(row / 37),
  (row, random) => 1 + Math.floor(row / 90) + random(3),
  () => 7,
]

const native = tryAssemblerNative()
describe.each(native === undefined ? [assemblerJs] : [assemblerJs, native])('$name', assembler => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  test.each(Object.keys(PATTERNS))(`%s, seed ${seed}`, pattern => {
    for (const count of [1, 2, 9, 10, 11, 99, 640, 3000])
      for (const [kind, sequenceOf] of SEQUENCES.entries()) {
        const random = randomOf(seed + count + kind)
        const keyOf = must(PATTERNS[pattern], 'a pattern')(random)
        const rows = Array.from({ length: count }, (_, row) => ({
          key: keyOf(row, count),
          sequence: sequenceOf(row, random),
          isDelete: Math.floor(row / 60) % 5 === 4,
        }))
        const deduplicated = assembler.deduplicate(entriesOf(rows), true, 3)
        const run = keysOf(must(deduplicated.keys, 'keys'))
        const got = {
          keep: [...deduplicated.keep],
          keys: run.map(({ key }) => key),
          rows: run.map(({ row }) => row),
          deletes: [...deduplicated.deletes],
        }
        expect(got, `${count} rows, sequences ${kind}`).toEqual(expectedOf(rows))
      }
  })
})
