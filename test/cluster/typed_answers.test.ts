/**
 * Every statement of a node fails in every way, and each answer of the node says so with a code:
 * never an internal error, never a short count, never a lost event that was acknowledged.
 */
import { describe, expect, test } from 'vitest'
import { send, type TestPool, type TestServer } from '../util/server.ts'
import { type Fault, type FaultyProxy, startFaultyProxy } from './faulty-proxy.ts'
import { noCluster, POOL, startCluster } from './nodes.ts'

const AT = '2026-01-01T00:00:00Z'

interface Statement {
  readonly what: string
  readonly is: RegExp
  /** The requests that need it. */
  readonly of: readonly string[]
}

const STATEMENTS: readonly Statement[] = [
  { what: 'insert', is: /^INSERT /, of: ['post'] },
  { what: 'sync', is: /^SYSTEM SYNC/, of: ['count', 'post'] },
  { what: 'question', is: /FORMAT RowBinaryWithNamesAndTypes$/, of: ['count'] },
  { what: 'create table', is: /^CREATE TABLE/, of: ['create'] },
  { what: 'alter table', is: /^ALTER TABLE/, of: [] },
  { what: 'sizes', is: /system\.(parts|disks|replicas|columns)/, of: ['pools', 'status'] },
  { what: 'topology', is: /version\(\)|system\.(macros|clusters)/, of: [] },
]

const FAULTS: Readonly<Record<string, Fault>> = {
  'has no room (243)': { code: 243 },
  'has too many parts (252)': { code: 252 },
  'is no ClickHouse (502)': { code: 0 },
  hangs: 'hangs',
  'is cut off': 'cut',
  'is something else': 'other',
}

/** A node before two replicas of one shard, each behind a proxy. */
async function startNode() {
  const cluster = await startCluster({ shards: 1, replicas: 2 })
  const urls = cluster.settings['WEIR_CLICKHOUSE_URL']!.split(',')
  const proxies = await Promise.all(urls.map(startFaultyProxy))
  const env = { WEIR_CLICKHOUSE_URL: proxies.map(({ url }) => url).join(',') }
  const node = await cluster.node([], env)
  return { cluster, proxies, node }
}

function failing(proxies: readonly FaultyProxy[], statement: RegExp, fault: Fault | undefined): void {
  for (const proxy of proxies) proxy.fault = sql => (statement.test(sql) ? fault : undefined)
}

/** Nothing of this concerns a client. */
const OF_SERVERS = /DB::|Code:|by a test|127\.0\.0\.1|ECONN|socket|<html>|\br[12]\b/

let posts = 0

/** The code of an answer to an event; undefined where it is acknowledged. */
async function post(url: string): Promise<string | undefined> {
  posts += 1
  const { status, body } = await send(url, [{ at: AT, id: `event ${posts}`, n: 1 }])
  if (status === 200) return undefined
  const { code, retryable, detail } = body as { code: string; retryable: boolean; detail: string }
  expect([status, retryable], code).toEqual([503, true])
  expect(detail).not.toMatch(OF_SERVERS)
  return code
}

/** The code of the first error; undefined where there is none. */
async function asked(node: TestServer, query: string, variables?: unknown): Promise<string | undefined> {
  const { errors } = await node.graphql(query, variables)
  for (const { message } of errors ?? []) expect(message).not.toMatch(OF_SERVERS)
  return errors?.[0]?.extensions?.code
}

const COUNT = `query ($input: CounterInput!) { counter(input: $input) { value } }`
const CREATE = `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource { id } } }`
const ADD = `mutation ($input: CreateAddColumnToDataPoolJobInput!) { createAddColumnToDataPoolJob(input: $input) { job { id } } }`

/** One request of each kind, all at once. @returns the codes of those that failed */
async function requestAll(node: TestServer, { poolId, url }: TestPool, name: string) {
  const { uniqueName: _, ...connectionSettings } = POOL
  const metrics = async () => ((await fetch(`${node.base}/metrics`)).status === 200 ? undefined : 'no page')
  const answers = {
    post: post(url),
    count: asked(node, COUNT, { input: { metric: { count: { dataPool: { id: poolId } } } } }),
    pools: asked(node, '{ dataPools(first: 5) { nodes { id recordCount } } }'),
    status: asked(node, '{ serverStatus { segments diskFreeBytes } }'),
    metrics: metrics(),
    create: asked(node, CREATE, { input: { uniqueName: name, connectionSettings } }),
    add: asked(node, ADD, {
      input: { dataPool: poolId, columnName: name, columnType: 'INT64', jsonProperty: name },
    }),
  }
  const entries = Object.entries(answers).map(async ([what, code]) => [what, await code] as const)
  return Object.fromEntries((await Promise.all(entries)).filter(([, code]) => code !== undefined))
}

