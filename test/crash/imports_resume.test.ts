/**
 * A kill -9 of the server, or of the command, in the middle of an import: it goes on where the rows
 * are durable, and in the end every row is there once, as the model says.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { tableFromIPC } from 'apache-arrow'
import { afterAll, expect, test } from 'vitest'
import { DuckDBInstance } from '../../src/util/duckdb.ts'
import {
  fetchToken,
  removeLeftovers,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'

afterAll(removeLeftovers)
const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const folder = temporaryFolder()
const ROWS = 200_000
/** So that an import takes seconds on any machine. */
const SLOW = ['--rate-limit', '60000']
/** Every tenth row is an update of the row ten before it, so the order of the file matters. */
const keyOf = (row: number) => (row % 10 === 9 ? row - 9 : row)
const LINE = (row: number) =>
  `{"at":"2026-01-01T00:00:00Z","id":"k${keyOf(row)}","n":${row},"x":"${'x'.repeat(100)}"}\n`

function ndjson(): string {
  const path = join(folder, 'rows.ndjson')
  const lines: string[] = []
  for (let row = 0; row < ROWS; row += 1) lines.push(row % 1000 === 500 ? 'no json\n' : LINE(row))
  writeFileSync(path, lines.join(''))
  return path
}

async function parquet(given: string): Promise<string> {
  const path = join(folder, 'rows.parquet')
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  await connection.run(
    `COPY (SELECT * FROM read_json('${given}', format = 'newline_delimited', ignore_errors = true) WHERE id IS NOT NULL) TO '${path}' (FORMAT parquet)`,
  )
  return path
}

/** The value of n by key. */
function modelOf(): Map<string, number> {
  const rows = new Map<string, number>()
  for (let row = 0; row < ROWS; row += 1) if (row % 1000 !== 500) rows.set(`k${keyOf(row)}`, row)
  return rows
}

async function rowsOf(server: TestServer, pool: TestPool): Promise<Map<string, number>> {
  const answer = await fetch(`${server.base}/v1/pools/${pool.poolId}/arrow?columns=id,n`, {
    headers: { authorization: `Bearer ${await fetchToken(server.base, server.dataDir)}` },
  })
  const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
  const [ids, numbers] = [table.getChild('id'), table.getChild('n')]
  const rows = new Map<string, number>()
  for (let row = 0; row < table.numRows; row += 1)
    rows.set(ids?.get(row) as string, Number(numbers?.get(row)))
  expect(rows.size).toBe(table.numRows)
  return rows
}

/** @param property of the column n */
function createPool(server: TestServer, property = 'n'): Promise<TestPool> {
  const column = (name: string, type: string) => {
    const jsonProperty = name === 'n' ? property : name
    return { name, type, jsonProperty, nullable: name === 'n' }
  }
  const columns = [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')]
  return server.createPool({ columns, timestamp: 'at', uniqueId: 'id' })
}

function weirImport(server: TestServer, pool: TestPool, file: string, ...flags: string[]) {
  const args = ['import', pool.poolId, file, '--url', server.base, '--data-dir', server.dataDir, ...flags]
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', text => {
      said += text
    })
  return { child, ended: once(child, 'close').then(([code]) => ({ code: code as number | null, said })) }
}

interface Listed {
  readonly status: string
  readonly durableRows: number
  readonly error: string | null
}

async function importsOf(server: TestServer, pool: TestPool): Promise<readonly Listed[]> {
  const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
  const answer = await fetch(`${server.base}/v1/pools/${pool.poolId}/import`, { headers: { authorization } })
  return ((await answer.json()) as { imports: Listed[] }).imports
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise(resolve => setTimeout(resolve, 20))
}

test.each(['ndjson', 'parquet'])(
  '%s: the server is killed three times, and --resume ends the import',
  async format => {
    const lines = ndjson()
    const file = format === 'ndjson' ? lines : await parquet(lines)
    let server = await startServer({ args: SLOW })
    const pool = await createPool(server)
    let durable = 0
    for (let kill = 0; kill < 3; kill += 1) {
      const flags = kill === 0 ? [] : ['--resume']
      const running = weirImport(server, pool, file, ...flags)
      const wanted = durable + 1
      await until(async () => ((await importsOf(server, pool))[0]?.durableRows ?? 0) >= wanted)
      running.child.kill('SIGKILL')
      await Promise.all([server.kill(), running.ended])
      server = await startServer({ dataDir: server.dataDir, args: SLOW })
      const [left] = await importsOf(server, pool)
      expect(left?.status).toMatch(/^(FAILED|SUCCEEDED)$/)
      if (left?.status === 'FAILED') expect(left.error).toContain(`skipRows=${left.durableRows}`)
      expect(left?.durableRows).toBeGreaterThanOrEqual(wanted)
      durable = left?.durableRows ?? 0
      if (left?.status === 'SUCCEEDED') break
      // What the journal says is durable is there.
      const model = [...modelOf().entries()].filter(([, n]) => n < durable && n % 10 !== 0)
      const rows = await rowsOf(server, pool)
      expect(model.filter(([key]) => !rows.has(key))).toEqual([])
    }
    const last = await weirImport(server, pool, file, '--resume').ended
    expect([last.code, last.said]).toEqual([
      expect.any(Number),
      expect.stringMatching(/rows: |imported already/),
    ])
    expect(await rowsOf(server, pool)).toEqual(modelOf())
    expect(readdirSync(join(server.dataDir, 'tmp')).filter(name => name.startsWith('import-'))).toEqual([])
    expect((await server.stop()).code).toBe(0)
  },
)

test('the command waits for a server that was killed, and goes on by itself', async () => {
  // A port that uWebSockets.js got by --port 0 cannot be bound again while connections of the
  // killed server linger. One that was named can, and any of node:http.
  const args = ['--http', 'node', ...SLOW]
  let server = await startServer({ args })
  const pool = await createPool(server)
  const running = weirImport(server, pool, ndjson())
  await until(async () => ((await importsOf(server, pool))[0]?.durableRows ?? 0) > 0)
  const { port } = new URL(server.base)
  await server.kill()
  server = await startServer({ dataDir: server.dataDir, args: [...args, '--port', port] })
  const { code, said } = await running.ended
  expect([code, said]).toEqual([1, expect.stringContaining('it is tried again')])
  expect(said).toMatch(/200,000 rows: [\d,]+ stored, [\d,]+ refused/)
  expect(await rowsOf(server, pool)).toEqual(modelOf())
  expect((await server.stop()).code).toBe(0)
})

test('a client that is killed leaves a failed import, which --resume continues by the same names', async () => {
  const server = await startServer({ args: SLOW })
  const pool = await createPool(server, 'counted.n')
  const running = weirImport(server, pool, ndjson(), '--by', 'column')
  await until(async () => ((await importsOf(server, pool))[0]?.durableRows ?? 0) > 0)
  running.child.kill('SIGKILL')
  await running.ended
  const rows = join(folder, 'rows.ndjson')
  const other = await weirImport(server, pool, rows, '--resume', '--by', 'property').ended
  expect([other.code, other.said]).toEqual([
    2,
    expect.stringContaining('were imported with by=column: leave'),
  ])
  const { code, said } = await weirImport(server, pool, rows, '--resume').ended
  expect([code, said]).toEqual([1, expect.stringMatching(/resumes behind [\d,]+ rows/)])
  expect(await rowsOf(server, pool)).toEqual(modelOf())
  expect((await server.stop()).code).toBe(0)
})
