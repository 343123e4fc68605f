/** Imports that a kill ended: the first answer after the next start says so. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { beginImport, endImport } from '../../src/catalog/change/change-import.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { openCatalog } from '../../src/catalog/open-catalog.ts'
import { must } from '../../src/util/errors.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { makeFolder } from '../catalog/folder.ts'
import { fetchToken, freePort, removeLeftovers, startServer } from '../util/server.ts'

afterAll(removeLeftovers)

const IMPORTS = 300

test('no import of before a kill is in progress in the first answer after the start', async () => {
  const first = await startServer()
  const token = await fetchToken(first.base, first.dataDir)
  await first.kill()
  const { catalog } = await openCatalog({ paths: pathsOf(first.dataDir) })
  const pool = must(catalog.read.pools.byName('events'), 'the pool of a new folder')
  const { clientId } = JSON.parse(readFileSync(join(first.dataDir, 'admin.json'), 'utf8')) as {
    clientId: string
  }
  const input = { format: 'ndjson', encoding: '', label: '', skipRows: 7, bytes: null }
  for (let n = 0; n < IMPORTS; n++) await catalog.change(beginImport(pool.id, clientId, input))
  await catalog.stop()
  const port = await freePort()
  const starting = startServer({ dataDir: first.dataDir, args: ['--port', port] })
  const imports = await firstAnswer(`http://127.0.0.1:${port}/v1/pools/events/import`, token)
  const server = await starting
  expect(imports).toHaveLength(100) // the newest
  expect(imports.filter(({ status }) => status !== 'FAILED')).toEqual([])
  expect(imports[0]?.error).toContain('resume with skipRows=7')
  expect((await server.stop()).code).toBe(0)
})

test('an import that failed says how far it came, and stays as it ended', async () => {
  const folder = makeFolder()
  const { catalog } = await folder.open()
  const source = await catalog.change(createWebhookSource({}, 'app'))
  if ('badRequest' in source) throw new Error(source.badRequest)
  const input = { format: 'ndjson', encoding: '', label: '', skipRows: 7, bytes: null }
  const begun = await catalog.change(beginImport(source.pool.id, 'app', input))
  if (begun === null || 'badRequest' in begun) throw new Error('the import was refused')
  const done = { rows: 9, accepted: 8, rejected: 1, durableRows: 9, durableBytes: 100 }
  const failed = await catalog.change(endImport(begun.id, done, 'the body broke off'))
  expect(failed).toMatchObject({ status: 'FAILED', error: 'the body broke off', done })
  expect(await catalog.change(endImport(begun.id, begun.done, null))).toEqual(failed)
  await folder.remove()
})

/** The first answer of a server that is starting. */
async function firstAnswer(url: string, token: string) {
  for (;;) {
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } }).catch(() => undefined)
    if (answer === undefined) continue
    expect(answer.status).toBe(200)
    return ((await answer.json()) as { imports: { status: string; error: string }[] }).imports
  }
}
