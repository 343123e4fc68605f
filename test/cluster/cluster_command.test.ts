/** `weir cluster`: the catalog as a file, and back beside tables that have later rows. */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { send, spawnServer, temporaryFolder } from '../util/server.ts'
import { isModern } from './clickhouse-servers.ts'
import { noCluster, startCluster } from './nodes.ts'

const columns = ['id', 'n'].map(name => ({ name, type: 'INT64', jsonProperty: name, nullable: false }))
const AGAIN = { WEIR_KEEPER_PATH: '/again' }

describe.skipIf(noCluster !== undefined)(`weir cluster ${noCluster ?? ''}`, () => {
  test('what is restored has the same URLs, and later events win over all rows', async () => {
    const cluster = await startCluster({ shards: 1, replicas: 1 })
    const command = (...args: readonly string[]) => weir(['cluster', ...args], cluster.settings)
    const node = await cluster.node()
    const key = {
      columns: [...columns, { ...columns[0]!, name: 'at', type: 'TIMESTAMP', jsonProperty: 'at' }],
    }
    const { poolId, url } = await node.createPool({
      uniqueName: 'p',
      uniqueId: 'id',
      timestamp: 'at',
      ...key,
    })
    const event = (n: number) => [{ at: '2026-01-01T00:00:00Z', id: 1, n }]
    expect((await send(url, event(1))).status).toBe(200)
    const file = join(temporaryFolder(), 'catalog.json')
    const made = await command('backup', file)
    expect([made.code, made.out]).toEqual([
      0,
      expect.stringMatching(/^backup of the catalog at version \d+: /),
    ])
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect((await command('backup', file)).err).toContain('exists already')
    await node.stop()
    // As an earlier Keeper left it, whose zxids were higher.
    await cluster.servers[0]!.query(
      `INSERT INTO ${poolId} SELECT _service_received_at, _service_payload, id, n + 1, at, toUInt64(1152921504606846976), 0 FROM ${poolId}`,
    )

    const refused = await command('restore', file)
    expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('Keeper has a catalog at')])
    const restore = (path: string) => weir(['cluster', 'restore', path], { ...cluster.settings, ...AGAIN })
    const damaged = join(temporaryFolder(), 'damaged.json')
    writeFileSync(damaged, readFileSync(file, 'utf8').replace('"uniqueName":"p"', '"uniqueName":"q"'))
    expect([(await restore(damaged)).code, (await restore(`${file}.none`)).code]).toEqual([2, 2])
    const { code, out } = await restore(file)
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^restored the catalog of version \d+ to \/again: /),
    ])

    const again = await cluster.node([], AGAIN)
    expect(await again.sum(poolId, 'n')).toBe('2')
    expect((await send(again.base + new URL(url).pathname, event(10))).status).toBe(200)
    expect(await again.sum(poolId, 'n')).toBe('10')
  })

  test('no node makes a new catalog where the servers have rows, nor is one restored while one is down', async () => {
    const cluster = await startCluster({ shards: 1, replicas: 2 })
    const node = await cluster.node()
    const { url } = await node.createPool({ uniqueName: 'p', columns })
    expect((await send(url, [{ id: 1, n: 1 }])).status).toBe(200)
    const file = join(temporaryFolder(), 'catalog.json')
    expect((await weir(['cluster', 'backup', file], cluster.settings)).code).toBe(0)
    await node.stop()
    // The newest rows may be on the server that is down.
    await cluster.servers[1]!.kill()
    const early = await weir(['cluster', 'restore', file], { ...cluster.settings, ...AGAIN })
    expect([early.code, early.err]).toEqual([
      2,
      expect.stringContaining('a server of shard 1 does not answer'),
    ])
    await cluster.servers[1]!.restart()
    await cluster.zookeeper.empty()
    // They have seen a later Keeper, which refuses them. Those of 18.16 tell it nothing.
    if (isModern) for (const server of cluster.servers) await server.restart()
    const start = (env = {}) =>
      spawnServer({ dataDir: temporaryFolder(), env: { ...cluster.settings, ...env } }).ended
    const { code, output } = await start()
    expect([code, output]).toEqual([2, expect.stringContaining('Keeper has no catalog at /weir, and ')])
    // Another path is another cluster.
    await cluster.node([], AGAIN)
  })

  test('other words than backup and restore are refused, and so is a cluster that no setting names', async () => {
    const refused = async (why: string, ...args: readonly string[]) => {
      const { code, err } = await weir(['cluster', ...args])
      expect([code, err]).toEqual([2, expect.stringContaining(why)])
    }
    await refused('takes backup or restore, not "copy"', 'copy', 'file')
    await refused('needs the settings of the cluster: WEIR_CLICKHOUSE_URL, WEIR_KEEPER', 'backup', 'file')
    await refused('weir cluster needs <file>', 'restore')
  })
})
