/**
 * W-4: the real server where the last write of a commit of the index fails: nobody knows whether it is on disk. The process ends
 * before anything is answered or unlinked by it, and the next start has all that was acknowledged.
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
  'kernel %s: the process ends and says why; nothing is unlinked, nothing acknowledged is lost',
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
    await until('the descriptor is another', () => server.output().includes('meta pages cannot be written'))
    expect((await send(pool.url, events(5, 25, 2))).status).toBe(200)
    expect((await send(pool.url, events(0, 2), 'DELETE')).status).toBe(200)
    // The seal would replace the segment that is there.
    const asked = server.count(pool.poolId).then(
      count => `answered ${count}`,
      () => 'failed',
    )
    const { code, signal, output } = await server.ended
    expect([await asked, code, signal]).toEqual(['failed', null, 'SIGKILL'])
    expect(output).toMatch(
      /a thread failed, Weir ends; the next start recovers: .*a commit of the index failed at its last write \(No space left on device\): nobody knows whether it is on disk/,
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
