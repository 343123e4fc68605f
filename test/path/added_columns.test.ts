/**
 * Columns that are added to a pool with rows: they are null in older rows and have their values in
 * later ones, in every way that reads or rewrites a folder.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { tableFromIPC } from 'apache-arrow'
import { afterAll, expect, test } from 'vitest'
import { pathsOf } from '../../src/util/paths.ts'
import { addColumn } from '../jobs/add-column.ts'
import { cutOversOf } from '../jobs/cut-over-rounds.ts'
import { weir } from '../tools/folder.ts'
import { crossRead } from '../util/cross-read.ts'
import {
  fetchToken,
  removeLeftovers,
  send,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { rebuildFolder, verifyFolder } from '../util/verify.ts'
import { column, where } from './client.ts'
import { metric, NEVER, OFTEN, until } from './compaction.ts'

afterAll(removeLeftovers)

const AT = '2026-02-03'
const POOL = {
  uniqueName: 'added',
  columns: [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')],
  timestamp: 'at',
  uniqueId: 'id',
}

/** One column of each type, with the value that every event has, and how it is read back. */
const ADDED: readonly (readonly [type: string, value: unknown])[] = [
  ['STRING', 'text'],
  ['TIMESTAMP', '2026-03-04T05:06:07.123456Z'],
  ['DATE', '2026-03-04'],
  ['BOOLEAN', true],
  ['INT8', -8],
  ['INT16', -16],
  ['INT32', -32],
  ['INT64', -64],
  ['FLOAT', 1.5],
  ['DOUBLE', 2.5],
  ['JSON', { deep: [1, null] }],
]
const nameOf = (type: string) => `c_${type.toLowerCase()}`

let n = 0
/** Events that have the properties of all columns, whatever the pool has. */
const events = (count: number, prefix: string) =>
  Array.from({ length: count }, (_, i) => {
    n += 1
    const values = Object.fromEntries(ADDED.map(([type, value]) => [nameOf(type), value]))
    return { at: AT, id: `${prefix}${i}`, n, ...values }
  })

async function post(server: TestServer, pool: TestPool, body: unknown, method: 'POST' | 'DELETE' = 'POST') {
  const answer = await send(server.base + new URL(pool.url).pathname, body, method)
  expect([answer.status, JSON.stringify(answer.body).slice(0, 300)]).toEqual([200, expect.anything()])
}

/** Rows whose column has a value, by column, and all rows. */
async function counted(server: TestServer, pool: TestPool, columns: readonly string[]) {
  const counts: Record<string, number> = { rows: Number(await server.count(pool.poolId)) }
  for (const name of columns)
    counts[name] = Number(await server.count(pool.poolId, where(name, 'IS_NOT_NULL')))
  return counts
}

/** The Arrow stream of the pool: its rows, and how many have a value in each column. */
async function streamed(server: TestServer) {
  const token = await fetchToken(server.base, server.dataDir)
  const answer = await fetch(`${server.base}/v1/pools/added/arrow`, {
    headers: { authorization: `Bearer ${token}` },
  })
  expect(answer.status).toBe(200)
  const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
  const counts: Record<string, number> = { rows: table.numRows }
  for (const { name } of table.schema.fields.slice(5)) {
    const vector = table.getChild(name)
    counts[name] = table.numRows - (vector?.nullCount ?? 0)
  }
  return counts
}

