/**
 * Question: what does a backup into a bucket cost, and is what comes back equal?
 *
 *   first      `rows` rows, settled; bytes and time of the first backup of a running server
 *   second     after 1 % of the rows were updated: what is sent then
 *   equal      the restored folder and the stopped one, exported and compared row by row
 *   ingest     full batches in a closed loop: before, during a backup that sends everything,
 *              during one into a folder, and after
 *
 * --bucket names a bucket, with the environment as `weir backup` reads it. A server of S3 on this
 * machine takes processor time from Weir.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { DuckDBInstance } from '@duckdb/node-api'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS } from './events.ts'
import { type GeneratorDone, generate } from './generator.ts'
import { benchFolder } from './leftovers.ts'
import { print, row, short } from './measure.ts'
import { numberOf, Usage } from './options.ts'
import { errorsOf } from './path-runs.ts'
import { post, settled } from './rows.ts'
import { keyedPool, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface BackupOptions {
  readonly bucket?: string | undefined
  readonly rows?: string | undefined
  readonly seconds?: string | undefined
  readonly connections?: string | undefined
}

const MAIN = fileURLToPath(new URL('../src/app/main.js', import.meta.url))

/** Runs all parts over `rows` (5M), with loads of `seconds` (20) by `connections` (16). */
export async function benchBackup(options: BackupOptions): Promise<void> {
  const { bucket } = options
  if (bucket === undefined) throw new Usage('backup takes --bucket s3://bucket/prefix')
  const rows = Math.ceil(numberOf('rows', options.rows, 5_000_000) / BATCH_EVENTS) * BATCH_EVENTS
  const seconds = numberOf('seconds', options.seconds, 20)
  const connections = Math.max(1, numberOf('connections', options.connections, 16))
  const folder = benchFolder('weir-backup-')
  // Nothing of an earlier run is there, and runs leave their backups to be looked at.
  const prefix = `${bucket}/run-${Date.now()}`
  print(`backup: ${rows} rows into ${prefix}, loads of ${seconds} s by ${connections} connections`)
  const dataDir = join(folder, 'data')
  const server = await startWeir({ dataDir })
  const pool = await keyedPool(server)
  await post(pool.url, 0, rows, 1, 0)
  await settled(server, pool, rows)
  await backUp('first backup', server, prefix)
  await post(pool.url, 0, rows, 100, 1)
  await settled(server, pool, rows)
  await backUp('after 1 % of changes', server, prefix, '--keep', '1')
  await stopped(server)
  await equal(folder, prefix, pool.poolId)
  await underIngest(dataDir, pool, { folder, prefix, seconds, connections })
}

async function stopped(server: TestServer): Promise<void> {
  const end = await server.stop()
  if (end.code !== 0) throw new Error(`the server ended with ${end.code ?? end.signal}:\n${end.output}`)
}

/** Runs a command, and prints what it says and its time. */
async function weir(name: string, ...args: readonly string[]): Promise<number> {
  const begin = performance.now()
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...args])
  const seconds = (performance.now() - begin) / 1000
  print(row(name, `${seconds.toFixed(1)} s: ${stdout.trim()}`))
  return seconds
}

function backUp(name: string, { base, dataDir }: TestServer, to: string, ...more: readonly string[]) {
  return weir(name, 'backup', to, '--url', base, '--data-dir', dataDir, ...more)
}

/** Restores the last backup, and compares its rows with those of the stopped folder. */
async function equal(folder: string, prefix: string, poolId: string): Promise<void> {
  const restored = join(folder, 'restored')
  await weir('restore', 'restore', prefix, '--data-dir', restored)
  const files = ['data', 'restored'].map(name => join(folder, `${name}.parquet`))
  for (const [at, dataDir] of [join(folder, 'data'), restored].entries())
    await weir('export', 'export', poolId, '--data-dir', dataDir, '--out', files[at] ?? '')
  const instance = await DuckDBInstance.create(':memory:', { temp_directory: join(folder, 'spill') })
  const connection = await instance.connect()
  const countOf = async (sql: string) => Number((await connection.runAndReadAll(sql)).getRows()[0]?.[0])
  const [one, two] = files.map(file => `(FROM read_parquet('${file}'))`)
  const found = await countOf(`SELECT count(*) FROM ${two}`)
  const differ =
    (await countOf(`SELECT count(*) FROM (${one} EXCEPT ALL ${two})`)) +
    (await countOf(`SELECT count(*) FROM (${two} EXCEPT ALL ${one})`))
  connection.closeSync()
  instance.closeSync()
  print(row('restored rows', differ === 0 ? `${found}, all equal` : `${found}, ${differ} DIFFER`))
  if (differ > 0) process.exitCode = 1
}

interface UnderIngest {
  readonly folder: string
  readonly prefix: string
  readonly seconds: number
  readonly connections: number
}

async function underIngest(dataDir: string, pool: TestPool, options: UnderIngest): Promise<void> {
  const { folder, prefix, seconds, connections } = options
  const server = await startWeir({ dataDir })
  const url = `${server.base}${new URL(pool.url).pathname}`
  let producer = 0
  const load = () => {
    producer += 1
    const work = { events: BATCH_EVENTS, connections, seconds, producer, form: 'array' } as const
    return generate({ target: { kind: 'http', url }, ...work })
  }
  const during = async (name: string, to: string) => {
    const [done, took] = await Promise.all([load(), backUp(`backup ${name}`, server, to)])
    report(`beside a backup ${name}`, done)
    // The figures are of the backup only as long as it ran.
    print(row('', `the backup ran for ${Math.min(100, (100 * took) / seconds).toFixed(0)} % of the load`))
  }
  report('before', await load())
  await during('into the bucket', `${prefix}-ingest`)
  await during('into a folder', join(folder, 'backup'))
  report('after', await load())
  await stopped(server)
}

function report(phase: string, { sent, requests, seconds, errors }: GeneratorDone): void {
  const rate = short((requests * BATCH_EVENTS) / seconds)
  print(
    row(
      `ack ${phase}`,
      `p50 ${sent.p50Ms.toFixed(1)} ms, p99 ${sent.p99Ms.toFixed(1)} ms, max ${sent.maxMs.toFixed(0)} ms; ${rate} events/s; ${errorsOf(errors)}`,
    ),
  )
}
