/**
 * The package of `npm run package`: npm installs it in an empty folder, without a network, and the
 * program that is there runs.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { send, startServer, temporaryFolder } from '../util/server.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const home = temporaryFolder('weir-packed-')
const installed = join(home, 'node_modules', 'weir')
const main = join(installed, 'dist', 'src', 'app', 'main.js')
/** npm asks for nothing, and has kept nothing. */
const OFFLINE = ['--offline', '--cache', join(home, 'cache'), '--no-audit', '--no-fund']

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  expect([status, status === 0 ? '' : stderr]).toEqual([0, ''])
  return stdout
}

/** The files of the installed package, by their paths. */
function filesOf(isWanted: (name: string) => boolean): string[] {
  return readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => relative(installed, join(each.parentPath, each.name)))
    .filter(isWanted)
}

const isOfPackages = (name: string) => name.startsWith('node_modules/')

beforeAll(() => {
  const said = run(process.execPath, [join(ROOT, 'packaging', 'make.mjs'), home], ROOT)
  const packed = join(home, /weir-[\w.-]+\.tgz/.exec(said)?.[0] ?? '')
  writeFileSync(join(home, 'package.json'), '{}')
  run('npm', ['install', ...OFFLINE, '--ignore-scripts=false', packed], home)
})

test('what a package holds: the program and its pages, and nothing of the tests', () => {
  const names = filesOf(name => !isOfPackages(name))
  for (const name of [
    'dist/src/app/main.js',
    'dist/bundle/query.js',
    'dist/console/index.html',
    'src/api/graphql/query.graphql',
    'README.md',
    'LICENSE',
  ])
    expect(names).toContain(name)
  const wanted =
    /^(dist\/src\/app\/main\.js|dist\/bundle\/[\w.-]+\.js|dist\/console\/(index\.html|console\/[\w.-]+)|dist\/native\/weir\.node|src\/api\/graphql\/[\w-]+\.graphql|docs\/(how-to\/)?[\w-]+\.md|package\.json|[A-Z]+(\.md)?)$/
  expect(names.filter(name => !wanted.test(name))).toEqual([])
})

test('… and the packages that run, with their licences and the binaries of this kind of machine', () => {
  const names = filesOf(isOfPackages)
  const binaries = names.filter(name => /\.(node|so|dll|dylib)$/.test(name))
  expect(binaries.filter(name => !name.includes(`linux-${process.arch}`) && !name.includes('uws_'))).toEqual(
    [],
  )
  expect(
    binaries.filter(name => name.includes('uws_') && !name.includes(`uws_linux_${process.arch}_`)),
  ).toEqual([])
  expect(binaries.filter(name => /darwin|win32|musl/.test(name))).toEqual([])
  for (const name of ['lmdb', '@duckdb/node-api', 'graphql', 'uWebSockets.js'])
    expect(names).toContain(`node_modules/${name}/package.json`)
  expect(names.some(name => /^node_modules\/apache-arrow\/LICENSE/.test(name))).toBe(true)
  expect(names.filter(name => /\.(ts|map|cpp|h|c)$|^node_modules\/(simdjson|vitest)\//.test(name))).toEqual(
    [],
  )
  const scripts = names
    .filter(name => name.endsWith('package.json'))
    .filter(name => readFileSync(join(installed, name), 'utf8').includes('"scripts":'))
  expect(scripts).toEqual([])
})

test('npm refuses it on another kind of machine, by what its package.json says', () => {
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as Record<
    string,
    unknown
  >
  expect(manifest).toMatchObject({
    os: ['linux'],
    cpu: [process.arch],
    libc: [expect.stringMatching(/^(glibc|musl)$/)],
  })
})

test('npx finds the program', () => {
  expect(run('npx', ['--no-install', 'weir', '--help'], home)).toContain('usage: weir')
})

test('a server of the package stores and counts', async () => {
  const server = await startServer({ main })
  const pool = await server.createPool({})
  expect((await send(pool.url, [{ id: 1 }, { id: 2 }])).status).toBe(200)
  expect(await server.count(pool.poolId)).toBe('2')
  expect((await server.stop()).code).toBe(0)
  expect(server.output()).not.toMatch(/npm|set-up|setup/)
})

test('a package without the native module says so, and names no set-up', async () => {
  rmSync(join(installed, 'dist', 'native'), { recursive: true, force: true })
  const server = await startServer({ main })
  const pool = await server.createPool({})
  expect((await send(pool.url, [{ id: 1 }])).status).toBe(200)
  expect(await server.count(pool.poolId)).toBe('1')
  await server.stop()
  expect(server.output()).toContain(
    'kernel js (slower): the native module cannot be used: this package was made without it',
  )
  expect(server.output()).not.toMatch(/npm|set-up|setup/)
})

test('the package has each page that it names', () => {
  const sources = filesOf(name => /^dist\/.*\.js$/.test(name)).map(name => join(installed, name))
  const named = sources.flatMap(
    name => readFileSync(name, 'utf8').match(/\b(docs\/[\w-]+|README|CHANGELOG)\.md\b/g) ?? [],
  )
  expect(named).toContain('docs/contract.md')
  expect([...new Set(named)].filter(name => !existsSync(join(installed, name)))).toEqual([])
  expect(existsSync(join(dirname(main), 'main.ts'))).toBe(false)
})
