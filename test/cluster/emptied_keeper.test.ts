/** A Keeper that lost everything: tables and catalog are restored by the steps of the page. */
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { weir } from '../tools/folder.ts'
import { send, temporaryFolder } from '../util/server.ts'
import type { Clickhouse } from './clickhouse-servers.ts'
import { atNode, noModernServers, POOL, startCluster } from './nodes.ts'
import { repair } from './repair-page.ts'

vi.setConfig({ testTimeout: 1_200_000 })

async function restartAll(servers: readonly Clickhouse[]): Promise<void> {
  for (const server of servers) {
    await server.stop()
    await server.restart()
  }
}

describe.skipIf(noModernServers !== undefined)(`an emptied Keeper ${noModernServers ?? ''}`, () => {
  test('gets the tables from the servers and the catalog from its file, and nothing is lost', async () => {
    const { servers, zookeeper, node, settings } = await startCluster({ shards: 1, replicas: 3 })
    const [fullest] = servers as [Clickhouse]
    const command = (...args: readonly string[]) => weir(['cluster', ...args], settings)
    const first = await node()
    const keyed = await first.createPool(POOL)
    const plain = await first.createPool({ uniqueName: 'plain', columns: POOL.columns })
    const event = (id: number) => ({ at: '2026-01-01T00:00:00Z', id: String(id), n: 1 })
    const tables = [keyed, plain].map(({ poolId }) => poolId)
    for (let id = 0; id < 20; id += 1)
      for (const { url } of [keyed, plain]) expect((await send(url, [event(id)])).status).toBe(200)
    const file = join(temporaryFolder(), 'catalog.json')
    expect((await command('backup', file)).code).toBe(0)
    // The one that is restored first lacks what the other two have acknowledged.
    for (const table of tables) {
      await fullest.query(`SYSTEM SYNC REPLICA ${table}`)
      await fullest.query(`SYSTEM STOP FETCHES ${table}`)
    }
    for (let id = 20; id < 23; id += 1)
      for (const { url } of [keyed, plain]) expect((await send(url, [event(id)])).status).toBe(200)
    for (const table of tables)
      expect(Number(await fullest.query(`SELECT uniqExact(id) FROM ${table}`))).toBeLessThan(23)

    const all = await fullest.query('SELECT count() FROM system.replicas')
    await zookeeper.empty()
    expect((await first.ended).output).toContain('was Keeper emptied? Restore it')
    // They have seen a later Keeper, which refuses them.
    await restartAll(servers)
    const early = await command('restore', file)
    expect([early.code, early.err]).toEqual([2, expect.stringContaining('SYSTEM RESTORE REPLICA')])
    await repair(servers, 'max(_version)')
    await repair(servers, 'INSERT INTO')
    expect((await command('restore', file)).code).toBe(0)
    // Parts have the names of other ones, of which a server remembers where their rows begin.
    await restartAll(servers)

    const again = await node()
    for (let id = 23; id < 40; id += 1)
      for (const { url } of [keyed, plain])
        expect((await send(atNode(url, again), [event(id)])).status).toBe(200)
    for (const table of tables) {
      expect(await again.count(table)).toBe('40')
      for (const { query } of servers) {
        await query(`SYSTEM SYNC REPLICA ${table}`)
        expect(await query(`SELECT uniqExact(id), uniqExact(_version) FROM ${table}`)).toBe('40\t40\n')
      }
    }
    await repair(servers, 'DROP DETACHED')
    for (const { query } of servers)
      expect(await query('SELECT count() FROM system.detached_parts')).toBe('0\n')
    const whole = `${all.trim()}\t0\t0\t0\n`.repeat(3)
    await expect.poll(() => repair(servers, 'countIf(is_readonly)')).toBe(whole)
  })
})
