/** A full disk under the catalog: the change is refused, nothing else is, and the next one is made once there is room. */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { healthOf } from '../../src/health.ts'
import { KEYED } from '../path/damage.ts'
import { send, startServer, type TestServer } from '../util/server.ts'

/** Changes that one page more of the catalog's file must hold. */
const CHANGES_MAX = 200

function fill(folder: string): void {
  const ballast = openSync(join(folder, 'ballast'), 'a')
  try {
    for (let bytes = 1024 * 1024; bytes >= 4096; ) {
      try {
        writeSync(ballast, Buffer.alloc(bytes))
      } catch {
        bytes /= 2
      }
    }
  } finally {
    closeSync(ballast)
  }
}

async function names(server: TestServer): Promise<string[]> {
  const { data } = await server.graphql<{ dataPools: { nodes: { uniqueName: string }[] } }>(
    '{ dataPools(first: 100) { nodes { uniqueName } } }',
  )
  return data.dataPools.nodes.map(({ uniqueName }) => uniqueName).sort()
}

test('creations and deletions fail one by one, and work again without a restart', async context => {
  const disk = mkdtempSync(join(tmpdir(), 'weir-catalog-full-'))
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', disk])
  try {
    if (status !== 0) return context.skip('a small file system cannot be mounted here')
    const dataDir = join(disk, 'data')
    const args = ['--log-file-bytes', String(4 * 1024 * 1024)]
    const server = await startServer({ dataDir, args })
    const first = await server.createPool(KEYED)
    const made = ['events', 'keyed']
    fill(disk)
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
    spawnSync('umount', ['--lazy', disk])
    rmSync(disk, { recursive: true, force: true })
  }
})

test('a catalog that takes no change until restart is told by /readyz, and events are taken all the same', () => {
  const health = {
    stopping: false,
    log: 'open',
    catalogRefusal: () => 'The catalog accepts no changes',
  } as const
  expect(healthOf(health)).toEqual({ ready: false, why: 'The catalog accepts no changes' })
  expect(healthOf({ ...health, catalogRefusal: () => undefined })).toEqual({ ready: true })
})
