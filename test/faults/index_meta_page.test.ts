/**
 * W-4: the last write of an index commit fails, so nobody knows whether the commit is on disk. The
 * real server ends before it answers or removes anything for this commit, and the next start finds
 * all acknowledged rows.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { until } from '../path/compaction.ts'
import { events, KEYED } from '../path/damage.ts'
import { send, startServer, temporaryFolder } from '../util/server.ts'
import { verifyFolder } from '../util/verify.ts'

const PRELOAD = fileURLToPath(new URL('./break_meta_pages.js', import.meta.url))

test.each(['native', 'js'])(
  'kernel %s: the process ends with the reason; no file is removed, nothing acknowledged is lost',
  async kernel => {
    const dataDir = join(temporaryFolder('weir-meta-'), 'data')
    const args = ['--kernel', kernel]
    const server = await startServer({
      dataDir,
      args,
      env: { NODE_OPTIONS: `--import=${PRELOAD}`, WEIR_TEST_META_OF: join(dataDir, 'index', 'data.mdb') },
    })
    const pool = await server.createPool(KEYED)
    expect((await send(pool.url, events(0, 10))).status).toBe(200)
    expect(await server.count(pool.poolId)).toBe('10')
    const files = () => readdirSync(join(dataDir, 'segment', pool.poolId))
    const before = files()
    expect(before.length).toBe(1)

    server.child.kill('SIGUSR2')
    await until('the descriptor is replaced', () => server.output().includes('meta pages cannot be written'))
    expect((await send(pool.url, events(5, 25, 2))).status).toBe(200)
    expect((await send(pool.url, events(0, 2), 'DELETE')).status).toBe(200)
    // The count needs a flush, which would replace the present segment.
    const asked = server.count(pool.poolId).then(
      count => `answered ${count}`,
      () => 'failed',
    )
    const { code, signal, output } = await server.ended
    expect([await asked, code, signal]).toEqual(['failed', null, 'SIGKILL'])
    expect(output).toMatch(
      /a thread failed, Weir ends; the next start recovers: .*a commit of the index failed at its last write \(No space left on device\): it is unknown whether the commit is on disk/,
    )
    expect(files()).toEqual(expect.arrayContaining(before))

    await verifyFolder(dataDir)
    const next = await startServer({ dataDir, args })
    const { poolId } = pool
    expect([await next.count(poolId), await next.sum(poolId, 'n')]).toEqual(['23', '43'])
    expect((await next.stop()).code).toBe(0)
    await verifyFolder(dataDir)
  },
)
