/** A data folder that is moved into a cluster, killed at each step and taken up again. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { KeeperClient } from '../../src/cluster/keeper/keeper-client.ts'
import { createJob, ended } from '../jobs/rewrite-jobs.ts'
import { weir } from '../tools/folder.ts'
import { blocksLeftOver, blocksOf, readPage, runPage } from '../util/run-page.ts'
import { send, spawnServer, startServer, temporaryFolder } from '../util/server.ts'
import {
  at,
  exportedRows,
  fillMovedFolder,
  HEADERS,
  type PoolName,
  rowsOfTables,
  tokenOf,
  typesOf,
} from './moved-folder.ts'
import { noCluster, startCluster, type TestCluster } from './nodes.ts'

vi.setConfig({ testTimeout: 1_200_000 })

/** Each run of the command passes the points before its own. */
const KILLS = [
  'move.begun',
  'move.catalog',
  'move.before-insert',
  'move.inserted',
  'move.pool',
  'move.inserted:2',
  'move.before-insert:2',
  'move.inserted',
  'move.inserted:2',
  'move.pool:2',
  'move.compared',
  'move.ended',
]

/** What ClickHouse does after some time: it does not know any more which blocks a table had. */
async function forgetBlocks({ zookeeper }: TestCluster, table: string): Promise<number> {
  return await new Promise<number>((resolve, reject) => {
    const keeper = new KeeperClient({
      servers: [{ host: '127.0.0.1', port: zookeeper.port }],
      sessionMs: 6_000,
      onWatched: () => {},
      onConnected: () =>
        forget()
          .finally(() => keeper.stop())
          .then(resolve, reject),
    })
    const forget = async () => {
      let forgotten = 0
      for (const shard of [1, 2]) {
        // The second one on ClickHouse of today.
        for (const known of ['blocks', 'deduplication_hashes']) {
          const path = `/weir/tables/${shard}/${table}/${known}`
          const names = await keeper.getChildren(path).catch(() => []) // there is no table yet
          for (const name of names) await keeper.write({ kind: 'delete', path: `${path}/${name}` })
          forgotten += names.length
        }
      }
      return forgotten
    }
  })
}

