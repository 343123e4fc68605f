/**
 * The real server with injected faults in each write, sync, open and rename of the log, its spares,
 * segments, delete files and imported files. Acknowledgements stop where they must, nothing
 * acknowledged is lost, and service returns as W-3 says.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ask } from '../api/client.ts'
import { portOf } from '../path/client.ts'
import { KEYED } from '../path/damage.ts'
import { fetchToken, send, spawnServer, startServer } from '../util/server.ts'
import { FaultyServer, LARGE, SMALL_LOG } from './faulty-server.ts'

const LOG = '/log/[0-9-]+[.]log$'
/** A ready spare, which the log's thread takes. */
const SPARE = '/log/spare-[0-9]+[.]log$'
/** A spare that is being created. */
const NEW_SPARE = '/log/spare-.*tmp$'
const PARQUET = '[.]parquet[.]tmp$'
const DELETES = '[.]deletes[.]tmp$'
test.each([
  [`write ${LOG} 2 EIO`],
  [`fdatasync ${LOG} 2 EIO`],
  [`fdatasync ${LOG} 2 ENOSPC`],
  [`open ${SPARE} 1 EIO`],
  [`rename ${LOG} 1 EIO`],
  ['fsync /log$ 1 EIO'],
])('W-1, W-3 %s: no acknowledgement until a restart, nothing acknowledged is lost', async fault => {
  const faulty = await new FaultyServer(fault).start()
  faulty.arm()
  await faulty.postUntilRefused(40)
  expect(faulty.lastCode).toBe('log_refused')
  expect(await faulty.readyz()).toBe(503)
  // The log refuses until a restart, although the disk works again.
  faulty.clear()
  expect(await faulty.post(1)).toBe(503)
  expect(await faulty.readyz()).toBe(503)
  await faulty.restart()
})

test.each([
  [`write ${NEW_SPARE} 1 ENOSPC`],
  [`fdatasync ${NEW_SPARE} 2 EIO`],
  [`open ${NEW_SPARE} 1 EDQUOT`],
  [`rename ${SPARE} 1 EIO`],
])('%s: 503 disk_full after the last spare, service returns without a restart', async fault => {
  const faulty = await new FaultyServer(fault).start()
  faulty.arm()
  await faulty.postUntilRefused(120)
  expect(faulty.lastCode).toBe('disk_full')
  expect(await faulty.readyz()).toBe(503)
  faulty.clear()
  while ((await faulty.readyz()) !== 200) await delay(50)
  expect(await faulty.post(3)).toBe(200)
  await faulty.check()
  await faulty.restart()
})

test.each([
  // The first write of a group, the mark of its first record, and the header of a new file.
  [`write ${LOG} 1 ENOSPC`, false],
  [`write ${LOG} 2 EDQUOT`, true],
  [`write ${SPARE} 1 ENOSPC`, false],
  [`rename ${LOG} 1 EDQUOT`, true],
])(
  'W-3 %s: 503 disk_full, nothing refused is stored, service returns without a restart',
  async (fault, kills) => {
    const faulty = await new FaultyServer(fault).start()
    for (let round = 0; round < 2; round++) {
      faulty.arm()
      await faulty.postUntilRefused(40)
      expect(faulty.lastCode).toBe('disk_full')
      expect(await faulty.readyz()).toBe(503)
      expect(await faulty.post(1)).toBe(503)
      faulty.clear()
      while ((await faulty.readyz()) !== 200) await delay(50)
      expect(await faulty.post(3)).toBe(200)
      expect(await faulty.server.count(faulty.pool.poolId)).toBe(String(faulty.acked.size))
    }
    faulty.arm()
    await faulty.postUntilRefused(40)
    // A kill, or a stop, while the disk is full.
    if (kills) await faulty.server.kill()
    else expect((await faulty.server.stop()).code).toBe(0)
    faulty.uncertain.clear()
    await faulty.restart()
  },
)

test.each([['rename /log/head$ 1 EIO'], ['write /log/head.tmp 1 ENOSPC'], [`unlink ${LOG} 1 EIO`]])(
  '%s: old log files stay for now, acknowledgements go on',
  async fault => {
    const faulty = await new FaultyServer(fault).start()
    faulty.arm()
    for (let i = 0; i < 12; i++) {
      expect(await faulty.post(2, LARGE)).toBe(200)
      if (i % 4 === 3) await faulty.check()
    }
    expect(await faulty.readyz()).toBe(200)
    faulty.clear()
    expect(await faulty.post(2, LARGE)).toBe(200)
    await faulty.check()
    await faulty.restart()
  },
)

