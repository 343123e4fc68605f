/** The data folder is the root of a mounted volume: of another owner, or with `lost+found`. */
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { send, startServer, temporaryFolder } from '../util/server.ts'

/** The user and group `nobody`. */
const NOBODY = 65_534
const AS_NOBODY = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups']

const THIS = fileURLToPath(import.meta.url)

/** A folder as a new file system has it at its root. */
function freshMount(): string {
  const folder = join(temporaryFolder(), 'mount')
  mkdirSync(join(folder, 'lost+found'), { recursive: true })
  return folder
}

test('a volume of another owner is used as it is, with a warning; what is made inside is private', async context => {
  if (process.getuid?.() !== 0) return context.skip('only root can give a folder to another user')
  // The checkout may be in a folder that is root's alone.
  if (spawnSync(AS_NOBODY[0]!, [...AS_NOBODY.slice(1), 'test', '-r', THIS]).status !== 0)
    return context.skip('another user cannot run the server of this checkout')
  const dataDir = join(temporaryFolder(), 'data')
  chmodSync(dirname(dataDir), 0o755)
  mkdirSync(dataDir)
  chownSync(dataDir, 0, NOBODY)
  chmodSync(dataDir, 0o2770) // as the fsGroup of Kubernetes makes it
  const server = await startServer({ dataDir, under: AS_NOBODY })
  expect(server.output()).toContain(`${dataDir} belongs to another user, so it keeps its mode`)
  expect((statSync(dataDir).mode & 0o7777).toString(8)).toBe('2770')
  const modes = ['catalog', 'admin.json'].map(name =>
    (statSync(join(dataDir, name)).mode & 0o777).toString(8),
  )
  expect(modes).toEqual(['700', '600'])
  expect((await server.stop()).code).toBe(0)
})

test('start, backup and restore take a fresh mount with lost+found', async () => {
  const server = await startServer({ dataDir: freshMount() })
  const pool = await server.createPool({ uniqueName: 'pool' })
  expect((await send(pool.url, { n: 1 })).status).toBe(200)
  expect((await server.stop()).code).toBe(0)
  const [backup, restored] = [freshMount(), freshMount()]
  for (const args of [
    ['backup', backup, '--data-dir', server.dataDir],
    ['verify', '--data-dir', backup],
    ['restore', backup, '--data-dir', restored],
  ]) {
    const { code, err } = await weir(args)
    expect([args[0], code, err]).toEqual([args[0], 0, expect.any(String)])
  }
  const again = await startServer({ dataDir: restored })
  expect(await again.count(pool.poolId)).toBe('1')
  expect((await again.stop()).code).toBe(0)
})
