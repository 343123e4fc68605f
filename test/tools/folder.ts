/** A stopped folder that a real server filled, copies of it, and commands that run on them. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  closeSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, vi } from 'vitest'
import { COMMANDS } from '../../src/app/commands.ts'
import { exitCodeOf, readCommandLine } from '../../src/database/command.ts'
import type { KeyTxn } from '../../src/index/index-store.ts'
import { openLmdbStore } from '../../src/index/index-store-lmdb.ts'
import { INDEX_MAP_BYTES } from '../../src/index/open-index.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { errorText, warn } from '../../src/util/say.ts'
import { events, KEYED } from '../path/damage.ts'
import { send, startServer, type TestServer, temporaryFolder } from '../util/server.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))

/** Rows of the keyed pool, and the sum of its column n. */
export const ROWS = 3900
export const SUM = 3900 + 500

/** Runs `weir` to its end. `output` is everything printed, in its order. */
export function weir(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return new Promise<{
    readonly code: number | null
    readonly signal: NodeJS.Signals | null
    readonly out: string
    readonly err: string
    readonly output: string
  }>(resolve => {
    const child = spawn(process.execPath, [MAIN, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 240_000,
      killSignal: 'SIGKILL',
    })
    let [out, err, output] = ['', '', '']
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text
      output += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text
      output += text
    })
    child.once('close', (code, signal) => resolve({ code, signal, out, err, output }))
  })
}

/**
 * What `weir` says and its exit code, by the code of the command inside this process: the start of
 * a process takes most of a second. Run one at a time. Faults, kills, pipes and the server need the
 * process.
 */
export async function weirInside(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const printed = { out: '', err: '', output: '' }
  const spies = (
    [
      ['out', process.stdout],
      ['err', process.stderr],
    ] as const
  ).map(([name, stream]) =>
    vi.spyOn(stream, 'write').mockImplementation((bytes, ...more: unknown[]) => {
      const text = typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString()
      printed[name] += text
      printed.output += text
      const written = more.at(-1)
      if (typeof written === 'function') written()
      return true
    }),
  )
  const umask = process.umask(0o077)
  let code: number
  try {
    const { named, input } = readCommandLine(args, COMMANDS, { ...process.env, ...env })
    if (named === undefined || named === COMMANDS[0]) throw new Error('the server needs a process')
    code = await named.run(input).finally(() => unlock(input.config.dataDir))
  } catch (thrown) {
    const error = thrown as Error
    warn(errorText(error))
    code = exitCodeOf(error)
  } finally {
    process.umask(umask)
    for (const spy of spies) spy.mockRestore()
  }
  return { code, ...printed }
}

/** Drops this process's lock of a data folder, which a command holds until its process ends. */
function unlock(dataDir: string): void {
  const { lock } = pathsOf(dataDir)
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      if (readlinkSync(`/proc/self/fd/${name}`) === lock) closeSync(Number(name))
    } catch {} // it was the descriptor of the list
  }
}

export interface Filled {
  readonly dataDir: string
  /** With a key: 4,000 rows, then 500 of them updated, then 100 deleted. */
  readonly poolId: string
  readonly path: string
  /** Without a unique id: 7 rows. */
  readonly plainId: string
}

/** Fills a folder over HTTP with a kill in between, and stops the server cleanly. */
export async function fillFolder(): Promise<Filled> {
  let server = await startServer()
  const { dataDir } = server
  const pool = await server.createPool(KEYED)
  const plain = await server.createPool({ uniqueName: 'plain' })
  const path = new URL(pool.url).pathname
  const post = async (body: unknown, method: 'POST' | 'DELETE' = 'POST') =>
    expect((await send(`${server.base}${path}`, body, method)).status).toBe(200)
  for (let from = 0; from < 4000; from += 500) await post(events(from, from + 500))
  expect(await server.count(pool.poolId)).toBe('4000')
  expect((await send(plain.url, events(0, 7))).status).toBe(200)
  await server.kill()
  server = await startServer({ dataDir })
  await post(events(0, 500, 2))
  await post(events(2000, 2100), 'DELETE')
  await holds(server, pool.poolId)
  expect((await server.stop()).code).toBe(0)
  return { dataDir, poolId: pool.poolId, path, plainId: plain.poolId }
}

/** Expects the keyed pool to be as it was filled. */
export async function holds(server: TestServer, poolId: string): Promise<void> {
  expect([await server.count(poolId), await server.sum(poolId, 'n')]).toEqual([String(ROWS), String(SUM)])
}

/** A copy to be damaged. */
export function copyOf(filled: Filled): string {
  const dataDir = join(temporaryFolder(), 'data')
  cpSync(filled.dataDir, dataDir, { recursive: true })
  return dataDir
}

/** Checksum of every file except LMDB's reader table. */
export function contents(dataDir: string): Map<string, string> {
  const files = new Map<string, string>()
  for (const name of readdirSync(dataDir, { recursive: true }) as string[]) {
    const file = join(dataDir, name)
    if (!statSync(file).isFile() || name.endsWith('lock.mdb')) continue
    files.set(name, createHash('sha256').update(readFileSync(file)).digest('hex'))
  }
  return files
}

/**
 * Replaces a file by a folder. Its reads fail as those of a broken sector do, but with EISDIR
 * instead of EIO.
 */
export function cannotBeRead(file: string): void {
  rmSync(file)
  mkdirSync(file)
}

/** Changes the index of a stopped folder. */
export function changeIndex(dataDir: string, change: (txn: KeyTxn) => void): void {
  const store = openLmdbStore({ folder: join(dataDir, 'index'), mapBytes: INDEX_MAP_BYTES })
  store.transact(change)
  store.close()
}
