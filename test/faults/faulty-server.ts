/** The real server on a disk that fails while a file exists, and what its client knows. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { CreatedJob } from '../jobs/rewrite-jobs.ts'
import { KEYED } from '../path/damage.ts'
import {
  fetchToken,
  send,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'

const ROOT = temporaryFolder()
/** Bytes of a request: four of them fill a log file. */
export const LARGE = 900_000
export const SMALL_LOG = ['--log-file-bytes', String(4 * 1024 * 1024)]

/** A server whose disk fails between `arm()` and `clear()`. */
export class FaultyServer {
  readonly folder = mkdtempSync(join(ROOT, 'fault-'))
  readonly dataDir = join(this.folder, 'data')
  readonly #trigger = join(this.folder, 'fails')
  readonly #spec: string
  readonly #env: Readonly<Record<string, string>>
  server!: TestServer
  pool!: TestPool
  /** Ids that were answered with 200. */
  readonly acked = new Set<string>()
  /** Refused ids: they may have been written. */
  readonly uncertain = new Set<string>()
  readonly deleted = new Set<string>()
  /** A job that waits for the disk. */
  waiting: CreatedJob | undefined

  /**
   * @param fault `OPERATION PATTERN NTH CODE` of --fault-at; several with `;`. Or `OPERATION
   *   PATTERN` of eio.cpp, which reaches LMDB and DuckDB.
   */
  constructor(fault: string) {
    const isNative = fault.split(' ').length === 2
    const spec = fault
      .split(';')
      .map(one => `${one} ${this.#trigger}`)
      .join(';')
    this.#spec = isNative ? '' : spec
    this.#env = isNative ? { LD_PRELOAD: builtEio(), WEIR_TEST_EIO: spec } : {}
  }

  get args(): string[] {
    return this.#spec === '' ? SMALL_LOG : [...SMALL_LOG, '--fault-at', this.#spec]
  }

  /** The options of a server whose disk may fail. */
  get options() {
    return { dataDir: this.dataDir, args: this.args, env: this.#env }
  }

  async start(): Promise<this> {
    this.server = await startServer(this.options)
    this.pool = await this.server.createPool(KEYED)
    await this.post(3)
    expect(await this.server.count(this.pool.poolId)).toBe('3')
    return this
  }

  /** Takes a copy of the folder of a server that was killed, and what its client knows. */
  takeFolder(from: FaultyServer): void {
    cpSync(from.dataDir, this.dataDir, { recursive: true })
    this.pool = from.pool
    for (const id of from.acked) this.acked.add(id)
    for (const id of from.deleted) this.deleted.add(id)
  }

  arm(): void {
    writeFileSync(this.#trigger, '')
  }

  clear(): void {
    rmSync(this.#trigger, { force: true })
  }

  async post(count: number, bytes = 100): Promise<number> {
    const from = this.acked.size + this.uncertain.size
    const ids = Array.from({ length: count }, (_, i) => `id ${from + i}`)
    const pad = 'x'.repeat(Math.floor(bytes / count))
    const { status, body } = await send(
      this.#url(),
      ids.map(id => ({ ts: '2026-01-01', id, n: 1, pad })),
    )
    for (const id of ids) (status === 200 ? this.acked : this.uncertain).add(id)
    if (status !== 200) this.lastCode = (body as { code: string }).code
    return status
  }

  lastCode = ''

  async delete(id: string): Promise<number> {
    const { status } = await send(this.#url(), [{ ts: '2026-01-01', id }], 'DELETE')
    if (status === 200) this.deleted.add(id)
    return status
  }

  /** Posts until one request is refused. */
  async postUntilRefused(max: number): Promise<void> {
    for (let i = 0; i < max; i++) if ((await this.post(2, LARGE)) !== 200) return
    throw new Error(`${max} requests were accepted`)
  }

  async readyz(): Promise<number> {
    const answer = await fetch(`${this.server.base}/readyz`)
    await answer.arrayBuffer()
    return answer.status
  }

  /** Counts the rows: all acknowledged ones, and at most the uncertain ones beside them. */
  async check(server = this.server): Promise<void> {
    const count = Number(await server.count(this.pool.poolId))
    const least = this.acked.size - this.deleted.size
    expect(count).toBeGreaterThanOrEqual(least)
    expect(count).toBeLessThanOrEqual(least + this.uncertain.size)
  }

  /** Every acknowledged row is there, and none that was deleted. */
  async checkIds(): Promise<void> {
    const { base, dataDir } = this.server
    const answer = await fetch(`${base}/v1/pools/${this.pool.poolId}/export?format=ndjson`, {
      headers: { authorization: `Bearer ${await fetchToken(base, dataDir)}` },
    })
    const lines = (await answer.text()).split('\n').filter(line => line !== '')
    const found = new Set(lines.map(line => (JSON.parse(line) as { id: string }).id))
    const missing = [...this.acked].filter(id => !found.has(id) && !this.deleted.has(id))
    const back = [...this.deleted].filter(id => found.has(id))
    expect([missing, back]).toEqual([[], []])
  }

  /** Kills the server, starts it without faults, compares the rows, and posts more. */
  async restart(): Promise<void> {
    await this.server.kill()
    await this.startWithoutFaults()
  }

  /** Starts a server without faults, compares the rows, and posts more. */
  async startWithoutFaults(): Promise<void> {
    this.clear()
    this.server = await startServer({ dataDir: this.dataDir, args: SMALL_LOG })
    await this.check()
    await this.checkIds()
    expect(await this.post(3)).toBe(200)
    expect(await this.readyz()).toBe(200)
    await this.check()
    expect((await this.server.stop()).code).toBe(0)
  }

  #url(): string {
    return `${this.server.base}${new URL(this.pool.url).pathname}`
  }
}

let eio: string | undefined

/** The library of eio.cpp, built once. */
function builtEio(): string {
  if (eio !== undefined) return eio
  const source = fileURLToPath(new URL('../../../test/faults/eio.cpp', import.meta.url))
  eio = join(ROOT, 'eio.so')
  const given = ['-O1', '-shared', '-fPIC', '-std=c++17', '-o', eio, source, '-ldl']
  execFileSync(process.env['CXX'] ?? 'c++', given, { stdio: 'pipe' })
  return eio
}
