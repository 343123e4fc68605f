/**
 * A 200 means that a quorum has the event on disk: files of parts that a replica takes, fetches or
 * merges are synced before they count. strace tells.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { describe, expect, test, vi } from 'vitest'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import { atEnd } from './at-end.ts'
import { type Clickhouse, isModern } from './clickhouse-servers.ts'
import { noCluster, startCluster } from './nodes.ts'

vi.setConfig({ testTimeout: 120_000 })

const SCHEMA = { pool: 1, version: 1, columns: [], timestamp: -1, tenant: -1, key: null }
const ROW = "(_service_received_at, _service_payload, _version) VALUES (1, '{}', 1)"

const noStrace =
  spawnSync('strace', ['-V']).error === undefined
    ? undefined
    : 'skipped: it needs strace (apt-get install strace)'
const why = noCluster ?? (isModern ? noStrace : 'skipped: WEIR_TEST_CLICKHOUSE names no modern ClickHouse')

/** The files that a process syncs from now on; undefined where it may not be traced. */
async function syncsOf({ pid }: ChildProcess): Promise<string[] | undefined> {
  const tracer = spawn('strace', ['-f', '-y', '-e', 'trace=fsync,fdatasync', '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(tracer, 'exit')
  atEnd(async () => {
    tracer.kill('SIGINT')
    await ended
  })
  const synced: string[] = []
  const attached = new Promise<boolean>(resolve => {
    createInterface({ input: tracer.stderr! }).on('line', line => {
      if (/attached/.test(line)) resolve(true)
      const file = /f(?:data)?sync\(\d+<([^>]*)>/.exec(line)?.[1]
      if (file !== undefined) synced.push(file)
    })
    void ended.then(() => resolve(false))
  })
  return (await attached) ? synced : undefined
}

/** Makes the table on both, and a part in one INSERT. */
async function fill(servers: readonly Clickhouse[], table: string, isDurable: boolean): Promise<void> {
  for (const server of servers) await server.query(createTable(table, SCHEMA, '/tables', isDurable))
  await servers[0]!.query(`INSERT INTO ${table} ${ROW}`)
  await servers[1]!.query(`SYSTEM SYNC REPLICA ${table}`)
}

async function merge(server: Clickhouse, other: Clickhouse, table: string): Promise<void> {
  await server.query(`INSERT INTO ${table} ${ROW.replace(', 1)', ', 2)')}`)
  await server.query(`OPTIMIZE TABLE ${table} FINAL`)
  await other.query(`SYSTEM SYNC REPLICA ${table}`)
}

describe.skipIf(why !== undefined)(`parts ${why ?? ''}`, () => {
  test('that a replica fetches and merges are synced, unless the system is trusted with it', async context => {
    const { servers } = await startCluster({ shards: 1, replicas: 2 })
    const [one, two] = servers as [Clickhouse, Clickhouse]
    const synced = await syncsOf(two.child)
    if (synced === undefined) context.skip('strace may not trace here')
    const fetched = () => synced!.filter(file => file.includes('tmp-fetch_'))
    const merged = () => synced!.filter(file => file.includes('tmp_merge_'))
    // The other way first: what is synced without the settings.
    await fill([one, two], 'trusting', false)
    await merge(one, two, 'trusting')
    expect([fetched(), merged()]).toEqual([[], []])
    await fill([one, two], 'durable', true)
    await expect.poll(fetched).not.toEqual([])
    const files = new Set(fetched().map(file => file.replace(/^.*\//, '')))
    expect([...files]).toEqual(expect.arrayContaining([expect.stringMatching(/^data\.bin$|^_version\.bin$/)]))
    await merge(two, one, 'durable')
    await expect.poll(merged).not.toEqual([])
  })
})
