/** Tables of pools on every server, while servers die, come back, and have tables of others. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { checkNoRows, PoolTables } from '../../src/cluster/clickhouse/pool-tables.ts'
import { takenNames } from '../../src/cluster/clickhouse/table.ts'
import { readTopology, watchTopology } from '../../src/cluster/clickhouse/topology.ts'
import type { ColumnType, PoolSchema } from '../../src/format/schema.ts'
import { ClickHouseError, type ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import { schemaOf } from '../query/pool.ts'
import { recordLog } from '../util/log-lines.ts'
import { whyNoClickHouse } from './clickhouse.ts'
import { type Clickhouse, noClickhouse, startClickhouse } from './clickhouse-servers.ts'
import { oneServer } from './one-server.ts'
import { standStill } from './stoppable-proxy.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const PATH = '/weir/tables'
const MINUTES_MS = 120_000

afterEach(() => {
  vi.restoreAllMocks()
})

const now = performance.now.bind(performance)

/** Makes the clock be so far ahead. */
function passMs(ms: number): void {
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms)
}

function schemaWith(...more: [string, ColumnType][]): PoolSchema {
  const schema = schemaOf([['n', 'INT64'], ['word', 'STRING'], ...more])
  const columns = schema.columns.map((column, index) => ({ ...column, required: index === 0 }))
  return { ...schema, columns, key: { columns: [0], version: -1 } }
}

const tablesOf = async (server: Pick<Clickhouse, 'query'>) =>
  (
    await server.query(
      'SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name FORMAT TabSeparated',
    )
  )
    .split('\n')
    .filter(name => name !== '')
const columnsOf = async (server: Pick<Clickhouse, 'query'>, table: string) =>
  (
    await server.query(
      `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '${table}' FORMAT TabSeparated`,
    )
  )
    .trim()
    .split('\n')
const OWN = ['_service_received_at', '_service_payload']

async function clusterOf() {
  const zookeeper = await startZookeeper({ tickMs: 2_000 })
  const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 2, replicas: 2 })
  const watch = await watchTopology(
    servers.map(({ httpPort }) => ({ url: `http://127.0.0.1:${httpPort}` })),
    'weir',
  )
  onTestFinished(() => watch.stop())
  return { servers, watch, tables: new PoolTables(() => watch.topology, PATH) }
}

