/**
 * Question: how fast can a pool's rows be read, as an Arrow stream and as files, and in how much
 * memory?
 *
 *   stream   the Arrow route of a running server, read by a client that drops the bytes; then its
 *            rows are counted
 *   files    `weir export` on the stopped folder; DuckDB counts the rows where it reads the format
 *   python   with --python PATH (an interpreter with pyarrow, polars and duckdb): rows and time of
 *            each
 *
 * Server and client share the cores.
 */
import { spawn } from 'node:child_process'
import { createReadStream, createWriteStream, statSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { DuckDBInstance } from '@duckdb/node-api'
import { RecordBatchReader } from 'apache-arrow'
import { fetchToken, type TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS, BENCH_COLUMNS } from './events.ts'
import { flood } from './flood.ts'
import { benchFolder, tracked } from './leftovers.ts'
import { cpuSeconds, memory, print, row, short, watchMemory } from './measure.ts'
import { numberOf } from './options.ts'
import { keyedPool, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface ExportOptions {
  readonly rows?: string | undefined
  readonly connections?: string | undefined
  readonly python?: string | undefined
}

const MAIN = fileURLToPath(new URL('../src/app/main.js', import.meta.url))
const FILES = [
  ['zstd.parquet', '--format', 'parquet', '--compression', 'zstd'],
  ['snappy.parquet', '--format', 'parquet', '--compression', 'snappy'],
  ['rows.arrow', '--format', 'arrow'],
  ['rows.ndjson', '--format', 'ndjson'],
] as const

/** Runs all parts over `rows` (5M). */
export async function benchExport(options: ExportOptions): Promise<void> {
  const rows = Math.ceil(numberOf('rows', options.rows, 5_000_000) / BATCH_EVENTS) * BATCH_EVENTS
  print(`export: ${rows} rows, ${BENCH_COLUMNS.length} columns`)
  const folder = benchFolder('weir-export-')
  const server = await startWeir({ dataDir: join(folder, 'data') })
  const pool = await keyedPool(server)
  const connections = numberOf('connections', options.connections, 16)
  await flood({ kind: 'insert', url: pool.url, connections, rows }, () => undefined)
  // A counter flushes the memtable.
  check('counter', Number(await server.count(pool.poolId)), rows)
  const stream = join(folder, 'stream.arrows')
  await streams(server, pool.poolId, rows, stream)
  const end = await server.stop()
  if (end.code !== 0) throw new Error(`the server ended with ${end.code ?? end.signal}:\n${end.output}`)
  for (const [name, ...flags] of FILES) await exported(server.dataDir, pool.poolId, rows, folder, name, flags)
  if (options.python !== undefined) await python(options.python, folder, stream, rows)
}

function check(name: string, found: number, wanted: number): void {
  print(row(`${name}: rows`, found === wanted ? String(found) : `${found} DIFFERS FROM ${wanted}`))
  if (found !== wanted) process.exitCode = 1
}

/** Watches a process; the function that it returns stops and gives the largest anonymous memory. */
const watchAnonymous = (pid: number) => watchMemory(pid, 100, ({ anonymous }) => anonymous)

async function streams(server: TestServer, poolId: string, rows: number, file: string): Promise<void> {
  const pid = server.child.pid as number
  const token = await fetchToken(server.base, server.dataDir)
  const ask = async () => {
    const answer = await fetch(`${server.base}/v1/pools/${poolId}/arrow`, {
      headers: { authorization: `Bearer ${token}` },
    })
    if (answer.status !== 200 || answer.body === null) throw new Error(`the Arrow route: ${answer.status}`)
    return answer.body
  }
  const before = memory(pid).anonymous
  const stop = watchAnonymous(pid)
  const cpuBefore = cpuSeconds(pid)
  const begin = performance.now()
  let bytes = 0
  for await (const chunk of await ask()) bytes += (chunk as Uint8Array).byteLength
  const seconds = (performance.now() - begin) / 1000
  const cpu = cpuSeconds(pid) - cpuBefore
  print(
    row(
      'Arrow route',
      `${short(rows / seconds)} rows/s, ${(bytes / 1e6 / seconds).toFixed(1)} MB/s, ${seconds.toFixed(2)} s, server CPU ${cpu.toFixed(2)} s, anonymous ${short(before)}B before, ${short(stop())}B at most`,
    ),
  )
  await pipeline(Readable.fromWeb((await ask()) as never), createWriteStream(file))
  const reader = await RecordBatchReader.from(createReadStream(file))
  let counted = 0
  for await (const batch of reader) counted += batch.numRows
  check('Arrow route', counted, rows)
}

async function exported(
  dataDir: string,
  poolId: string,
  rows: number,
  folder: string,
  name: string,
  flags: readonly string[],
): Promise<void> {
  const out = join(folder, name)
  const begin = performance.now()
  const args = [MAIN, 'export', poolId, '--data-dir', dataDir, '--out', out, ...flags]
  const child = tracked(spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] }))
  const stop = watchAnonymous(child.pid as number)
  let said = ''
  child.stderr.on('data', chunk => {
    said = `${said}${chunk}`.slice(-2000)
  })
  const code = await new Promise(resolve => child.once('close', resolve))
  const largest = stop()
  const seconds = (performance.now() - begin) / 1000
  if (code !== 0) throw new Error(`weir export ended with ${code}:\n${said}`)
  print(
    row(
      `weir export ${name}`,
      `${short(rows / seconds)} rows/s, ${seconds.toFixed(2)} s, file ${short(statSync(out).size)}B, anonymous ${short(largest)}B at most`,
    ),
  )
  check(name, name.endsWith('.arrow') ? Number(/(\d+) rows,/.exec(said)?.[1]) : await countRows(out), rows)
}