test.each([
  [`write ${PARQUET} 1 ENOSPC`, false],
  [`open ${PARQUET} 1 EIO`, false],
  [`fdatasync ${PARQUET} 1 EIO`, false],
  ['rename [.]parquet$ 1 EIO', false],
  ['fsync /segment/[^/]+$ 1 EIO', false],
  [`write ${DELETES} 1 ENOSPC`, true],
  [`fdatasync ${DELETES} 1 EIO`, true],
  ['rename [.]deletes$ 1 EIO', true],
])(
  'W-4, W-8 %s: queries and /readyz report it, acknowledgements go on, flushes succeed later',
  async (fault, deletes) => {
    const faulty = await new FaultyServer(fault).start()
    faulty.arm()
    expect(await faulty.post(5)).toBe(200)
    if (deletes) expect(await faulty.delete('id 0')).toBe(200)
    await expect(faulty.server.count(faulty.pool.poolId)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(await faulty.readyz()).toBe(503)
    expect(await faulty.post(5)).toBe(200)
    faulty.clear()
    for (;;) {
      const count = await faulty.server.count(faulty.pool.poolId).catch(() => undefined)
      if (count !== undefined) break
      await delay(100)
    }
    await faulty.check()
    expect(await faulty.readyz()).toBe(200)
    expect(await faulty.server.count(faulty.pool.poolId)).toBe(deletes ? '12' : '13')
    await faulty.restart()
  },
)

test('a new pool without a folder: queries report it, and its flush succeeds later', async () => {
  const faulty = await new FaultyServer('mkdir /segment/ 1 ENOSPC').start()
  faulty.arm()
  const other = await faulty.server.createPool({ ...KEYED, uniqueName: 'other' })
  expect((await send(other.url, [{ ts: '2026-01-01', id: 'o', n: 1 }])).status).toBe(200)
  await expect(faulty.server.count(other.poolId)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  faulty.clear()
  while ((await faulty.server.count(other.poolId).catch(() => '')) !== '1') await delay(100)
  await faulty.restart()
})

test.each([
  ['write', 'EDQUOT'],
  ['write', 'ENOSPC'],
  ['open', 'EDQUOT'],
])(
  'a Parquet import whose file cannot be kept, %s %s: 503 tmp_full, and it succeeds later',
  async (operation, code) => {
    const faulty = await new FaultyServer(`${operation} /tmp/import-[^/]*$ 1 ${code}`).start()
    const { server, pool } = faulty
    const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
    const load = async () => {
      const path = `/v1/pools/${pool.poolId}/import?format=parquet`
      const answer = await ask(portOf(server), path, { body: await exported(), headers: { authorization } })
      return [answer.status, answer.json.code ?? answer.json.accepted]
    }
    const exported = async () => {
      const path = `/v1/pools/${pool.poolId}/export?format=parquet`
      return new Uint8Array(
        await (await fetch(`${server.base}${path}`, { headers: { authorization } })).arrayBuffer(),
      )
    }
    faulty.arm()
    expect(await load()).toEqual([503, 'tmp_full'])
    faulty.clear()
    expect(await load()).toEqual([200, 3])
    await faulty.restart()
  },
)

test.each([
  [`write ${LOG} 1 EIO`],
  [`fdatasync ${LOG} 1 EIO`],
  ['rename /log/head$ 1 EIO'],
  ['fsync /log$ 1 EIO'],
  [`rename ${LOG} 1 ENOSPC`],
  [`read ${LOG} 1 EIO`],
])('W-3, W-10 %s during recovery: no start, nothing changed; the next start finds all rows', async fault => {
  const faulty = await new FaultyServer(fault).start()
  expect(await faulty.post(20)).toBe(200)
  await faulty.server.kill()
  faulty.arm()
  for (let i = 0; i < 2; i++) {
    const { code, output } = await spawnServer({ dataDir: faulty.dataDir, args: faulty.args }).ended
    expect([code === 1 || code === 2, output]).toEqual([true, expect.stringMatching(/E[A-Z]+:|disk is full/)])
  }
  faulty.clear()
  const next = await startServer({ dataDir: faulty.dataDir, args: SMALL_LOG })
  expect(await next.count(faulty.pool.poolId)).toBe('23')
  expect((await next.stop()).code).toBe(0)
})