describe.skipIf((noZookeeper ?? noClickhouse) !== undefined)(
  `tables of two shards of two replicas ${noZookeeper ?? noClickhouse ?? ''}`,
  () => {
    test('many pools are made at once, on every server, by two nodes', async () => {
      const { servers, watch, tables } = await clusterOf()
      const names = Array.from({ length: 20 }, (_, index) => `DPO${100 + index}`)
      const other = new PoolTables(() => watch.topology, PATH)
      await Promise.all(
        names.flatMap(name => [tables.ensure(name, schemaWith()), other.ensure(name, schemaWith())]),
      )
      for (const server of servers) expect(await tablesOf(server)).toEqual(names)
      expect(await tables.sweep(new Map(names.map(name => [name, schemaWith()])))).toEqual([])
    })

    test('a server that returns gets what it missed, and loses what was dropped', async () => {
      // The test says when the servers are asked: a kill in the middle of a look reads otherwise.
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
      onTestFinished(() => void vi.useRealTimers())
      const lines = recordLog()
      const { servers, watch, tables } = await clusterOf()
      const counts = () => watch.topology.shards.map(({ length }) => length)
      await tables.ensure('DPO1', schemaWith())
      await servers[1]!.kill()
      await watch.look()
      expect(counts()).toEqual([1, 2])
      // The server that is away may have it.
      expect(await tables.absent(['DPO4'])).toEqual([])
      await tables.ensure('DPO2', schemaWith(['more', 'DATE']))
      await servers[0]!.kill()
      await watch.look()
      // A shard without a server is as it was: its rows are nowhere else.
      expect(counts()).toEqual([1, 2])
      await watch.look()
      const [first, second] = servers.map(({ httpPort }) => `the replica at 127.0.0.1:${httpPort}`)
      const refused = 'cannot be asked: ClickHouse did not answer'
      const said = [
        `${second} ${refused}`,
        `${first} ${refused}`,
        'the servers of the cluster stay as they were: the cluster weir has 2 shards, and the servers',
      ]
      // What a server said to a statement is told at most once a second.
      const messages = () =>
        lines.map(({ message }) => message).filter(line => line?.startsWith('cluster_') !== true)
      expect(messages()).toEqual(said.map(text => expect.stringContaining(text)))
      await expect(tables.ensure('DPO3', schemaWith())).rejects.toMatchObject({
        name: 'Unavailable',
        code: 'cluster_tables',
      })
      await Promise.all([servers[0]!.restart(), servers[1]!.restart()])
      await watch.look()
      expect(counts()).toEqual([2, 2])
      expect(messages().slice(said.length)).toEqual([first, second].map(name => `${name} answers again`))
      const pools = new Map([['DPO2', schemaWith(['more', 'DATE'])]])
      const swept = () =>
        expect.poll(
          async () => (await tables.sweep(pools)).filter(line => !line.includes('tried again')).length,
        )
      await swept().toBe(1)
      expect(await tablesOf(servers[1]!)).toEqual(['DPO1', 'DPO2'])
      expect(await columnsOf(servers[1]!, 'DPO2')).toEqual([
        ...OWN,
        'n',
        'word',
        'more',
        '_version',
        '_deleted',
      ])
      passMs(MINUTES_MS)
      // DPO3 is there where its shard had answered.
      expect((await tables.sweep(pools)).length).toBe(6)
      for (const server of servers) expect(await tablesOf(server)).toEqual(['DPO2'])
    })

    test('a server that stands still is left out, in time', async () => {
      const { servers, watch, tables } = await clusterOf()
      await standStill(servers[3]!.child)
      await watch.look()
      expect(watch.topology.shards.map(({ length }) => length)).toEqual([2, 1])
      await tables.ensure('DPO1', schemaWith())
      servers[3]!.child.kill('SIGCONT')
      await watch.look()
      await expect.poll(() => tables.sweep(new Map([['DPO1', schemaWith()]]))).toEqual([])
      expect(await tablesOf(servers[3]!)).toEqual(['DPO1'])
    })

    test('columns come into the same place everywhere', async () => {
      const { servers, tables } = await clusterOf()
      await tables.ensure('DPO1', schemaWith())
      const pools = new Map([['DPO1', schemaWith(['a', 'INT8'], ['b', 'TIMESTAMP'])]])
      // Two replicas have the same change: one of them makes it.
      await expect.poll(() => tables.sweep(pools)).toEqual([])
      for (const server of servers)
        expect(await columnsOf(server, 'DPO1')).toEqual([
          ...OWN,
          'n',
          'word',
          'a',
          'b',
          '_version',
          '_deleted',
        ])
    })

    test('a column that ClickHouse refuses, or that a table has with another type, is told at once', async () => {
      const { servers, watch, tables } = await clusterOf()
      await tables.ensure('DPO1', schemaWith())
      const shards = watch.topology.shards.map(replicas =>
        replicas.map(replica => {
          const run: ClickHouseHttp['run'] = async (body, ...rest) => {
            if (String(body).startsWith('ALTER')) throw new ClickHouseError(497, 'Not enough privileges')
            return await replica.http.run(body, ...rest)
          }
          return { ...replica, http: Object.assign(Object.create(replica.http) as ClickHouseHttp, { run }) }
        }),
      )
      const limited = new PoolTables(() => ({ ...watch.topology, shards }), PATH)
      const refused = (why: string) => ({ code: 'cluster_refused', message: expect.stringContaining(why) })
      await expect(limited.addColumns('DPO1', schemaWith(['a', 'INT8']))).rejects.toMatchObject(
        refused('a server refuses it'),
      )
      // As a job left it that was cancelled meanwhile.
      await tables.addColumns('DPO1', schemaWith(['a', 'INT8']))
      await expect(tables.addColumns('DPO1', schemaWith(['a', 'STRING']))).rejects.toMatchObject(
        refused('has a column a of type Nullable(Int8), not Nullable(String)'),
      )
      // The others go on where one of them is refused a look.
      const [[first, ...more] = [], ...others] = watch.topology.shards
      const run: ClickHouseHttp['run'] = async () => {
        throw new ClickHouseError(497, 'Not enough privileges')
      }
      const blind = { ...first!, http: Object.assign(Object.create(first!.http) as ClickHouseHttp, { run }) }
      const partly = new PoolTables(
        () => ({ ...watch.topology, shards: [[blind, ...more], ...others] }),
        PATH,
      )
      await partly.addColumns('DPO1', schemaWith(['a', 'INT8'], ['b', 'DATE']))
      for (const server of servers)
        await expect
          .poll(() => columnsOf(server, 'DPO1'))
          .toEqual([...OWN, 'n', 'word', 'a', 'b', '_version', '_deleted'])
    })

    test('a column is added while a replica is down, which gets it when it returns', async () => {
      const { servers, tables } = await clusterOf()
      await tables.ensure('DPO1', schemaWith())
      await servers[1]!.kill()
      const more = schemaWith(['a', 'INT8'])
      // Two nodes may run the job, one after the other's end or beside it.
      await Promise.all([tables.addColumns('DPO1', more), tables.addColumns('DPO1', more)])
      await servers[1]!.restart()
      for (const server of servers)
        await expect
          .poll(() => columnsOf(server, 'DPO1'))
          .toEqual([...OWN, 'n', 'word', 'a', '_version', '_deleted'])
      expect(await tables.sweep(new Map([['DPO1', more]]))).toEqual([])
      for (const server of servers.slice(2)) await server.kill()
      passMs(0)
      const refused = tables.addColumns('DPO1', schemaWith(['a', 'INT8'], ['b', 'DATE']))
      passMs(MINUTES_MS)
      await expect(refused).rejects.toMatchObject({ name: 'Unavailable', code: 'cluster_tables' })
    })

    test('no table of others is dropped, and none before two minutes', async () => {
      const { servers, tables } = await clusterOf()
      const [server] = servers
      const others = {
        DPO7: "ReplicatedMergeTree('/other/tables/{shard}/DPO7', '{replica}')",
        DPO8: 'MergeTree',
        events: `ReplicatedMergeTree('${PATH}/{shard}/events', '{replica}')`,
      }
      for (const [name, engine] of Object.entries(others))
        await server!.query(`CREATE TABLE ${name} (n Int64) ENGINE = ${engine} ORDER BY n`)
      for (const name of ['DPO1', 'DPO2', 'DPO3']) await tables.ensure(name, schemaWith())
      const pools = (...names: string[]) => new Map(names.map(name => [name, schemaWith()]))
      expect(await tables.sweep(pools('DPO1'))).toEqual([])
      passMs(MINUTES_MS / 2)
      expect(await tables.sweep(pools('DPO1', 'DPO2'))).toEqual([])
      passMs(MINUTES_MS)
      // The pools are those of before a process stood still.
      expect(await tables.sweep(pools('DPO1'), () => false)).toEqual([])
      // DPO2 had its pool at a look between.
      expect((await tables.sweep(pools('DPO1'))).length).toBe(4)
      expect(await tablesOf(server!)).toEqual(['DPO1', 'DPO2', 'DPO7', 'DPO8', 'events'])
    })

    test('rows of a pool that the catalog never had stay, on replicas that lack them too', async () => {
      const { servers, watch, tables } = await clusterOf()
      await checkNoRows(watch.topology, '/weir')
      for (const name of ['DPO1', 'DPO2', 'DPO3']) await tables.ensure(name, schemaWith())
      // A catalog may be new where its tables have no rows.
      await checkNoRows(watch.topology, '/weir')
      expect(await tables.absent(['DPO1', 'DPO4'])).toEqual(['DPO4'])
      await servers[1]!.query('SYSTEM STOP FETCHES')
      for (const name of ['DPO1', 'DPO2'])
        await servers[0]!.query(`INSERT INTO ${name} (n, _version) VALUES (1, 1)`)
      const sweep = () =>
        tables.sweep(
          new Map(),
          () => true,
          table => table === 'DPO2',
        )
      expect(await sweep()).toEqual([])
      passMs(MINUTES_MS)
      const lines = await sweep()
      expect(lines.filter(line => line.includes('keeps the table DPO1'))).toHaveLength(1)
      expect(lines.filter(line => line.includes('tried again: dropped the table DPO1'))).toHaveLength(1)
      // The other shard has none of the rows.
      const left = await Promise.all(servers.map(tablesOf))
      expect(left).toEqual([['DPO1'], ['DPO1'], [], []])
      expect(await tables.absent(['DPO1', 'DPO2'])).toEqual(['DPO2'])
      await servers[1]!.query('SYSTEM START FETCHES')
      expect(await sweep()).toEqual([expect.stringContaining('keeps the table DPO1: it has rows')])
      expect(await sweep()).toEqual([])
      for (const server of servers.slice(0, 2))
        expect((await server.query('SELECT count() FROM DPO1')).trim()).toBe('1')
      await expect(checkNoRows(watch.topology, '/weir')).rejects.toMatchObject({
        name: 'CannotRun',
        message: expect.stringContaining('Keeper has no catalog at /weir'),
      })
      await checkNoRows(watch.topology, '/wei')
    })
  },
)