describe.skipIf(noCluster !== undefined)(`a cluster that fails ${noCluster ?? ''}`, () => {
  test('each answer to a failed statement has a code, and the next one is as before', async () => {
    const { proxies, node } = await startNode()
    const pool = await node.createPool(POOL)
    let acknowledged = 0
    let tried = 0
    for (const { what, is, of } of STATEMENTS)
      for (const [name, fault] of Object.entries(FAULTS)) {
        const where = `${what} ${name}`
        failing(proxies, is, fault)
        const failed = await requestAll(node, pool, `pool_${tried++}`)
        expect(of, where).toEqual(expect.arrayContaining(Object.keys(failed)))
        for (const code of Object.values(failed))
          expect(code, where).toMatch(/^(UNAVAILABLE|cluster_insert)$/)
        if (!('post' in failed)) acknowledged += 1
        failing(proxies, is, undefined)
        expect(await post(pool.url), where).toBeUndefined()
        acknowledged += 1
        const counted = Number(await node.count(pool.poolId))
        expect(counted, where).toBeGreaterThanOrEqual(acknowledged)
        expect(counted, where).toBeLessThanOrEqual(posts)
      }
    expect(node.child.exitCode).toBeNull()
    expect(node.output()).not.toMatch(/internal|Error:/)
    for (const code of ['cluster_insert', 'cluster_not_synced', 'cluster_tables', 'cluster_sizes'])
      await expect.poll(() => node.output()).toMatch(new RegExp(`${code}: .*made by a test`))
    expect(posts - acknowledged).toBeGreaterThan(0)
  }, 900_000)

  test('a pool whose INSERT hangs or fails leaves the others alone, also in the same batch', async () => {
    const { proxies, node } = await startNode()
    const slow = await node.createPool({ ...POOL, uniqueName: 'slow' })
    const quick = await node.createPool({ ...POOL, uniqueName: 'quick' })
    for (const fault of ['hangs', { code: 243 }] as const) {
      failing(proxies, new RegExp(`^INSERT INTO .${slow.poolId}`), fault)
      let ended = 0
      const slowly = Array.from({ length: 100 }, async () => {
        const code = await post(slow.url)
        ended += 1
        return code
      })
      // They are in the batches of the slow pool's, and in later ones.
      for (let round = 0; round < 3; round += 1)
        expect(await Promise.all(Array.from({ length: 20 }, () => post(quick.url)))).toEqual(
          Array.from({ length: 20 }, () => undefined),
        )
      if (fault === 'hangs') expect(ended).toBe(0)
      expect(new Set(await Promise.all(slowly))).toEqual(new Set(['cluster_insert']))
    }
    expect(await node.count(quick.poolId)).toBe('120')
  })

  test('a replica that is full, or lacks a table, is passed over until it is back', async () => {
    const { cluster, proxies, node } = await startNode()
    const { poolId, url } = await node.createPool(POOL)
    failing(proxies.slice(0, 1), /^INSERT /, { code: 243 })
    for (let count = 0; count < 4; count += 1) expect(await post(url)).toBeUndefined()
    failing(proxies, /^INSERT /, undefined)

    await cluster.servers[0]!.query(`DROP TABLE "${poolId}"`)
    for (let count = 0; count < 4; count += 1) expect(await node.count(poolId)).toBe('4')
    // The node that leads makes the table again.
    await expect.poll(() => post(url), { timeout: 90_000 }).toBeUndefined()
    expect(Number(await node.count(poolId))).toBeGreaterThanOrEqual(5)
    expect(node.output()).not.toMatch(/internal|Error:/)
  })

  test('without Keeper every answer says so, and afterwards they are as before', async () => {
    const { cluster, node } = await startNode()
    const pool = await node.createPool(POOL)
    cluster.zookeeper.child.kill('SIGSTOP')
    const failed = await requestAll(node, pool, 'late')
    expect(failed).toMatchObject({ post: 'keeper_lost', count: 'UNAVAILABLE', create: 'UNAVAILABLE' })
    expect((await fetch(`${node.base}/readyz`)).status).toBe(503)
    cluster.zookeeper.child.kill('SIGCONT')
    await expect.poll(() => post(pool.url), { timeout: 60_000 }).toBeUndefined()
    expect(
      await asked(node, COUNT, { input: { metric: { count: { dataPool: { id: pool.poolId } } } } }),
    ).toBe(undefined)
    expect(node.output()).not.toMatch(/internal|Error:/)
  })
})
