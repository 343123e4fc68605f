/**
 * W-7 within a flush: the native passes give the same bytes as the TypeScript passes, which are the
 * specification.
 */

import { describe, expect, test } from 'vitest'
import { FIRST_SCHEMA_COLUMN } from '../../src/format/batch-layout.ts'
import { VERSION_TYPES } from '../../src/format/key.ts'
import { type KeyRun, viewRun } from '../../src/format/key-run.ts'
import type { MemtableEntry } from '../../src/store/flush/memtable.ts'
import { layOutStream, writeStreamFrame } from '../../src/store/segment/arrow-stream.ts'
import { type Assembler, countRows, tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { arrowHead } from '../../src/store/segment/parquet-encoder-js.ts'
import { keysOf } from '../util/key-runs.ts'
import { keySchema, post, randomEntries, remove, schemaOfAll } from './rows.ts'

const native = tryAssemblerNative()

function streamOf(
  assembler: Assembler,
  entries: readonly MemtableEntry[],
  isKeyed: boolean,
  version?: number,
) {
  const schema = schemaOfAll(isKeyed)
  const columns = FIRST_SCHEMA_COLUMN + schema.columns.length
  const deduplicated = assembler.deduplicate(entries, isKeyed, columns, version)
  const layout = layOutStream(schema, countRows(deduplicated.keep), deduplicated.sums, arrowHead)
  const stream = new Uint8Array(layout.bytes).fill(0xaa)
  writeStreamFrame(stream, layout)
  assembler.gather(entries, deduplicated.keep, stream, layout.places)
  return { deduplicated, stream }
}

function runOf(run: KeyRun | undefined): [string, number][] {
  return keysOf(run!).map(({ key, row }) => [key, row])
}

describe.runIf(native !== undefined)('native and TypeScript', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const columns = schemaOfAll(true).columns.map(({ type }, i) => [type, FIRST_SCHEMA_COLUMN + i] as const)
  const versions = columns.filter(([type]) => VERSION_TYPES.has(type))
  test.each([
    ['keyed', true, -1],
    ['without a key', false, -1],
    ...versions.map(([type, column]) => [`versions of type ${type}`, true, column] as const),
  ] as const)(`give equal bytes, %s, seed ${seed}`, (_, isKeyed, version) => {
    for (let round = 0; round < 40; round++) {
      const entries = randomEntries(schemaOfAll(isKeyed), seed + round, 1 + (round % 12))
      const [js, cpp] = [assemblerJs, native!].map(one => streamOf(one, entries, isKeyed, version)) as [
        ReturnType<typeof streamOf>,
        ReturnType<typeof streamOf>,
      ]
      expect(cpp.deduplicated.keep).toEqual(js.deduplicated.keep)
      expect(cpp.deduplicated.sums).toEqual(js.deduplicated.sums)
      expect(cpp.deduplicated.deletes).toEqual(js.deduplicated.deletes)
      expect(Buffer.from(cpp.deduplicated.keys ?? new ArrayBuffer(0))).toEqual(
        Buffer.from(js.deduplicated.keys ?? new ArrayBuffer(0)),
      )
      if (version >= 0 && js.deduplicated.keep.length > 0)
        expect(viewRun(js.deduplicated.keys!).versions).toBeDefined()
      expect(Buffer.compare(cpp.stream, js.stream)).toBe(0)
      expect(cpp.stream.length).toBeGreaterThan(0)
    }
  })
})

test.runIf(native !== undefined)('a native flush refuses versions from a column that has none', () => {
  const entries = randomEntries(schemaOfAll(true), 1, 3)
  for (const column of [FIRST_SCHEMA_COLUMN, FIRST_SCHEMA_COLUMN + 1, 99])
    expect(() => native!.deduplicate(entries, true, 15, column)).toThrow(/no column of versions/)
})

describe.each(native === undefined ? [assemblerJs] : [assemblerJs, native])('winners, $name', assembler => {
  const row = (key: string) => ({ key, payload: '{}', values: [key] })
  const pick = (entries: readonly MemtableEntry[]) => {
    const { keep, keys, deletes } = assembler.deduplicate(entries, true, 3)
    return { keep: [...keep], run: runOf(keys), deletes: [...deletes] }
  }

  test('W-7: of equal keys in one request the later wins', () => {
    const got = pick([post(keySchema, [row('a'), row('b'), row('a')], [[1, 0, 3]])])
    expect(got).toEqual({
      keep: [0, 1, 1],
      run: [
        ['a', 1],
        ['b', 0],
      ],
      deletes: [],
    })
  })

  test('W-7: interleaved sequences of two batches are compared, not the order of rows', () => {
    const got = pick([
      post(
        keySchema,
        [row('a'), row('b')],
        [
          [5, 0, 1],
          [7, 0, 1],
        ],
      ),
      post(
        keySchema,
        [row('b'), row('a')],
        [
          [6, 0, 1],
          [8, 0, 1],
        ],
      ),
    ])
    expect(got).toEqual({
      keep: [0, 1, 0, 1],
      run: [
        ['a', 1],
        ['b', 0],
      ],
      deletes: [],
    })
  })

  test('a delete after a post wins, a post after a delete wins', () => {
    const got = pick([
      post(keySchema, [row('a')], [[1, 0, 1]]),
      remove(['a', 'b', 'c'], [[2, 0, 3]]),
      post(keySchema, [row('b')], [[3, 0, 1]]),
    ])
    expect(got).toEqual({
      keep: [0, 0, 0, 0, 1],
      run: [
        ['a', -1],
        ['b', 0],
        ['c', -1],
      ],
      deletes: [2, 2],
    })
  })

  test('keys are unique and ascend by their bytes, prefixes and zero bytes included', () => {
    const keys = [
      'aaaaaaaa',
      'aaaaaaaa\u0000',
      'aaaaaaaaaaaaaaaa',
      'aaaaaaaaaaaaaaaab',
      'a',
      'a\u0000',
      '',
      'z',
      'a',
    ]
    const { run } = pick([post(keySchema, keys.map(row), [[1, 0, keys.length]])])
    const sorted = [...new Set(keys)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    expect(run.map(([key]) => key)).toEqual(sorted)
  })
})
