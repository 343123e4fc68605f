/**
 * What does a seal's Parquet file cost, and what is it worth to a reader? Both encoders, from the same stream of bench
 * events in the six bench columns with their payload.
 *
 *   node dist/bench/parquet.js [rounds]
 *
 * Prints ms of processor time per 131,072 rows (medians of alternating rounds), bytes of the file, and DuckDB's
 * processor time for a sum by a dictionary column over 8 files. Not measured: assembling, writing to disk.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { FIRST_PLAN_COLUMN } from '../src/batch/layout.ts'
import { SEAL_ROWS } from '../src/limits.ts'
import { tryAssemblerNative } from '../src/segment/assembler.ts'
import { type Encoder, tryEncoderNative } from '../src/segment/encoder.ts'
import { encoderJs } from '../src/segment/encoder-js.ts'
import { layOutStream, writeStreamFrame } from '../src/segment/stream.ts'
import { arrowHead } from '../src/segment/stream-head.ts'
import { must } from '../src/util/assert.ts'
import { entriesOf, BENCH_PLAN as plan } from './entries.ts'
import { median } from './measure.ts'

const FILES = 8
const rounds = Number(process.argv[2] ?? 9)

const assembler = must(tryAssemblerNative(), 'the native module')
const encoders: readonly Encoder[] = [encoderJs, must(tryEncoderNative(), 'the native module')]

function streamFrom(first: number) {
  const entries = entriesOf(first, SEAL_ROWS)
  const survey = assembler.survey(entries, true, FIRST_PLAN_COLUMN + plan.columns.length)
  const layout = layOutStream(plan, SEAL_ROWS, survey.sums, arrowHead)
  const stream = new Uint8Array(layout.bytes)
  writeStreamFrame(stream, layout)
  assembler.fill(entries, survey.keep, stream, layout.places)
  return { layout, stream }
}

function cpuMs(work: () => void): number {
  const from = process.cpuUsage()
  work()
  const used = process.cpuUsage(from)
  return (used.user + used.system) / 1000
}

const print = (line: string) => void process.stdout.write(`${line}\n`)
const footer = new Map([['weir.format', '1']])
const folder = mkdtempSync(join(tmpdir(), 'weir-bench-'))
const { layout, stream } = streamFrom(0)
const encodeMs = new Map(encoders.map(({ name }) => [name, [] as number[]]))
for (let round = 0; round < rounds; round++)
  for (const encoder of encoders) {
    const ms = cpuMs(() => void encoder.encode(stream, layout, plan, SEAL_ROWS, footer))
    if (round > 0) encodeMs.get(encoder.name)!.push(ms)
  }
print(`stream ${stream.length} bytes, ${SEAL_ROWS} rows`)
for (const encoder of encoders) {
  const bytes = encoder.encode(stream, layout, plan, SEAL_ROWS, footer).length
  print(
    `${encoder.name.padEnd(8)} ${median(encodeMs.get(encoder.name)!).toFixed(1)} ms CPU, file ${bytes} bytes`,
  )
}

for (let file = 0; file < FILES; file++) {
  const one = streamFrom(file * SEAL_ROWS)
  for (const { name, encode } of encoders.map(e => ({ name: e.name, encode: e.encode.bind(e) })))
    writeFileSync(
      join(folder, `${name}-${file}.parquet`),
      encode(one.stream, one.layout, plan, SEAL_ROWS, footer),
    )
}
const duck = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect()
const queries = [
  ['sum by dictionary column', 'SELECT type, sum(amount) FROM FILES GROUP BY type'],
  ['filter on a dictionary column', "SELECT sum(amount) FROM FILES WHERE tenant = 'tenant-0042'"],
  ['bytes of all payloads', 'SELECT sum(strlen(_service_payload)) FROM FILES'],
] as const
for (const [what, sql] of queries) {
  const ms = new Map(encoders.map(({ name }) => [name, [] as number[]]))
  for (let round = 0; round < rounds; round++)
    for (const { name } of encoders) {
      const from = process.cpuUsage()
      await duck.runAndReadAll(sql.replace('FILES', `read_parquet('${join(folder, `${name}-*.parquet`)}')`))
      const used = process.cpuUsage(from)
      ms.get(name)!.push((used.user + used.system) / 1000)
    }
  for (const { name } of encoders) print(`${what}, ${name}: ${median(ms.get(name)!).toFixed(1)} ms CPU`)
}
duck.closeSync()
rmSync(folder, { recursive: true })
