/** What test/cluster/suites.mjs says of the tests that run on nodes of a cluster. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const { LOCAL_ONLY, MODELS, skippedOn, table } = (await import(
  pathToFileURL(join(ROOT, 'test/cluster/suites.mjs')).href
)) as {
  LOCAL_ONLY: Record<string, string>
  MODELS: readonly string[]
  skippedOn(vehicle: string): Record<string, unknown>
  table(): string
}

test('every test file that is named exists', () => {
  const files = (readdirSync(join(ROOT, 'test'), { recursive: true }) as string[]).filter(name =>
    name.endsWith('.ts'),
  )
  const suites = [...Object.keys(skippedOn('chdb')), ...Object.keys(skippedOn('clickhouse18')), ...MODELS]
  expect(suites.length).toBeGreaterThan(100)
  expect(suites.filter(name => !existsSync(join(ROOT, 'test', `${name}.test.ts`)))).toEqual([])
  expect(Object.keys(LOCAL_ONLY).filter(begin => !files.some(name => name.startsWith(begin)))).toEqual([])
})

test('the page tells which tests run on which version', () => {
  const page = readFileSync(join(ROOT, 'src/query/clickhouse/DIFFERENCES.md'), 'utf8')
  const lines = page.split('## Which tests run on which version\n')[1]?.split('\n') ?? []
  const rows = lines.filter(line => line.startsWith('|'))
  // The formatter aligns columns.
  expect(rows.map(row => row.replace(/ +/g, ' ').replace(/-{3,}/g, '---')).join('\n')).toBe(table())
})