/** Rows of a Parquet or NDJSON file, counted by DuckDB. */
async function countRows(file: string): Promise<number> {
  const database = await DuckDBInstance.create()
  const connection = await database.connect()
  const from = file.endsWith('.parquet') ? `read_parquet('${file}')` : `read_json('${file}')`
  const result = await connection.runAndReadAll(`SELECT count(*)::DOUBLE FROM ${from}`)
  connection.closeSync()
  database.closeSync()
  return Number(result.getRows()[0]?.[0])
}

/** Each reader prints `name rows seconds`; a missing package prints -1 and the error. */
const READERS = `
import sys, time
stream, parquet = sys.argv[1:]
def run(name, work):
    begin = time.time()
    try: print(name, work(), round(time.time() - begin, 3), flush=True)
    except ImportError as error: print(name, -1, error, flush=True)
def table():
    import pyarrow
    return pyarrow.ipc.open_stream(pyarrow.memory_map(stream)).read_all()
def pyarrow_file():
    import pyarrow.parquet
    return pyarrow.parquet.read_table(parquet).num_rows
def polars_stream():
    import polars
    return polars.from_arrow(table()).height
def polars_file():
    import polars
    return polars.read_parquet(parquet).height
def duckdb_stream():
    import duckdb
    rows = table()
    return duckdb.sql('select count(*), max(amount) from rows').fetchall()[0][0]
def duckdb_file():
    import duckdb
    return duckdb.sql(f"select count(*), max(amount) from '{parquet}'").fetchall()[0][0]
run('pyarrow,stream', lambda: table().num_rows)
for work in (pyarrow_file, polars_stream, polars_file, duckdb_stream, duckdb_file): run(work.__name__.replace('_', ','), work)
`

async function python(path: string, folder: string, stream: string, rows: number): Promise<void> {
  const args = ['-c', READERS, stream, join(folder, 'zstd.parquet')]
  const child = tracked(spawn(path, args, { stdio: ['ignore', 'pipe', 'inherit'] }))
  let text = ''
  child.stdout.on('data', chunk => {
    text += String(chunk)
  })
  const code = await new Promise(resolve => child.once('close', resolve))
  if (code !== 0) throw new Error(`${path} ended with ${code}`)
  for (const line of text.trim().split('\n')) {
    const [name = '', count, ...rest] = line.split(' ')
    if (count === '-1') print(row(name, rest.join(' ')))
    else {
      check(name, Number(count), rows)
      print(row(name, `${rest.join(' ')} s`))
    }
  }
}
