/**
 * A full disk under the catalog: only catalog changes are refused, and they succeed again once
 * there is room.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { healthOf } from '../../src/api/probes.ts'
import { REJECTED_EVENTS } from '../../src/catalog/rejected-pool.ts'
import { KEYED } from '../path/damage.ts'
import { send, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { fillDisk, mountSmall, NO_SMALL_DISK } from '../util/small-disk.ts'

/** Changes after which the catalog's file needs another page at the latest. */
const CHANGES_MAX = 200

async function names(server: TestServer): Promise<string[]> {
  const { data } = await server.graphql<{ dataPools: { nodes: { uniqueName: string }[] } }>(
    '{ dataPools(first: 100) { nodes { uniqueName } } }',
  )
  const all = data.dataPools.nodes.map(({ uniqueName }) => uniqueName).sort()
  return all.filter(name => name !== REJECTED_EVENTS)
}

test('on a full disk changes of pools fail, and later ones succeed without a restart', async context => {
  const disk = temporaryFolder('weir-catalog-full-')
  const small = mountSmall(disk, '64m')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    const dataDir = join(disk, 'data')
    const args = ['--log-file-bytes', String(4 * 1024 * 1024)]
    const server = await startServer({ dataDir, args })
    const first = await server.createPool(KEYED)
    const made = ['events', 'keyed'] // beside the pool of rejected events
    fillDisk(join(disk, 'ballast'))
    let refused = ''
    for (let i = 0; i < CHANGES_MAX && refused === ''; i++) {
      const uniqueName = `pool ${String(i).padStart(3, '0')}`
      const columns = Array.from({ length: 40 }, (_, c) => ({
        name: `c${c}`,
        jsonProperty: `c${c}`,
        type: 'STRING',
        nullable: true,
      }))
      await server.createPool({ uniqueName, columns }).then(
        () => made.push(uniqueName),
        (error: Error) => {
          refused = error.message
        },
      )
    }
    expect(refused).toContain('The change was not made')
    expect((await fetch(`${server.base}/readyz`)).status).toBe(200)
    expect((await send(first.url, [{ ts: '2026-01-01', id: 'x', n: 1 }])).status).toBe(200)
    rmSync(join(disk, 'ballast'))
    await server.createPool({ uniqueName: 'zz after' })
    made.push('zz after')
    const last = made[2]
    if (last?.startsWith('pool')) {
      await server.graphql(`mutation { deleteDataPoolByName(uniqueName: "${last}") }`)
      made.splice(2, 1)
    }
    expect(await names(server)).toEqual(made)
    await server.kill()
    const next = await startServer({ dataDir, args })
    expect(await names(next)).toEqual(made)
    expect(await next.count(first.poolId)).toBe('1')
    expect((await next.stop()).code).toBe(0)
  } finally {
    small.end()
  }
})

test('/readyz reports a catalog that accepts no changes until a restart', () => {
  const health = {
    log: 'open',
    catalogRefusal: () => 'The catalog accepts no changes',
    poolsFailing: () => 0,
  } as const
  expect(healthOf(health)).toEqual({ ready: false, why: 'The catalog accepts no changes' })
  expect(healthOf({ ...health, catalogRefusal: () => undefined })).toEqual({ ready: true })
  const failing = healthOf({ ...health, catalogRefusal: () => undefined, poolsFailing: () => 2 })
  expect(failing).toEqual({ ready: false, why: expect.stringMatching(/flush of 2 pools failed/) })
})
