import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { must } from '../../src/util/errors.ts'
import { created, type Folder, makeFolder } from './folder.ts'

const CHILD = fileURLToPath(new URL('./crash_child.js', import.meta.url))

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

/** Runs the child, which must die by SIGKILL before it answers. */
function kill(crashAt: string, action: string): string {
  const { signal, stdout } = spawnSync(process.execPath, [CHILD, folder.root, crashAt, action], {
    encoding: 'utf8',
  })
  expect(signal).toBe('SIGKILL')
  expect(stdout).not.toContain('answered')
  return stdout
}

test('a creation killed before the commit left nothing', async () => {
  await (await folder.open()).catalog.stop()
  kill('catalog.before-commit', 'create')
  const { catalog } = await folder.open()
  expect([catalog.read.sources.byName('made'), catalog.read.pools.byName('made')]).toEqual([
    undefined,
    undefined,
  ])
  expect(created(await catalog.change(createWebhookSource({ uniqueName: 'made' }, 'APP1'))).pool.number).toBe(
    3,
  )
})

test('a creation killed after the commit is whole, and its number is taken', async () => {
  await (await folder.open()).catalog.stop()
  kill('catalog.committed', 'create')
  const { catalog } = await folder.open()
  const pool = must(catalog.read.pools.byName('made'), 'the pool')
  const source = must(catalog.read.sources.byName('made'), 'the source')
  expect(catalog.byWebhookId(source.webhook?.webhookId ?? '')).toEqual({ pool, source })
  expect(catalog.schema(pool.number, 1)).toBeDefined()
  const next = created(await catalog.change(createWebhookSource({}, 'APP1')))
  expect(next.pool.number).toBe(pool.number + 1)
})

test('a deletion killed before or after the commit is not done or done', async () => {
  const first = await folder.open()
  const { pool } = created(await first.catalog.change(createWebhookSource({ uniqueName: 'made' }, 'APP1')))
  await first.catalog.stop()
  kill('catalog.before-commit', 'delete')
  const second = await folder.open()
  expect(second.catalog.pool(pool.id)).toEqual(pool)
  expect(second.catalog.tombstones()).toEqual([])
  await second.catalog.stop()
  kill('catalog.committed', 'delete')
  const third = await folder.open()
  expect(third.catalog.pool(pool.id)).toBeUndefined()
  expect(third.catalog.tombstones()).toMatchObject([{ number: pool.number }])
  expect(created(await third.catalog.change(createWebhookSource({}, 'APP1'))).pool.number).toBe(
    pool.number + 1,
  )
})

test('a first start killed at either point is made whole by the next', async () => {
  expect(kill('catalog.before-commit', '')).not.toContain('opened')
  const first = await folder.open()
  expect([first.isNewFolder, first.adminIsNew, first.catalog.pools().length]).toEqual([true, true, 2])
})

test('a first start killed before data/admin.json keeps its application', async () => {
  kill('catalog.committed', '')
  const { admin, adminIsNew, isNewFolder, catalog } = await folder.open()
  expect([isNewFolder, adminIsNew]).toEqual([false, true])
  // The pool of rejected events is made in a transaction of its own.
  expect(catalog.pools().map(({ number, builtIn }) => [number, builtIn])).toEqual([
    [1, undefined],
    [2, 'REJECTED_EVENTS'],
  ])
  expect(catalog.application(must(admin, 'admin').clientId)?.secret).toBe(admin?.clientSecret)
})
