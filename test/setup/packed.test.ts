/**
 * `npm pack` makes a package that runs in a folder of its own. The packages that it depends on are
 * those of this checkout, so nothing is downloaded.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { send, startServer, temporaryFolder } from '../util/server.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const home = temporaryFolder('weir-packed-')
const installed = join(home, 'node_modules', 'weir')
const main = join(installed, 'dist', 'src', 'app', 'main.js')

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  expect([status, status === 0 ? '' : stderr]).toEqual([0, ''])
  return stdout
}

beforeAll(() => {
  const packed = run('npm', ['pack', '--silent', '--pack-destination', home], ROOT).trim()
  mkdirSync(installed, { recursive: true })
  run('tar', ['-xzf', join(home, packed), '--strip-components=1', '-C', installed], home)
  const packages = join(ROOT, 'node_modules')
  for (const name of readdirSync(packages).filter(each => !each.startsWith('.')))
    symlinkSync(join(packages, name), join(home, 'node_modules', name))
})

test('what a package holds: the program and its pages, and nothing of the tests', () => {
  const names = readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => relative(installed, join(each.parentPath, each.name)))
  for (const name of [
    'dist/src/app/main.js',
    'dist/workers/query.js',
    'dist/console/index.html',
    'src/api/graphql/query.graphql',
    'README.md',
    'LICENSE',
  ])
    expect(names).toContain(name)
  const wanted =
    /^(dist\/(src|workers)\/.*\.js|dist\/console\/(index\.html|console\/[\w.-]+)|dist\/native\/weir\.node|src\/api\/graphql\/[\w-]+\.graphql|docs\/(how-to\/)?[\w-]+\.md|package\.json|[A-Z]+(\.md)?)$/
  expect(names.filter(name => !wanted.test(name))).toEqual([])
})

test('the program that package.json names prints its help', () => {
  const { bin } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as {
    bin: { weir: string }
  }
  expect(run(process.execPath, [join(installed, bin.weir), '--help'], home)).toContain('usage: weir')
})

test('a server of the package stores and counts', async () => {
  const server = await startServer({ main })
  const pool = await server.createPool({})
  expect((await send(pool.url, [{ id: 1 }, { id: 2 }])).status).toBe(200)
  expect(await server.count(pool.poolId)).toBe('2')
  expect((await server.stop()).code).toBe(0)
})

test('a package without the native module says so, and names no set-up', async () => {
  rmSync(join(installed, 'dist', 'native'), { recursive: true, force: true })
  const server = await startServer({ main })
  await server.stop()
  expect(server.output()).toContain(
    'kernel js (slower): the native module cannot be used: this package was made without it',
  )
})

test('the package has each page that it names', () => {
  const sources = readdirSync(join(installed, 'dist'), { recursive: true })
    .map(name => join(installed, 'dist', String(name)))
    .filter(name => name.endsWith('.js'))
  const named = sources.flatMap(
    name => readFileSync(name, 'utf8').match(/\b(docs\/[\w-]+|README|CHANGELOG)\.md\b/g) ?? [],
  )
  expect(named).toContain('docs/contract.md')
  expect([...new Set(named)].filter(name => !existsSync(join(installed, name)))).toEqual([])
  expect(existsSync(join(dirname(main), 'main.ts'))).toBe(false)
})
