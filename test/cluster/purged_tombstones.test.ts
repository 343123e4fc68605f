/** Tombstones go when nothing can need them, and never show an older row of their key again. */
import { afterEach, describe, expect, test, vi } from 'vitest'
import { isUnfinished } from '../../src/catalog/change/change-job.ts'
import { isRewrite } from '../../src/catalog/change/change-rewrite.ts'
import { TombstonePurge } from '../../src/cluster/clickhouse/purge-tombstones.ts'
import { readTopology, type Topology } from '../../src/cluster/clickhouse/topology.ts'
import type { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import { whyNoClickHouse } from './clickhouse.ts'
import { noClickhouse, startClickhouse } from './clickhouse-servers.ts'
import { JobTables } from './job-tables.ts'
import { oneServer } from './one-server.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const MINUTE_MS = 60_000
const now = performance.now.bind(performance)
let aheadMs = 0

afterEach(() => {
  vi.restoreAllMocks()
  aheadMs = 0
})

/** Looks once a minute for so long, as a clock goes that is ahead. */
async function looks(tables: JobTables, purge: TombstonePurge, minutes: number): Promise<string[]> {
  vi.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs)
  const lines: string[] = []
  for (let minute = 0; minute < minutes; minute += 1) {
    const pools = new Map([[tables.pool.id, tables.schema]])
    lines.push(...(await purge.look(pools, async () => tables.boundary(), isChanged(tables))))
    aheadMs += MINUTE_MS
  }
  return lines
}

const isChanged =
  ({ catalog }: JobTables) =>
  (id: string) =>
    catalog.read.jobs.of(id).some(job => isRewrite(job) && isUnfinished(job))

async function stored({ topology, pool }: JobTables, condition: string): Promise<number> {
  let count = 0
  for (const { http } of topology.shards.flat()) {
    const { body } = await http.run(`SELECT count() FROM ${pool.id} WHERE ${condition}`, {}, 1_000)
    count += Number(body.toString())
  }
  return count
}

