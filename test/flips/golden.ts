/**
 * The folder in which bits are flipped: nine pools with segments of both kernels and of merges,
 * updated and deleted rows, delete files, and a log that a start replays. And the rows that the
 * pools have, at each step of a trial.
 */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, readdirSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  fetchToken,
  type PoolSpec,
  send,
  startServer,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
/** Merges come at once, or never. */
export const OFTEN = { WEIR_COMPACT_TICK_MS: '25', WEIR_LOG_FILE_BYTES: String(4 << 20) }
export const NEVER = { ...OFTEN, WEIR_COMPACT_TICK_MS: '3600000' }

const WRITERS = ['merged', 'native', 'js'] as const
const POOLS_EACH = 3
const WAIT_MS_MAX = 120_000
const POLL_MS = 20

const column = (name: string, type: string) => ({ name, jsonProperty: name, type, nullable: false })
const SPEC: PoolSpec = {
  columns: [
    column('at', 'TIMESTAMP'),
    column('id', 'STRING'),
    column('n', 'INT64'),
    column('note', 'STRING'),
  ],
  timestamp: 'at',
  uniqueId: 'id',
}

export interface GoldenPool {
  readonly name: string
  readonly poolId: string
  readonly path: string
}

export interface Golden {
  readonly dataDir: string
  readonly backup: string
  readonly pools: readonly GoldenPool[]
}

/** Texts that do not compress, so that a flipped bit in one of them decodes. */
const noteOf = (id: number, n: number) => createHash('sha256').update(`${id} ${n}`).digest('base64')

function events(from: number, to: number, n: number) {
  return Array.from({ length: to - from }, (_, i) => ({
    at: '2026-01-01',
    id: `e${from + i}`,
    n,
    note: noteOf(from + i, n),
  }))
}

const keysOf = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => ({ at: '2026-01-01', id: `e${from + i}` }))

/** Waits until `holds` is true. */
async function until(what: string, holds: () => Promise<boolean>, msMax = WAIT_MS_MAX): Promise<void> {
  const deadline = performance.now() + msMax
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`waited too long until ${what}`)
    await new Promise(resolve => setTimeout(resolve, POLL_MS))
  }
}

/** One value of /metrics without labels; 0 where it is missing. */
async function metric(server: TestServer, name: string): Promise<number> {
  const text = await (await fetch(`${server.base}/metrics`)).text()
  const line = text.split('\n').find(one => one.startsWith(`${name} `))
  return line === undefined ? 0 : Number(line.slice(name.length + 1))
}

/** Waits until no merge runs or waits, several times in a row. */
export async function untilMerged(server: TestServer, msMax?: number): Promise<void> {
  let still = 0
  await until(
    'merges rest',
    async () => {
      const busy =
        (await metric(server, 'weir_compaction_pools_waiting')) +
        (await metric(server, 'weir_compaction_running'))
      still = busy === 0 ? still + 1 : 0
      return still >= 5
    },
    msMax,
  )
}

/** Runs `weir` to its end. */
export function weir(args: readonly string[]): { readonly code: number; readonly output: string } {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
    encoding: 'utf8',
    timeout: WAIT_MS_MAX,
    killSignal: 'SIGKILL',
    maxBuffer: 64 << 20,
  })
  return { code: status ?? 1000, output: `${stdout}${stderr}${signal ?? ''}` }
}

async function accepted(url: string, body: unknown, method?: 'DELETE'): Promise<void> {
  const { status } = await send(url, body, method)
  if (status !== 200) throw new Error(`${method ?? 'POST'} was answered with ${status}`)
}

/** Makes the folder, stops it with unflushed rows in the log, and makes a backup of it. */
export async function makeGolden(): Promise<Golden> {
  const dataDir = join(temporaryFolder('weir-flips-'), 'data')
  const pools: GoldenPool[] = []
  for (const writer of WRITERS) {
    const env = { ...(writer === 'merged' ? OFTEN : NEVER), WEIR_KERNEL: writer === 'js' ? 'js' : 'native' }
    const own: GoldenPool[] = []
    // A server keeps recent flushes in memory and flushes them again: each round has a new one.
    for (let round = 0; round < 3; round++) {
      const server = await startServer({ dataDir, env })
      for (let at = 0; at < POOLS_EACH; at++) {
        if (round === 0) {
          const name = `${writer}${at}`
          const { poolId, url } = await server.createPool({ ...SPEC, uniqueName: name })
          own.push({ name, poolId, path: new URL(url).pathname })
        }
        const { poolId, path } = own[at]!
        const url = server.base + path
        if (round === 0) await accepted(url, events(0, 300, 1))
        if (round === 1) await accepted(url, events(240, 360, 2))
        if (round === 2) {
          await accepted(url, events(360, 400, 3))
          await accepted(url, keysOf(0, 30), 'DELETE')
        }
        await server.count(poolId)
      }
      if (writer === 'merged') await untilMerged(server)
      await server.stop()
    }
    pools.push(...own)
  }
  const backup = `${dataDir}-backup`
  const done = weir(['backup', backup, '--data-dir', dataDir])
  if (done.code !== 0) throw new Error(`the backup failed: ${done.output}`)
  const server = await startServer({ dataDir, env: NEVER })
  for (const { path } of pools) await accepted(server.base + path, events(400, 420, 4))
  await server.kill()
  return { dataDir, backup, pools }
}