async function counterOf(base: string, token: string, poolId: string): Promise<string | undefined> {
  const query = `{ counter(input: {metric: {count: {dataPool: {id: "${poolId}"}}}}) { value } }`
  const answer = await fetch(`${base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
  })
  return ((await answer.json()) as { data?: { counter?: { value: string } } }).data?.counter?.value
}

describe.skipIf(noCluster !== undefined)(`weir move ${noCluster ?? ''}`, () => {
  test('takes every row and setting over, whenever it is killed', async () => {
    const cluster = await startCluster()
    const folder = await fillMovedFolder()
    const { dataDir, pools } = folder
    const move = (env = {}) => weir(['move', '--data-dir', dataDir], { ...cluster.settings, ...env })
    let forgotten = 0
    for (const [index, point] of KILLS.entries()) {
      const run = await move({ WEIR_CRASH_AT: point })
      expect([index, point, run.signal, run.output]).toEqual([index, point, 'SIGKILL', expect.anything()])
      if (point === 'move.ended') break
      forgotten += await forgetBlocks(cluster, pools.plain.poolId)
      if (point !== 'move.begun' && point !== 'move.compared') continue
      const node = spawnServer({ dataDir: temporaryFolder(), env: cluster.settings })
      const { code, output } = await node.ended
      expect([code, output]).toEqual([2, expect.stringContaining('run weir move again')])
    }
    expect(forgotten).toBeGreaterThan(0)
    const again = await move()
    expect([again.code, again.out]).toEqual([0, expect.stringContaining('nothing is left to do')])

    const shards = [cluster.servers.slice(0, 2), cluster.servers.slice(2)].filter(one => one.length > 0)
    for (const [name, { poolId }] of Object.entries(pools)) {
      const exported = await exportedRows(dataDir, name)
      const found = await rowsOfTables(shards, poolId, typesOf(name as PoolName))
      expect([name, found.length]).toEqual([name, exported.length])
      const other = found.findIndex((row, at) => row !== exported[at])
      expect([name, other, found[other]]).toEqual([name, -1, exported[other]])
    }

    const local = await startServer({ dataDir })
    const node = await cluster.node()
    const limited = await tokenOf(node, folder.limited.id, folder.limited.secret)
    for (const { poolId } of Object.values(pools)) {
      const count = await local.count(poolId)
      expect(await node.count(poolId)).toBe(count)
      expect(await counterOf(node.base, folder.token, poolId)).toBe(count)
      const seen = await counterOf(local.base, limited, poolId)
      expect(await counterOf(node.base, limited, poolId)).toBe(seen)
      if (poolId === pools.plain.poolId) expect(Number(seen)).toBeGreaterThan(10)
    }
    await local.stop()
    // The old URL takes the old secret, and what comes now wins over what was moved.
    const url = node.base + new URL(pools.keyed.url).pathname
    const event = { at: at(0), id: 'id 0', i64: 5 }
    expect((await send(url, [event])).status).toBe(401)
    const before = await node.count(pools.keyed.poolId)
    const body = JSON.stringify([event])
    expect((await fetch(url, { method: 'POST', headers: HEADERS, body })).status).toBe(200)
    expect(await node.count(pools.keyed.poolId)).toBe(before)
    const of = { filters: [{ column: 'id', operator: 'EQUALS', value: 'id 0' }] }
    expect(await node.sum(pools.keyed.poolId, 'i64', of)).toBe('5')
    expect((await fetch(url, { method: 'DELETE', headers: HEADERS, body })).status).toBe(200)
    expect(await node.count(pools.keyed.poolId)).toBe(String(Number(before) - 1))
  })
  test('refuses what cannot be moved before anything is done', async () => {
    const cluster = await startCluster({ shards: 1, replicas: 1 })
    const dataDir = join(temporaryFolder(), 'data')
    const move = (env = {}, folder = dataDir) =>
      weir(['move', '--data-dir', folder], { ...cluster.settings, ...env })
    const refused = async (why: string, env = {}, folder = dataDir) => {
      const { code, err } = await move(env, folder)
      expect([why, code, err]).toEqual([why, 2, expect.stringContaining(why)])
    }
    await refused('weir move needs the settings of a cluster: WEIR_KEEPER', {
      WEIR_STORE: 'local',
      WEIR_KEEPER: '',
      WEIR_SECRET_KEY: '',
    })
    await refused('is not a data folder')
    const server = await startServer({ dataDir })
    await refused('another process uses')
    const columns = ['id', 'v'].map(name => ({ name, type: 'INT64', jsonProperty: name, nullable: false }))
    const tableSettings = { engine: { replacingMergeTree: { ver: 'v' } } }
    const { sourceId } = await server.createPool({
      uniqueName: 'ranked',
      uniqueId: 'id',
      columns,
      tableSettings,
    })
    await server.stop()
    await refused('no Data Pools with a version column ("ver"): ranked')

    const again = await startServer({ dataDir })
    await again.graphql(`mutation { deleteDataSource(id: "${sourceId}") }`)
    const taken = [{ ...columns[0]!, name: '_version' }]
    const hidden = await again.createPool({ uniqueName: 'hidden', columns: taken })
    await again.stop()
    await refused('columns of these names themselves: hidden (_version)')
    const third = await startServer({ dataDir, args: ['--crash-at', 'job.started'] })
    await third.graphql(`mutation { deleteDataSource(id: "${hidden.sourceId}") }`)
    const pool = await third.createPool({ uniqueName: 'rows', columns })
    expect((await send(pool.url, [{ id: 1, v: 1 }])).status).toBe(200)
    const input = { dataPool: pool.poolId, filters: [{ column: 'id', operator: 'EQUALS', value: '1' }] }
    const job = await createJob(third, 'deletion', input)
    await third.ended
    await refused(`jobs that have not ended (${job.id})`)
    const last = await startServer({ dataDir })
    await ended(last, job)
    await last.stop()

    // A table that another move left, and a root that another cluster has.
    await cluster.servers[0]!.query(`CREATE TABLE ${pool.poolId} (n UInt8) ENGINE = Memory`)
    await refused(`has a table ${pool.poolId} already`)
    await cluster.servers[0]!.query(`DROP TABLE ${pool.poolId}`)
    const node = await cluster.node([], { WEIR_KEEPER_PATH: '/other' })
    await node.stop()
    await refused('Keeper has a catalog at /other', { WEIR_KEEPER_PATH: '/other' })

    expect((await move({ WEIR_CRASH_AT: 'move.pool' })).signal).toBe('SIGKILL')
    const changed = await startServer({ dataDir })
    expect((await send(pool.url.replace(/^http:..[^/]*/, changed.base), [{ id: 2, v: 2 }])).status).toBe(200)
    await changed.stop()
    await refused('this one has changed since its move began')
  })
  test('sends rows again that a server did not confirm, and they are there once', async () => {
    const { settings } = await startCluster({ shards: 1, replicas: 1 })
    const dataDir = join(temporaryFolder(), 'data')
    const source = await startServer({ dataDir })
    const { url } = await source.createPool({ uniqueName: 'plain', columns: [] })
    expect((await send(url, [{ n: 1 }, { n: 2 }])).status).toBe(200)
    await source.stop()
    let failures = 2
    const proxy = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const body = new Uint8Array(Buffer.concat(chunks))
      const answer = await fetch(`${settings['WEIR_CLICKHOUSE_URL']}${request.url}`, { method: 'POST', body })
      const bytes = Buffer.from(await answer.arrayBuffer())
      // The rows are stored, and the answer says otherwise.
      if (request.url!.includes('INSERT') && failures-- > 0)
        response.writeHead(500, { 'x-clickhouse-exception-code': '241' }).end('no memory')
      else response.writeHead(answer.status).end(bytes)
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void proxy.close())
    await once(proxy, 'listening')
    const at = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const run = await weir(['move', '--data-dir', dataDir], { ...settings, WEIR_CLICKHOUSE_URL: at })
    expect([run.code, run.err]).toEqual([0, expect.stringContaining('rows are sent again')])
    expect([failures < 0, run.out]).toEqual([true, expect.stringContaining('with 2 rows')])
  })

  test('the page says what its commands print', async () => {
    const { servers, settings } = await startCluster({ shards: 1, replicas: 1 })
    await servers[0]!.query('CREATE DATABASE trial')
    const server = await startServer()
    const page = readPage('docs/how-to/move-to-a-cluster.md')
    const paste = blocksOf(readPage('docs/how-to/README.md').split('\n## Paste once\n')[1]!).slice(0, 1)
    const real = page
      .replace(/(WEIR_CLICKHOUSE_URL=).*/, `$1${settings['WEIR_CLICKHOUSE_URL']}`)
      .replace(/(WEIR_KEEPER=).*/, `$1${settings['WEIR_KEEPER']}`)
    await runPage(server, real, paste)
    expect(blocksLeftOver(page)).toEqual([])
    await server.stop()
  })
})