describe.skipIf(whyNoClickHouse() !== undefined)('tables of 26.9', () => {
  test('no column of a pool has the name of one that ClickHouse gives', async () => {
    const { server, topology } = await oneServer()
    await new PoolTables(() => topology, undefined).ensure('DPO1', schemaWith())
    const all = await server.query(
      'DESCRIBE TABLE DPO1 FORMAT TabSeparated SETTINGS describe_include_virtual_columns = 1',
    )
    const names = all
      .split('\n')
      .map(line => line.split('\t')[0]!)
      .filter(name => name !== '' && !OWN.includes(name))
    expect(names).toContain('_part')
    expect(takenNames(names)).toEqual(names.filter(name => name !== 'n' && name !== 'word'))
  })

  test('are made, get columns and are dropped', async () => {
    const { server, topology } = await oneServer()
    const tables = new PoolTables(() => topology, undefined)
    await server.query('CREATE TABLE events (n Int64) ENGINE = MergeTree ORDER BY n')
    await tables.ensure('DPO1', schemaWith())
    expect((await tables.sweep(new Map([['DPO2', schemaWith()]]))).length).toBe(1)
    passMs(MINUTES_MS)
    const more = schemaWith(['a', 'BOOLEAN'])
    expect((await tables.sweep(new Map([['DPO2', more]]))).length).toBe(2)
    await tables.addColumns('DPO2', schemaWith(['a', 'BOOLEAN'], ['b', 'DATE'], ['c', 'JSON']))
    expect(await tablesOf(server)).toEqual(['DPO2', 'events'])
    expect(await columnsOf(server, 'DPO2')).toEqual([
      ...OWN,
      ...['n', 'word', 'a', 'b', 'c', '_version', '_deleted'],
    ])
  })
})