export function copyFolder(from: string): string {
  const to = join(temporaryFolder('weir-flip-'), 'data')
  cpSync(from, to, { recursive: true })
  return to
}

/** Paths of all files, relative to the folder, with their bytes. */
export function filesIn(folder: string): { readonly path: string; readonly bytes: number }[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => {
      const path = join(entry.parentPath, entry.name)
      return { path: relative(folder, path), bytes: statSync(path).size }
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** The rows of a pool by id, or an error. */
export type Answer = { readonly rows: ReadonlyMap<string, string> } | { readonly error: string }

/** Exports a pool. The received time is left out where it differs from run to run. */
export async function exportPool(
  server: TestServer,
  { poolId }: GoldenPool,
  hasReceived: boolean,
): Promise<Answer> {
  const token = await fetchToken(server.base, server.dataDir)
  const answer = await fetch(`${server.base}/v1/pools/${poolId}/export?format=ndjson`, {
    headers: { authorization: `Bearer ${token}` },
  })
  if (answer.status !== 200) return { error: await answer.text() }
  const rows = new Map<string, string>()
  for (const line of (await answer.text()).split('\n').filter(one => one !== '')) {
    const { _service_received_at: received, ...row } = tryParse(line)
    // Two rows of one key are a wrong answer.
    const text = JSON.stringify(hasReceived ? { ...row, received } : row)
    rows.set(row.id, rows.has(row.id) ? `${rows.get(row.id)} and ${text}` : text)
  }
  return { rows }
}

/** A line; one that is no JSON is a wrong row of its own. */
function tryParse(line: string): { readonly id: string } & Record<string, unknown> {
  try {
    return JSON.parse(line) as never
  } catch {
    return { id: line }
  }
}

/** What an operator sees of the catalog. */
export async function catalogOf(server: TestServer): Promise<string> {
  const { data, errors } = await server.graphql(
    `{ dataPools(first: 50) { nodes { id uniqueName status timestamp { columnName }
       columns(first: 50) { nodes { columnName type isNullable } } } } }`,
  )
  return JSON.stringify(errors ?? data)
}

/** A job that raises `n` in every row. Returns its error, or null. */
export async function runJob(server: TestServer, { poolId }: GoldenPool): Promise<string | null> {
  const created = await server.graphql<{ createUpdateDataPoolRecordsJob: { job: { id: string } } }>(
    `mutation ($input: CreateUpdateDataPoolRecordsJobInput!) {
       createUpdateDataPoolRecordsJob(input: $input) { job { id } } }`,
    { input: { dataPool: poolId, filterSql: 'n >= 0', set: [{ column: 'n', expression: 'n + 1000' }] } },
  )
  if (created.errors !== undefined) return created.errors[0]?.message ?? 'refused'
  const { id } = created.data.createUpdateDataPoolRecordsJob.job
  let state: { status: string; error: { message: string } | null } = { status: '', error: null }
  await until('the job ends', async () => {
    const { data } = await server.graphql<{ job: typeof state }>(
      'query ($id: ID!) { job: updateDataPoolRecordsJob(id: $id) { status error { message } } }',
      { id },
    )
    state = data.job
    return state.status === 'SUCCEEDED' || state.status === 'FAILED'
  })
  return state.error?.message ?? null
}

/** Updates 50 rows of a pool and deletes 20 others. Returns an error, or null. */
export async function changeRows(server: TestServer, { path }: GoldenPool): Promise<string | null> {
  const sent = [
    await send(server.base + path, events(100, 150, 5)),
    await send(server.base + path, keysOf(220, 250), 'DELETE'),
  ]
  return sent.some(({ status }) => status !== 200) ? JSON.stringify(sent.map(({ body }) => body)) : null
}