test('columns of every type: queries, stream, kill, merges, rebuild, exports, backup and restore', async () => {
  let server = await startServer({ env: NEVER })
  const { dataDir } = server
  const pool = await server.createPool(POOL)
  const wanted: Record<string, number> = { rows: 0 }
  const names: string[] = []
  const check = async () => {
    expect(await counted(server, pool, names)).toEqual(wanted)
    expect(await streamed(server)).toEqual(wanted)
  }
  /** That many more events of all columns that events have. */
  const hasValues = (count: number) => {
    for (const name of names) if (name.startsWith('c_')) wanted[name]! += count
  }
  const add = async (count: number, prefix: string) => {
    await post(server, pool, events(count, prefix))
    wanted['rows']! += count
    hasValues(count)
  }
  await add(10, 'old')
  for (const [index, [type]] of ADDED.entries()) {
    // Some versions begin with rows of the one before in the memtable, others after a flush.
    if (index % 2 === 0) await check()
    await addColumn(server, pool.poolId, nameOf(type), type)
    names.push(nameOf(type))
    wanted[nameOf(type)] = 0
    if (index % 3 !== 2) await add(5, `${index}-`)
    if (index === 4) {
      // Three versions and more are in the log and in the memtable.
      await add(1, 'x')
      await addColumn(server, pool.poolId, 'extra_a', 'INT64')
      await post(server, pool, [{ at: AT, id: 'x0' }], 'DELETE')
      wanted['rows']! -= 1
      hasValues(-1)
      await addColumn(server, pool.poolId, 'extra_b', 'INT64')
      for (const name of ['extra_a', 'extra_b']) {
        names.push(name)
        wanted[name] = 0
      }
      await server.kill()
      server = await startServer({ dataDir, env: NEVER })
    }
  }
  await check()
  // A row that is posted again gets the values of all columns, one that is deleted goes.
  await post(server, pool, events(1, 'old'))
  hasValues(1)
  await post(server, pool, [{ at: AT, id: 'old1' }], 'DELETE')
  wanted['rows']! -= 1
  await check()
  const settings = await server.graphql<{ dataPool: Shown }>(SHOWN, { id: pool.poolId })
  expect(settings.data.dataPool.columns.nodes.slice(5).map(({ columnName }) => columnName)).toEqual(names)
  expect(settings.data.dataPool.dataSource.connectionSettings.columns.slice(3)).toEqual(
    names.map(name => ({
      name,
      jsonProperty: name,
      type: name.startsWith('c_') ? name.slice(2).toUpperCase() : 'INT64',
      nullable: true,
    })),
  )
  expect((await server.stop()).code).toBe(0)
  await verifyFolder(dataDir)
  const before = await valuesOf(dataDir, pool)

  // Merges of segments of several versions.
  server = await startServer({ dataDir, env: OFTEN })
  await until('one segment is left', async () => (await metric(server, 'weir_segments')) === 1)
  await check()
  expect((await server.stop()).code).toBe(0)
  await verifyFolder(dataDir)
  expect(await valuesOf(dataDir, pool)).toEqual(before)

  await exportsHold(dataDir, wanted)
  await rebuildFolder(dataDir)
  await verifyFolder(dataDir)
  expect(await valuesOf(dataDir, pool)).toEqual(before)
  server = await startServer({ dataDir, env: NEVER })
  await add(3, 'after')
  await addColumn(server, pool.poolId, 'last', 'STRING')
  names.push('last')
  wanted['last'] = 0
  await check()

  const backup = join(temporaryFolder(), 'backup')
  await backedUp(server, backup)
  expect((await server.stop()).code).toBe(0)
  const restored = join(temporaryFolder(), 'data')
  expect((await weir(['restore', backup, '--data-dir', restored])).code).toBe(0)
  rmSync(pathsOf(restored).index, { recursive: true, force: true })
  server = await startServer({ dataDir: restored, env: NEVER })
  await check()
  expect((await server.stop()).code).toBe(0)
  expect((await cutOversOf(restored, pool.poolId)).length).toBe(names.length)
})

interface Shown {
  readonly columns: { readonly nodes: readonly { readonly columnName: string }[] }
  readonly dataSource: { readonly connectionSettings: { readonly columns: readonly unknown[] } }
}
const SHOWN = `query ($id: ID!) { dataPool(id: $id) {
  columns { nodes { columnName } }
  dataSource { connectionSettings { ... on WebhookConnectionSettings {
    columns { name jsonProperty type nullable } } } } } }`

/** The visible rows of a stopped folder, without the columns that their segments lack. */
async function valuesOf(dataDir: string, pool: TestPool) {
  const rows = (await crossRead(dataDir)).get(pool.poolId) ?? []
  return rows
    .map(row =>
      JSON.stringify(
        Object.entries(row)
          .filter(([, value]) => value !== null)
          .sort(),
      ),
    )
    .sort()
}

/** Exports in every format have the rows and the columns. */
async function exportsHold(dataDir: string, wanted: Readonly<Record<string, number>>): Promise<void> {
  const out = join(temporaryFolder(), 'rows')
  for (const format of ['ndjson', 'csv', 'arrow', 'parquet']) {
    const done = await weir([
      'export',
      'added',
      '--format',
      format,
      '--out',
      `${out}.${format}`,
      '--data-dir',
      dataDir,
    ])
    expect([done.code, done.output]).toEqual([0, expect.anything()])
  }
  const { out: text } = await weir([
    'export',
    'added',
    '--format',
    'ndjson',
    '--out',
    '-',
    '--data-dir',
    dataDir,
  ])
  const rows = text
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, unknown>)
  for (const [name, count] of Object.entries(wanted))
    if (name !== 'rows')
      expect([name, rows.filter(row => (row[name] ?? null) !== null).length]).toEqual([name, count])
  expect(rows.length).toBe(wanted['rows'])
}

async function backedUp(server: TestServer, folder: string): Promise<void> {
  const token = await fetchToken(server.base, server.dataDir)
  const answer = await fetch(`${server.base}/v1/admin/backup`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ folder }),
  })
  const lines = (await answer.text()).trim().split('\n')
  expect(JSON.parse(lines.at(-1) ?? '{}')).toMatchObject({ done: true })
}