function purges(start: () => Promise<{ topology: Topology; path: string | undefined }>) {
  test('what is old enough goes, in every replica, and what is newer stays', async () => {
    const { topology, path } = await start()
    const tables = await JobTables.make(topology, 'id', path)
    const ids = Array.from({ length: 60 }, (_, n) => `k${n}`)
    await tables.post(ids.map((id, n) => ({ id, n, word: 'w' })))
    await tables.delete(ids.slice(0, 40))
    await tables.post(ids.slice(0, 10).map((id, n) => ({ id, n: n + 100, word: 'again' })))
    const purge = new TombstonePurge(() => tables.topology)
    expect(await looks(tables, purge, 58)).toEqual([])
    const copies = topology.shards[0]!.length
    expect(await stored(tables, '_deleted = 1')).toBe(40 * copies)
    // Its boundary is newer.
    await tables.delete(ids.slice(40, 44))
    // The servers need real time for what they do, of which less than an hour passes.
    const lines: string[] = []
    await expect
      .poll(
        async () => {
          lines.push(...(await looks(tables, purge, 1)))
          await tables.check('while tombstones are purged')
          return lines.filter(line => line.startsWith('purges')).length
        },
        { timeout: 120_000, interval: 2_000 },
      )
      .toBe(topology.shards.length)
    await expect.poll(() => stored(tables, '_deleted = 1'), { timeout: 60_000 }).toBe(4 * copies)
    await tables.check('after the purge')
    await tables.post(ids.slice(20, 30).map((id, n) => ({ id, n, word: 'later' })))
    await tables.check('after later rows')
  })

  test('nothing goes while a server is away, or runs an INSERT of before', async () => {
    const { topology, path } = await start()
    const tables = await JobTables.make(topology, 'id', path)
    const ids = Array.from({ length: 20 }, (_, n) => `k${n}`)
    await tables.post(ids.map((id, n) => ({ id, n, word: 'w' })))
    await tables.delete(ids)
    const ran: string[] = []
    let isInserting = true
    const shards = topology.shards.map(replicas =>
      replicas.map(replica => {
        const run: ClickHouseHttp['run'] = async (body, ...rest) => {
          ran.push(String(body))
          const answer = await replica.http.run(body, ...rest)
          const isAsked = isInserting && String(body).includes('system.processes')
          return isAsked ? { ...answer, body: Buffer.from('{"data":[["1"]]}') } : answer
        }
        return { ...replica, http: Object.assign(Object.create(replica.http) as ClickHouseHttp, { run }) }
      }),
    )
    tables.topology = { ...topology, shards }
    const purge = new TombstonePurge(() => tables.topology)
    const changed = () => ran.filter(sql => /^(OPTIMIZE|ALTER)/.test(sql)).length
    await looks(tables, purge, 80)
    expect(changed()).toBe(0)
    isInserting = false
    tables.topology = { ...topology, shards, replicas: topology.replicas.map(count => count + 1) }
    await looks(tables, purge, 70)
    expect(changed()).toBe(0)
    tables.topology = { ...topology, shards }
    await looks(tables, purge, 9)
    expect(changed()).toBe(0)
    await looks(tables, purge, 70)
    expect(changed()).toBeGreaterThan(0)
  })

  test('a deletion that runs for more than an hour is not undone', async () => {
    const { topology, path } = await start()
    const tables = await JobTables.make(topology, 'id', path)
    const ids = Array.from({ length: 40 }, (_, n) => `k${n}`)
    await tables.post(ids.map((id, n) => ({ id, n, word: 'w' })))
    await tables.delete(ids.slice(0, 20))
    // Its version is below the boundary that the purge takes.
    const job = await tables.create({ kind: 'DELETE_RECORDS', filterSql: 'n >= 30' })
    const runs = async () => {
      if (tables.now(job).status === 'SUCCEEDED') return
      await tables.runToEnd(job)
      for (const id of ids.slice(30)) tables.model.delete(id)
    }
    const merge = async () => {
      for (const [first] of topology.shards)
        await first!.http.run(`OPTIMIZE TABLE ${tables.pool.id} FINAL`, {}, 1_000)
    }
    let purged = 0
    const shards = topology.shards.map(replicas =>
      replicas.map(replica => {
        const run: ClickHouseHttp['run'] = async (body, ...rest) => {
          // The job comes to its rows between the look at the parts and the statement.
          if (/^ALTER TABLE \S+ DELETE/.test(String(body))) {
            purged += 1
            await runs()
          }
          return await replica.http.run(body, ...rest)
        }
        return { ...replica, http: Object.assign(Object.create(replica.http) as ClickHouseHttp, { run }) }
      }),
    )
    const watched = { ...topology, shards }
    const purge = new TombstonePurge(() => watched)
    await merge()
    await looks(tables, purge, 70)
    const whileUnfinished = purged
    await runs()
    await tables.check('after the job')
    await merge()
    await looks(tables, purge, 70)
    await expect.poll(() => stored(tables, '_deleted = 1'), { timeout: 60_000 }).toBe(0)
    expect([whileUnfinished, purged]).toEqual([0, topology.shards.length])
    await tables.check('after the purge')
  })
}

describe.skipIf((noZookeeper ?? noClickhouse) !== undefined)(
  `two shards of two replicas ${noZookeeper ?? noClickhouse ?? ''}`,
  () => {
    purges(async () => {
      const zookeeper = await startZookeeper({ tickMs: 2_000 })
      const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 2, replicas: 2 })
      const addresses = servers.map(({ httpPort }) => ({ url: `http://127.0.0.1:${httpPort}` }))
      return { topology: await readTopology(addresses, 'weir'), path: '/tables' }
    })
  },
)

describe.skipIf(whyNoClickHouse() !== undefined)('26.9', () => {
  purges(async () => {
    const { topology } = await oneServer()
    return { topology, path: undefined }
  })
})