describe.skipIf(whyNoClickHouse() !== undefined)('the durability of tables', () => {
  test('is that of the node that sweeps', async () => {
    const { server, topology } = await oneServer()
    await server.query('CREATE TABLE DPO9 (n Int64) ENGINE = MergeTree ORDER BY n')
    const pools = new Map([['DPO1', schemaWith()]])
    const [safe, fast] = [true, false].map(is => new PoolTables(() => topology, undefined, is))
    const settings =
      'fsync_after_insert|fsync_part_directory|min_compressed_bytes_to_fsync_after_(?:fetch|merge)'
    const isSafe = async () => {
      const found = (await server.query('SHOW CREATE TABLE DPO1')).match(
        new RegExp(`(?:${settings}) = 1`, 'g'),
      )
      expect([undefined, 4]).toContain(found?.length)
      return found !== null
    }
    await fast!.ensure('DPO1', schemaWith())
    expect(await isSafe()).toBe(false)
    expect(await safe!.sweep(pools)).toEqual([expect.stringContaining('gave the table DPO1 the durability')])
    expect(await isSafe()).toBe(true)
    expect(await safe!.sweep(pools)).toEqual([])
    // Earlier versions of Weir set two of them.
    await server.query(
      'ALTER TABLE DPO1 RESET SETTING min_compressed_bytes_to_fsync_after_fetch, min_compressed_bytes_to_fsync_after_merge',
    )
    expect((await safe!.sweep(pools)).length).toBe(1)
    expect(await isSafe()).toBe(true)
    expect((await fast!.sweep(pools)).length).toBe(1)
    expect(await isSafe()).toBe(false)
    // A table of somebody else stays as it is.
    expect(await server.query('SHOW CREATE TABLE DPO9')).not.toContain('fsync')
  })
})

