/** Names hold any character. No command sends one raw to a terminal. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { column } from '../path/client.ts'
import { send, startServer, temporaryFolder } from '../util/server.ts'
import { weir } from './folder.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))

/** Clears the screen of a terminal. No command has a reason to do that. */
const CLEAR = '\u001b[2J'
const SHOWN = '\\u001b[2J'

test('names with control characters are printed escaped', async () => {
  const server = await startServer()
  const { dataDir } = server
  const pool = await server.createPool({
    uniqueName: `pool${CLEAR}`,
    columns: [column(`at${CLEAR}`, 'TIMESTAMP', false, 'at')],
    timestamp: `at${CLEAR}`,
  })
  expect((await send(pool.url, { at: '2026-01-01T00:00:00Z' })).status).toBe(200)
  const rows = join(temporaryFolder(), 'rows.ndjson')
  writeFileSync(rows, '{"x":1}\n')
  const here = ['--url', server.base, '--data-dir', dataDir]
  const imported = await weir(['import', pool.poolId, rows, ...here])
  expect([imported.code, imported.out.includes('1 refused')]).toEqual([1, true])
  const created = await weir(['applications', 'create', `app${CLEAR}`, ...here])
  expect(created.code).toBe(0)
  expect((await server.stop()).code).toBe(0)
  const inspected = await weir(['inspect', pool.poolId, '--data-dir', dataDir])
  expect(inspected.code).toBe(0)
  // script(1) gives verify a terminal, so that it draws a bar.
  const command = `${process.execPath} ${MAIN} verify --data-dir ${dataDir}`
  const verified = spawnSync('script', ['-qefc', command, '/dev/null']).stdout.toString()
  const printed = [imported.output, created.output, inspected.output, verified]
  expect(printed.map(text => text.includes(SHOWN))).toEqual([true, true, true, true])
  expect(printed.map(text => text.includes(CLEAR))).toEqual([false, false, false, false])
})
