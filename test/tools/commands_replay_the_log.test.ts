import { expect, test } from 'vitest'
import { COMMANDS } from '../../src/app/commands.ts'
import { readCommandLine } from '../../src/database/command.ts'
import { openOffline } from '../../src/tools/offline.ts'
import { findPool } from '../../src/tools/stopped-folder.ts'
import { events, KEYED } from '../path/damage.ts'
import { send, startServer } from '../util/server.ts'
import { weir } from './folder.ts'

test('a command replays and flushes the log once, as a start does', async () => {
  const server = await startServer()
  const { dataDir } = server
  const pool = await server.createPool(KEYED)
  expect((await send(pool.url, events(0, 50))).status).toBe(200)
  expect((await send(pool.url, events(0, 10), 'DELETE')).status).toBe(200)
  const busy = await weir(['inspect', '--data-dir', dataDir])
  expect([busy.code, busy.err]).toEqual([
    2,
    expect.stringContaining(`another process uses the data folder ${dataDir}`),
  ])
  await server.kill()
  const { config } = readCommandLine(['--data-dir', dataDir], COMMANDS, {}).input
  const unflushed = await weir(['inspect', 'keyed', '--json', '--data-dir', dataDir])
  expect(JSON.parse(unflushed.out)).toMatchObject({
    pools: [{ segments: 0 }],
    log: { unflushedRequests: 2 },
  })
  for (const replayed of [2, 0]) {
    const offline = await openOffline(config)
    expect(offline.replayed).toBe(replayed)
    const find = (name: string) => findPool(name, offline.catalog.pools())
    const { segments, release } = await offline.snapshot(find(pool.poolId).number)
    expect(segments.reduce((sum, { meta }) => sum + meta.rows, 0)).toBe(40)
    release()
    expect(() => find('nobody')).toThrow('there is no pool "nobody"')
    await offline.close()
  }
  const inspected = await weir(['inspect', '--json', '--data-dir', dataDir])
  expect([inspected.code, JSON.parse(inspected.out)]).toMatchObject([
    0,
    { log: { cleanStop: true, unflushedRequests: 0 } },
  ])
  const again = await startServer({ dataDir })
  expect(again.output()).not.toContain('replayed')
  expect(await again.count(pool.poolId)).toBe('40')
  expect((await again.stop()).code).toBe(0)
}, 300_000)
