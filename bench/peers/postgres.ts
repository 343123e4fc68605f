/**
 * PostgreSQL as a peer: synced upserts by primary key (fsync, synchronous_commit,
 * full_page_writes), 500 events per request, one statement each, over a Unix socket.
 *
 * It is set up for speed: a table of key columns and a jsonb document (six more columns were as
 * fast, an array of documents and json slower), the C locale, large buffers, a minimal WAL that
 * rarely forces a checkpoint, a prepared statement, and a driver that costs next to nothing
 * (postgres-connection.ts).
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { accessSync, chownSync, constants, mkdirSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Target } from '../generator.ts'
import { benchFolder, removeFolder, tracked } from '../leftovers.ts'
import { sleep } from '../measure.ts'
import { PostgresConnection } from './postgres-connection.ts'

export interface Postgres {
  /** The first process; the others are below it. */
  readonly pid: number
  readonly target: Target
  /** A connection that runs this statement and drops its rows. */
  open(sql: string): Promise<PostgresConnection>
  /** Throws where PostgreSQL has fewer rows than it acknowledged. */
  checkRows(least: number): Promise<void>
  /** Ends PostgreSQL and removes its folder. */
  stop(): Promise<void>
}

const USER = 'weir'
const PORT = 5432 // only in the name of the socket
const START_TRIES = 300
const STOP_MS_MAX = 20_000
/** Debian does not put PostgreSQL's programs into the PATH. */
const DEBIAN = '/usr/lib/postgresql'
const TABLE = `CREATE TABLE events (time timestamptz, id text, event jsonb NOT NULL, PRIMARY KEY (time, id))`
const UPSERT = `INSERT INTO events SELECT (e->>'time')::timestamptz, e->>'id', e FROM jsonb_array_elements($1::jsonb) e
  ON CONFLICT (time, id) DO UPDATE SET event = excluded.event`
const SETTINGS = {
  listen_addresses: '',
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '1GB',
  wal_buffers: '64MB',
  max_wal_size: '8GB',
  checkpoint_timeout: '15min',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_connections: '100',
  jit: 'off',
}

/**
 * The folder of its programs; undefined where it is not installed (`apt-get install postgresql`).
 */
function programs(): string | undefined {
  const versions = () => {
    try {
      return readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a))
    } catch {
      return []
    }
  }
  const found = spawnSync('which', ['postgres'], { encoding: 'utf8' }).stdout.trim()
  const folders = [
    ...(found === '' ? [] : [dirname(found)]),
    ...versions().map(one => join(DEBIAN, one, 'bin')),
  ]
  return folders.find(folder => isProgram(join(folder, 'postgres')) && isProgram(join(folder, 'initdb')))
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/**
 * The account to run it as. It refuses root: then the user that its package makes, or nobody. Else
 * undefined, the caller's own.
 */
function account(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const idOf = (flag: string, user: string) =>
    spawnSync('id', [flag, user], { encoding: 'utf8' }).stdout.trim()
  const user = ['postgres', 'nobody'].find(one => idOf('-u', one) !== '') ?? 'nobody'
  return { uid: Number(idOf('-u', user)), gid: Number(idOf('-g', user)) }
}

/** True when it is installed. */
export function hasPostgres(): boolean {
  return programs() !== undefined
}

/** Starts one on a folder of its own and makes the table. Waits at most 30 s. */
export async function startPostgres(): Promise<Postgres> {
  const bin = programs()
  if (bin === undefined) throw new Error('PostgreSQL is not installed (apt-get install postgresql)')
  const folder = benchFolder('weir-postgres-')
  const owner = account()
  const data = join(folder, 'data')
  mkdirSync(data, { mode: 0o700 })
  if (owner !== undefined) for (const one of [folder, data]) chownSync(one, owner.uid, owner.gid)
  await run(
    join(bin, 'initdb'),
    ['-D', data, '-U', USER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'],
    owner,
  )
  const settings = Object.entries({ ...SETTINGS, unix_socket_directories: folder, port: String(PORT) })
  const args = ['-D', data, ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`])]
  const child = spawn(join(bin, 'postgres'), args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    cwd: folder,
    ...owner,
  })
  // SIGQUIT ends all its processes at once. After a SIGKILL they would run on for a while.
  tracked(child, { signal: 'SIGQUIT' })
  let said = ''
  child.stderr.on('data', data => {
    said = `${said}${data}`.slice(-4000)
  })
  const socket = join(folder, `.s.PGSQL.${PORT}`)
  await makeTable(socket, child, () => said)
  return {
    pid: child.pid as number,
    target: { kind: 'postgres', socket, user: USER, sql: UPSERT },
    open: sql => PostgresConnection.open(socket, USER, sql),
    checkRows: least => checkRows(socket, least),
    async stop() {
      await end(child)
      removeFolder(folder)
    },
  }
}

async function checkRows(socket: string, least: number): Promise<void> {
  // A division by zero fails where rows are missing, so the answer need not be read.
  const sql = `SELECT 1 / (count(*) >= ${least})::int FROM events`
  const connection = await PostgresConnection.open(socket, USER, sql)
  await connection.execute().catch(error => {
    throw new Error(`PostgreSQL has fewer rows than the ${least} that it acknowledged: ${error.message}`)
  })
  connection.close()
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise(resolve => child.once('exit', resolve))
  child.kill('SIGQUIT') // no checkpoint: the folder is removed next
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX)
  await ended
  clearTimeout(late)
}

async function makeTable(socket: string, child: ChildProcess, said: () => string): Promise<void> {
  let error = ''
  for (let tries = 0; tries < START_TRIES; tries += 1) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`PostgreSQL ended with ${child.exitCode ?? child.signalCode}:\n${said()}`)
    try {
      const connection = await PostgresConnection.open(socket, USER, TABLE)
      await connection.execute()
      return connection.close()
    } catch (caught) {
      error = (caught as Error).message
    }
    await sleep(100)
  }
  throw new Error(`PostgreSQL did not answer within 30 s: ${error}\n${said()}`)
}

function run(command: string, args: readonly string[], owner: ReturnType<typeof account>): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/', ...owner })
    tracked(child)
    let said = ''
    child.stdout.on('data', data => (said += String(data)))
    child.stderr.on('data', data => (said += String(data)))
    child.once('error', reject)
    child.once('close', code =>
      code === 0 ? resolve() : reject(new Error(`${command} ended with ${code}:\n${said}`)),
    )
  })
}