describe('servers that are not those of the cluster', () => {
  /** A server that answers as one of a cluster. */
  async function fakeServer(answers: {
    shard: string
    members: readonly (readonly unknown[])[]
    version?: string
    lost?: number
  }) {
    const server = createServer(async (request, response) => {
      request.resume()
      const { shard, members, version = '25.3.1', lost = 0 } = answers
      const macros = [
        ['shard', shard],
        ['replica', `r${request.socket.localPort}`],
      ]
      response.end(
        `${JSON.stringify({ version, macros, members: members.map(each => each.map(String)), lost })}\n`,
      )
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }
  const member = (isOwn: 0 | 1, shard: number) => [isOwn, shard, '127.0.0.1', 9000 + shard]

  test('minor versions are numbers: 25.10 is newer than 25.3', async () => {
    const asked = ['25.10.1.1', '26.1.1.1', '25.2.10.1', '18.16.1', '18.17.1', '5.30.1'].map(
      async version => {
        const address = await fakeServer({ shard: 'a', members: [member(1, 1)], version })
        return await readTopology([address], 'weir').catch((error: Error) => error)
      },
    )
    const refused = (version: string) => ({
      name: 'CannotRun',
      message: expect.stringContaining(`is ClickHouse ${version}; Weir needs 25.3 or newer`),
    })
    expect(await Promise.all(asked)).toMatchObject([
      { names: ['a'] },
      { names: ['a'] },
      ...['25.2.10.1', '18.16.1', '18.17.1', '5.30.1'].map(refused),
    ])
  })

  test('a server that has lost Keeper counts as one that does not answer', async () => {
    const lines = recordLog()
    const members = [member(1, 1), member(0, 1)]
    const answers = [0, 1].map(lost => ({ shard: 'a', members, lost }))
    const addresses = await Promise.all(answers.map(fakeServer))
    const watch = await watchTopology(addresses, 'weir')
    onTestFinished(() => watch.stop())
    // Members of this shard are two, and no server says that the other one is not heard.
    expect([watch.topology.shards[0]!.length, watch.topology.replicas, watch.writable]).toEqual([1, [2], 0])
    answers[1]!.lost = 0
    await watch.look()
    expect([watch.topology.shards[0]!.length, watch.writable]).toEqual([2, 1])
    // The shard stays as it was where no server of it is left, and takes nothing.
    for (const answer of answers) answer.lost = 1
    await watch.look()
    expect([watch.topology.shards[0]!.length, watch.writable]).toEqual([2, 0])
    expect(lines.map(({ message }) => message)).toEqual([
      expect.stringContaining('has lost Keeper'),
      expect.stringContaining('answers again'),
      ...[1, 2].map(() => expect.stringContaining('has lost Keeper')),
    ])
  })

  test('an address of something else is refused', async () => {
    const server = createServer((_, response) => response.end('hello\n'))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await expect(readTopology([{ url }], 'weir')).rejects.toMatchObject({
      name: 'CannotRun',
      message: expect.stringContaining('does not answer as ClickHouse does'),
    })
  })

  test('other shards, and servers without an address, are refused', async () => {
    const lines = recordLog()
    const answers = [
      { shard: 'a', members: [member(1, 1), member(0, 2)] },
      { shard: 'b', members: [member(0, 1), member(1, 2)] },
    ]
    const addresses = await Promise.all(answers.map(fakeServer))
    await expect(readTopology(addresses.slice(1), 'weir')).rejects.toMatchObject({
      name: 'CannotRun',
      message: expect.stringContaining('has 2 servers, and WEIR_CLICKHOUSE_URL names 1'),
    })
    // Each of its rows would count twice.
    await expect(readTopology([...addresses, addresses[0]!], 'weir')).rejects.toMatchObject({
      name: 'CannotRun',
      message: expect.stringContaining('has the shard and the replica of another address'),
    })
    const watch = await watchTopology(addresses, 'weir')
    onTestFinished(() => watch.stop())
    expect([watch.topology.names, watch.topology.replicas]).toEqual([
      ['a', 'b'],
      [1, 1],
    ])
    answers[1]!.shard = 'c'
    for (const _ of [1, 2]) await watch.look()
    answers[1]!.shard = 'a'
    for (const each of answers) each.members = [member(1, 1)]
    await watch.look()
    expect(watch.topology.names).toEqual(['a', 'b'])
    expect(lines.map(({ message }) => message)).toEqual([
      'the servers of the cluster stay as they were: the cluster weir had the shards a, b, and now has a, c',
      'the servers of the cluster stay as they were: the cluster weir had the shards a, b, and now has a',
    ])
  })
})
