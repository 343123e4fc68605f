/**
 * Question: how fast does `weir import` load a large file, in how much memory of the server, and
 * what does a kill of the server half-way cost?
 *
 *   ndjson   a file of `rows` events of 450 bytes, made for the run; 12M are 5 GB
 *   again    the same, with a kill -9 of server and command half-way; then a start, and the command
 *            with --resume
 *   parquet  the same rows as Parquet, written by DuckDB, and killed half-way too
 *
 * Each run has a fresh pool, and ends with a count and a sum over all rows. The command, the server
 * and the process that reads Parquet share the cores.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DuckDBInstance } from '@duckdb/node-api'
import { fetchToken, type TestPool, type TestServer } from '../test/util/server.ts'
import { BENCH_COLUMNS, benchEvents, eventId } from './events.ts'
import { benchFolder, removeFolder, tracked } from './leftovers.ts'
import { cpuSeconds, memory, print, row, short, sleep, watchMemory } from './measure.ts'
import { numberOf } from './options.ts'
import { keyedPool, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface ImportOptions {
  readonly rows?: string | undefined
}

const MAIN = fileURLToPath(new URL('../src/app/main.js', import.meta.url))
/** Different events in the file; ids and times are those of the row. */
const EVENTS = 1_000
const START_MS = Date.UTC(2026, 0, 1)

/** Runs all parts over `rows` (12M). */
export async function benchImport(options: ImportOptions): Promise<void> {
  const rows = Math.max(EVENTS, Math.ceil(numberOf('rows', options.rows, 12_000_000) / EVENTS) * EVENTS)
  print(`import: ${rows} rows, ${BENCH_COLUMNS.length} columns and the payload`)
  const folder = benchFolder('weir-import-')
  const ndjson = join(folder, 'rows.ndjson')
  const parquet = join(folder, 'rows.parquet')
  const sum = writeRows(ndjson, rows)
  print(row('rows.ndjson', `${short(statSync(ndjson).size)}B`))
  await writeParquet(ndjson, parquet)
  print(row('rows.parquet', `${short(statSync(parquet).size)}B`))
  for (const [name, file, isKilled] of [
    ['ndjson', ndjson, false],
    ['ndjson, killed half-way', ndjson, true],
    ['parquet', parquet, false],
    ['parquet, killed half-way', parquet, true],
  ] as const)
    await imported(name, file, { rows, sum, isKilled, dataDir: join(folder, 'data') })
}

/** Writes the file; returns the sum of its column quantity. */
function writeRows(path: string, rows: number): number {
  const events = benchEvents(EVENTS)
  const lines = events.map(event => Buffer.from(`${event}\n`))
  const block = Buffer.concat(lines)
  const quantities = events.reduce(
    (all, event) => all + (JSON.parse(event) as { quantity: number }).quantity,
    0,
  )
  const file = openSync(path, 'wx')
  let index = 0
  for (; index < rows; ) {
    let at = 0
    for (const line of lines) {
      // Both have fixed lengths: {"id":"…24…","time":"…24…"
      block.write(eventId(0, index), at + 7, 'latin1')
      block.write(new Date(START_MS + index).toISOString(), at + 41, 'latin1')
      at += line.length
      index += 1
    }
    writeSync(file, block)
  }
  closeSync(file)
  return (quantities * rows) / EVENTS
}

async function writeParquet(ndjson: string, parquet: string): Promise<void> {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  await connection.run("SET memory_limit = '1GB'")
  await connection.run(
    `COPY (SELECT * REPLACE (CAST("time" AS TIMESTAMP) AS "time") FROM read_json('${ndjson}', format = 'newline_delimited')) TO '${parquet}' (FORMAT parquet, ROW_GROUP_SIZE 100000)`,
  )
  connection.closeSync()
}

interface Wanted {
  readonly rows: number
  readonly sum: number
  readonly isKilled: boolean
  readonly dataDir: string
}

async function imported(name: string, file: string, { rows, sum, isKilled, dataDir }: Wanted): Promise<void> {
  let server = await startWeir({ dataDir })
  const pool = await keyedPool(server)
  let stop = watchServer(server)
  const begin = performance.now()
  const cpuBefore = cpuSeconds(server.child.pid as number)
  let running = runCommand(server, pool, file)
  let [resumed, peak] = ['', 0]
  if (isKilled) {
    await halfWay(server, pool, rows)
    running.command.kill('SIGKILL')
    await Promise.all([server.kill(), running.ended])
    peak = stop()
    server = await startWeir({ dataDir })
    stop = watchServer(server)
    running = runCommand(server, pool, file, '--resume')
  }
  const { code, said } = await running.ended
  const seconds = (performance.now() - begin) / 1000
  peak = Math.max(peak, stop())
  const behind = /resumes behind ([\d,]+) rows/.exec(said)?.[1]
  if (isKilled) resumed = `, resumed behind ${behind ?? 'NO'} rows`
  const cpu = isKilled ? '' : `, ${(cpuSeconds(server.child.pid as number) - cpuBefore).toFixed(1)} s of CPU`
  const idle = memory(server.child.pid as number).anonymous
  print(
    row(
      name,
      `${short(rows / seconds)} rows/s, ${seconds.toFixed(1)} s${cpu}; memory of the server ${short(peak)}B at most, ${short(idle)}B after${resumed}`,
    ),
  )
  if (code !== 0) fail(`THE COMMAND ENDED WITH ${code}: ${said}`)
  const [count, total] = [await server.count(pool.poolId), await server.sum(pool.poolId, 'quantity')]
  if (count !== String(rows) || Number(total) !== sum)
    fail(`${count} ROWS, SUM ${total}, NOT ${rows} AND ${sum}`)
  else print(row('', `${count} rows, sum ${total}, as in the file`))
  await server.stop()
  removeFolder(dataDir)
}

const watchServer = ({ child }: TestServer) =>
  watchMemory(child.pid as number, 100, ({ anonymous }) => anonymous)

function runCommand(server: TestServer, pool: TestPool, file: string, ...flags: string[]) {
  const args = ['import', pool.poolId, file, '--url', server.base, '--data-dir', server.dataDir, ...flags]
  const command = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  tracked(command)
  let said = ''
  for (const stream of [command.stdout, command.stderr])
    stream.on('data', text => {
      said += text
    })
  const ended = once(command, 'close').then(([code]) => ({ code: code as number | null, said }))
  return { command, ended }
}

function fail(text: string): void {
  print(row('', text))
  process.exitCode = 1
}

/** Waits until half of the rows are durable. */
async function halfWay(server: TestServer, pool: TestPool, rows: number): Promise<void> {
  while (((await importsOf(server, pool))[0]?.durableRows ?? 0) < rows / 2) await sleep(50)
}

async function importsOf(server: TestServer, pool: TestPool): Promise<{ readonly durableRows?: number }[]> {
  const token = await fetchToken(server.base, server.dataDir)
  const answer = await fetch(`${server.base}/v1/pools/${pool.poolId}/import`, {
    headers: { authorization: `Bearer ${token}` },
  })
  return ((await answer.json()) as { imports: { readonly durableRows?: number }[] }).imports
}
