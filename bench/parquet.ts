/**
 * Question: what does a flush's Parquet file cost to write and to read, with each encoder?
 *
 *   encode    ms of processor time for the rows of a flush (median of alternating rounds, after one
 *             that does not count), and the bytes of the file
 *   read      DuckDB's processor time for queries over 8 such files
 *
 * Both encoders get the same stream of bench events in the six bench columns with their payload.
 * `--rows`: rows of a file. Non-goals: gathering rows, writing to disk.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { FIRST_SCHEMA_COLUMN } from '../src/format/batch-layout.ts'
import { layOutStream, writeStreamFrame } from '../src/store/segment/arrow-stream.ts'
import { tryAssemblerNative } from '../src/store/segment/assembler.ts'
import { assemblerJs } from '../src/store/segment/assembler-js.ts'
import { type Encoder, tryEncoderNative } from '../src/store/segment/parquet-encoder.ts'
import { arrowHead, encoderJs } from '../src/store/segment/parquet-encoder-js.ts'
import { FLUSH_ROWS } from '../src/util/limits.ts'
import { entriesOf, BENCH_SCHEMA as schema } from './entries.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { median, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'

/** Options of the command line, as text. */
interface ParquetOptions {
  readonly rows?: string | undefined
  readonly rounds?: string | undefined
}

const FILES = 8
const FOOTER = new Map([['weir.format', '1']])
const QUERIES = [
  ['sum by dictionary column', 'SELECT type, sum(amount) FROM FILES GROUP BY type'],
  ['filter on a dictionary column', "SELECT sum(amount) FROM FILES WHERE tenant = 'tenant-0042'"],
  ['bytes of all payloads', 'SELECT sum(strlen(_service_payload)) FROM FILES'],
] as const

/** Measures 9 rounds (`rounds`) over files with the rows of a full flush (`rows`). */
export async function benchParquet(options: ParquetOptions): Promise<void> {
  const rows = Math.max(1, Math.floor(numberOf('rows', options.rows, FLUSH_ROWS)))
  const rounds = Math.max(1, numberOf('rounds', options.rounds, 9))
  const native = tryEncoderNative()
  const encoders = native === undefined ? [encoderJs] : [encoderJs, native]
  print(`parquet: ${rows} rows a file, ${rounds} rounds, median`)
  if (native === undefined) print(row('native', 'not built'))
  const folder = benchFolder('weir-bench-parquet-')
  try {
    encode(encoders, rows, rounds)
    for (let file = 0; file < FILES; file++) {
      const { layout, stream } = streamFrom(file * rows, rows)
      for (const encoder of encoders)
        writeFileSync(
          join(folder, `${encoder.name}-${file}.parquet`),
          encoder.encode(stream, layout, schema, rows, FOOTER),
        )
    }
    await read(folder, encoders, rounds)
  } finally {
    removeFolder(folder)
  }
}

function streamFrom(first: number, rows: number) {
  const assembler = tryAssemblerNative() ?? assemblerJs
  const entries = entriesOf(first, rows)
  const deduplicated = assembler.deduplicate(entries, true, FIRST_SCHEMA_COLUMN + schema.columns.length)
  const layout = layOutStream(schema, rows, deduplicated.sums, arrowHead)
  const stream = new Uint8Array(layout.bytes)
  writeStreamFrame(stream, layout)
  assembler.gather(entries, deduplicated.keep, stream, layout.places)
  return { layout, stream }
}

/** Processor time of this process since `from`, in ms. */
function cpuMsSince(from: NodeJS.CpuUsage): number {
  const used = process.cpuUsage(from)
  return (used.user + used.system) / 1000
}

function encode(encoders: readonly Encoder[], rows: number, rounds: number): void {
  const { layout, stream } = streamFrom(0, rows)
  const ms = new Map(encoders.map(({ name }) => [name, [] as number[]]))
  let bytes = new Map<string, number>()
  for (let round = 0; round <= rounds; round++) {
    bytes = new Map()
    for (const encoder of encoders) {
      const from = process.cpuUsage()
      bytes.set(encoder.name, encoder.encode(stream, layout, schema, rows, FOOTER).length)
      if (round > 0) ms.get(encoder.name)!.push(cpuMsSince(from))
    }
  }
  for (const { name } of encoders)
    print(
      row(
        `encode, ${name}`,
        `${median(ms.get(name)!).toFixed(1)} ms CPU, ${short(stream.length)}B in, file ${short(bytes.get(name)!)}B`,
      ),
    )
}

async function read(folder: string, encoders: readonly Encoder[], rounds: number): Promise<void> {
  const database = await DuckDBInstance.create(':memory:', { threads: '1' })
  const duck = await database.connect()
  for (const [what, sql] of QUERIES) {
    const ms = new Map(encoders.map(({ name }) => [name, [] as number[]]))
    for (let round = 0; round <= rounds; round++)
      for (const { name } of encoders) {
        const from = process.cpuUsage()
        await duck.runAndReadAll(sql.replace('FILES', `read_parquet('${join(folder, `${name}-*.parquet`)}')`))
        if (round > 0) ms.get(name)!.push(cpuMsSince(from))
      }
    for (const { name } of encoders)
      print(row(`${what}, ${name}`, `${median(ms.get(name)!).toFixed(1)} ms CPU`))
  }
  duck.closeSync()
  database.closeSync()
}
