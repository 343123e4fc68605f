/**
 * The native encoder takes payloads from the batches that they came with. Its file equals the file
 * of a stream that holds the payloads, whatever rows were dropped between them, and wherever pages
 * and row groups end.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FIRST_SCHEMA_COLUMN } from '../../src/format/batch-layout.ts'
import type { MemtableEntry } from '../../src/store/flush/memtable.ts'
import { layOutStream, writeStreamFrame } from '../../src/store/segment/arrow-stream.ts'
import { countRows, nativeEntries, tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { tryEncoderNative } from '../../src/store/segment/parquet-encoder.ts'
import { arrowHead } from '../../src/store/segment/parquet-encoder-js.ts'
import { must } from '../../src/util/errors.ts'
import { ROW_GROUP_ROWS } from '../../src/util/limits.ts'
import { tryNative } from '../../src/util/native.ts'
import { keySchema, post, randomEntries, randomOf, remove, schemaOfAll } from './rows.ts'

const encoder = tryEncoderNative()
const root = mkdtempSync(join(tmpdir(), 'weir-payloads-'))
let duck: DuckDBConnection

beforeAll(async () => {
  duck = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect()
})

afterAll(() => {
  duck.closeSync()
  rmSync(root, { recursive: true })
})

/**
 * The files of the same rows, with the payloads in the stream and in their batches, and the
 * encoder's arguments for the latter.
 */
function bothWays(schema: typeof keySchema, entries: readonly MemtableEntry[]) {
  const deduplicated = assemblerJs.deduplicate(
    entries,
    schema.key !== null,
    FIRST_SCHEMA_COLUMN + schema.columns.length,
  )
  const rows = countRows(deduplicated.keep)
  return [arrowHead, undefined].map(headOf => {
    const layout = layOutStream(schema, rows, deduplicated.sums, headOf)
    const streams = [assemblerJs, must(tryAssemblerNative(), 'the native module')].map(assembler => {
      const stream = new Uint8Array(layout.bytes).fill(0xaa)
      writeStreamFrame(stream, layout)
      assembler.gather(entries, deduplicated.keep, stream, layout.places)
      return stream
    })
    expect(Buffer.compare(streams[0]!, streams[1]!)).toBe(0)
    const source = { entries, keep: deduplicated.keep }
    const footer = new Map([['weir.format', '1']])
    const bytes = Uint8Array.from(encoder!.encode(streams[0]!, layout, schema, rows, footer, source))
    return { bytes, rows, stream: streams[0]! }
  })
}

async function payloadsOf(bytes: Uint8Array, name: string): Promise<unknown[]> {
  const file = join(root, name)
  writeFileSync(file, bytes)
  const read = await duck.runAndReadAll(`SELECT _service_payload FROM read_parquet('${file}')`)
  return read.getRows().map(([payload]) => payload)
}

describe.runIf(encoder !== undefined)('payloads', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)

  test(`of random batches, with overwritten rows, seed ${seed}`, () => {
    for (let round = 0; round < 30; round++) {
      const schema = schemaOfAll(round % 2 === 0)
      const entries = randomEntries(schema, seed + round, 1 + (round % 12))
      if (entries.every(entry => entry.kind === 'delete')) continue
      const [streamed, left] = bothWays(schema, entries)
      expect(left!.stream.length).toBeLessThan(streamed!.stream.length)
      expect(Buffer.compare(left!.bytes, streamed!.bytes)).toBe(0)
    }
  })

  test(`over several pages and row groups, of all sizes, seed ${seed}`, async () => {
    const random = randomOf(seed)
    const payloads: string[] = []
    const entries: MemtableEntry[] = []
    const rows = ROW_GROUP_ROWS + 3000
    for (let sequence = 1; payloads.length < rows; sequence++) {
      const batch = Array.from({ length: 1 + random(900) }, (_, i) => {
        const size = [0, 2, 30, 300][random(4)]! + (random(300) === 0 ? 90_000 : 0)
        const payload = `{"n":"${sequence}-${i}-${'x'.repeat(random(size + 1))}"}`
        const isOverwritten = random(10) === 0 // another row has its key
        if (!isOverwritten) payloads.push(payload)
        return { key: isOverwritten ? 'overwritten' : `${sequence}-${i}`, payload, values: ['x'] }
      })
      entries.push(post(keySchema, batch, [[sequence, 0, batch.length]]))
    }
    entries.push(remove(['overwritten'], [[1e6, 0, 1]]))
    const [streamed, left] = bothWays(keySchema, entries)
    expect(Buffer.compare(left!.bytes, streamed!.bytes)).toBe(0)
    expect(await payloadsOf(left!.bytes, 'pages.parquet')).toEqual(payloads)
  })

  test('that do not agree with the batches are refused', () => {
    const module = must(tryNative<{ parquetEncode(...args: unknown[]): number }>(), 'the native module')
    const row = (key: string) => ({ key, payload: '{"a":1}', values: [key] })
    const entries = [post(keySchema, [row('a'), row('b'), row('c')], [[1, 0, 3]])]
    const stream = new Uint8Array(64)
    const call = (offsets: readonly number[], keep: readonly number[], flags = 0) => {
      new Int32Array(stream.buffer, 0, offsets.length).set(offsets)
      const words = Float64Array.from([offsets.length - 1, 8, 10, flags, -1, 0, -1])
      const given = keep.length === 0 ? [] : [...nativeEntries(entries), Uint8Array.from(keep)]
      const text = Uint8Array.from(Buffer.from('ab'))
      return module.parquetEncode(stream, new Uint8Array(4096), words, text, Float64Array.from([2]), ...given)
    }
    expect(call([0, 7, 14, 21], [1, 1, 1])).toBeGreaterThan(60)
    expect(call([0, 7, 14], [1, 0, 1])).toBeGreaterThan(60)
    for (const bad of [
      () => call([0, 7, 14, 21], []),
      () => call([0, 7, 14, 21], [1, 1]),
      () => call([0, 7, 14, 21], [1, 1, 1, 1]),
      () => call([0, 7, 14, 21], [1, 0, 1]),
      () => call([0, 7, 14], [1, 1, 1]),
      () => call([0, 7, 14, 22], [1, 1, 1]),
      () => call([0, 7, 15], [1, 0, 1]),
      () => call([0, 7, 6, 21], [1, 1, 1]),
      () => call([0, 7, 14, 21], [1, 1, 1], 2), // statistics of a column that is not there
    ])
      expect(bad).toThrow(TypeError)
  })
})
