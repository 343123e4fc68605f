/**
 * Bytes that make parquet-wasm trap cause an error that names the file. The thread drops that
 * instance of the module.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { FIRST_SCHEMA_COLUMN } from '../../src/format/batch-layout.ts'
import { withParquet } from '../../src/format/segment-file.ts'
import { layOutStream, writeStreamFrame } from '../../src/store/segment/arrow-stream.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { arrowHead, parquetOf } from '../../src/store/segment/parquet-encoder-js.ts'
import { Damaged } from '../../src/util/errors.ts'
import { parquetWasm } from '../../src/util/parquet-wasm.ts'
import { randomOf, randomRow, schemaOfAll } from '../store/rows.ts'
import { makeBatch } from '../util/make-batch.ts'
import { temporaryFolder } from '../util/server.ts'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

const schema = schemaOfAll(false)
const ROWS = 300
const ROUNDS = 25

/** Rows of every type as an IPC stream, and the places of its buffers. */
function streamOf() {
  const random = randomOf(7)
  const rows = Array.from({ length: ROWS }, (_, i) => randomRow(schema, random, `r${i}`))
  const requests = Float64Array.from([5, 1_700_000_000_000_000, ROWS, 0])
  const entry = { kind: 'post', batch: makeBatch(schema, rows), requests } as const
  const deduplicated = assemblerJs.deduplicate([entry], false, FIRST_SCHEMA_COLUMN + schema.columns.length)
  const layout = layOutStream(schema, ROWS, deduplicated.sums, arrowHead)
  const stream = new Uint8Array(layout.bytes)
  writeStreamFrame(stream, layout)
  assemblerJs.gather([entry], deduplicated.keep, stream, layout.places)
  return { stream, layout }
}

const FOOTER = new Map([['weir.format', '1']])

function rowsOf(file: string): Promise<number> {
  return withParquet(file, async parquet => {
    const table = await parquet.read()
    const batches = table.recordBatches()
    table.free()
    const rows = batches.reduce((sum, batch) => sum + batch.numRows, 0)
    for (const batch of batches) batch.free()
    return rows
  })
}

test('a file whose pages trap is Damaged, the next file is read, and no instance is left', async () => {
  const folder = temporaryFolder()
  const good = join(folder, 'good.parquet')
  const bad = join(folder, 'bad.parquet')
  const { stream } = streamOf()
  writeFileSync(good, parquetOf(stream, schema, FOOTER))
  const bytes = Uint8Array.from(readFileSync(good))
  const instances: WeakRef<object>[] = []
  let traps = 0
  for (let round = 0; round < ROUNDS; round++) {
    const broken = bytes.slice()
    for (let at = 4 + (round % 5); at < bytes.length - 6000; at += 5) broken[at] = 0xff ^ (broken[at] ?? 0)
    writeFileSync(bad, broken)
    instances.push(new WeakRef(parquetWasm()))
    const error = await rowsOf(bad).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(Damaged)
    expect((error as Damaged).file).toBe(bad)
    if (/cannot be decoded/.test((error as Error).message)) traps++
    expect(await rowsOf(good)).toBe(ROWS)
  }
  expect(traps).toBe(ROUNDS)
  // A WeakRef keeps its target until the end of the turn.
  await new Promise(resolve => setImmediate(resolve))
  gc()
  expect(instances.filter(one => one.deref() !== undefined).length).toBeLessThanOrEqual(1)
})

test('a stream that traps while it is encoded costs the next flush nothing', () => {
  const { stream } = streamOf()
  const whole = parquetOf(stream, schema, FOOTER)
  const seed = Date.now() % 2 ** 31
  const random = randomOf(seed)
  let traps = 0
  for (let round = 0; round < 400 && traps < 8; round++) {
    const hostile = stream.slice()
    for (let i = 0; i < 6; i++) hostile[random(3000)] = random(256)
    const instance = parquetWasm()
    try {
      parquetOf(hostile, schema, FOOTER)
    } catch (error) {
      const isTrap = (error as Error).name === 'RuntimeError'
      if (isTrap) traps++
      expect([seed, round, parquetWasm() === instance]).toEqual([seed, round, !isTrap])
    }
    expect([seed, round, Buffer.compare(parquetOf(stream, schema, FOOTER), whole)]).toEqual([seed, round, 0])
  }
  expect([seed, traps]).toEqual([seed, 8])
})
