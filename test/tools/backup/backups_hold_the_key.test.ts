/** A backup holds the key of its secrets, and nothing else in it but admin.json reveals one. */
import { randomBytes } from 'node:crypto'
import { cpSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { readStore } from '../../../src/catalog/lmdb/catalog-store.ts'
import { must } from '../../../src/util/errors.ts'
import { spawnServer, startServer, temporaryFolder } from '../../util/server.ts'
import { weir } from '../folder.ts'
import { backUp, readBackup, restoreAndStart } from './backups.ts'

const PASSWORD = 'the-password-of-a-webhook'
const root = temporaryFolder('weir-key-')
const running = join(root, 'running')
const stopped = join(root, 'stopped')
let dataDir = ''
let poolId = ''
let secrets: readonly string[] = []

beforeAll(async () => {
  const server = await startServer()
  dataDir = server.dataDir
  const made = await server.createPool({ basicAuth: { username: 'producer', password: PASSWORD } })
  poolId = made.poolId
  await backUp(server, running)
  expect((await server.stop()).code).toBe(0)
  expect((await weir(['backup', stopped, '--data-dir', dataDir])).code).toBe(0)
  const documents = new Map(await readStore(join(dataDir, 'catalog')))
  const secretOf = (prefix: string) =>
    must(
      [...documents].find(([key]) => key.startsWith(prefix)),
      prefix,
    )[1] as { readonly secret: string }
  secrets = [PASSWORD, secretOf('application/').secret, secretOf('signing-key').secret]
})

/** The files below a folder that have one of the secrets. */
function revealing(folder: string): string[] {
  const files = (readdirSync(folder, { recursive: true }) as string[]).filter(name =>
    statSync(join(folder, name)).isFile(),
  )
  return files.filter(name => {
    const bytes = readFileSync(join(folder, name))
    return secrets.some(secret => bytes.includes(secret))
  })
}

test('a backup of a running and of a stopped folder holds the key, and reveals no secret but the first', async () => {
  const key = readFileSync(join(dataDir, 'secret.key'))
  for (const folder of [running, stopped]) {
    expect(readFileSync(join(folder, 'secret.key'))).toEqual(key)
    expect(statSync(join(folder, 'secret.key')).mode & 0o777).toBe(0o600)
    expect(readBackup(folder).files.map(({ path }) => path)).toContain('secret.key')
    expect(revealing(folder)).toEqual(['admin.json'])
    expect((await weir(['verify', '--data-dir', folder])).code).toBe(0)
  }
  expect(revealing(dataDir)).toEqual(['admin.json'])
})

test('a restored folder opens with the key of its backup', async () => {
  const server = await restoreAndStart(running, join(root, 'restored'))
  const { data } = await server.graphql<{ dataPool: { id: string } }>(
    'query($id: ID!) { dataPool(id: $id) { id } }',
    {
      id: poolId,
    },
  )
  expect(data.dataPool.id).toBe(poolId)
  expect((await server.stop()).code).toBe(0)
  expect(readFileSync(join(root, 'restored', 'secret.key'))).toEqual(
    readFileSync(join(dataDir, 'secret.key')),
  )
})

test('the key kept apart is missed by name, and the backup is whole when it is back', async () => {
  const apart = join(root, 'apart')
  cpSync(stopped, apart, { recursive: true })
  renameSync(join(apart, 'secret.key'), join(root, 'elsewhere'))
  const refused = await weir(['restore', apart, '--data-dir', join(root, 'never')])
  expect(refused.code).toBe(1)
  expect(refused.err).toMatch(/secret\.key .* missing from the backup/)
  renameSync(join(root, 'elsewhere'), join(apart, 'secret.key'))
  expect((await weir(['restore', apart, '--data-dir', join(root, 'again')])).code).toBe(0)
})

test('a start, and a command, with another key end with its name', async () => {
  const other = join(root, 'other')
  cpSync(dataDir, other, { recursive: true })
  writeFileSync(join(other, 'secret.key'), randomBytes(32))
  const { ready, ended } = spawnServer({ dataDir: other })
  await expect(ready).rejects.toThrow(/secret\.key/)
  expect((await ended).code).toBe(1)
  for (const command of [
    ['inspect'],
    ['verify'],
    ['repair'],
    ['applications', 'list'],
    ['backup', join(root, 'no')],
  ]) {
    const { code, output } = await weir([...command, '--data-dir', other])
    expect(code, output).toBe(1)
    expect(output).toMatch(/secret\.key/)
  }
})
