/**
 * A dependency that cannot load: one message names it, the reason and the remedy, without a stack.
 * Each case starts Weir from a copy of the installation in which files are missing or broken, and
 * which is whole again after it.
 */
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { loadReason } from '../../src/util/load-package.ts'
import { spawnServer, temporaryFolder } from '../util/server.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * A copy of the installation, by hard links where possible. A test replaces a file of it and never
 * changes one.
 */
function installation(): string {
  const root = temporaryFolder('weir-installed-')
  for (const folder of ['dist', 'src/api']) mkdirSync(join(root, folder), { recursive: true })
  copyFileSync(join(ROOT, 'package.json'), join(root, 'package.json'))
  for (const folder of [
    'node_modules',
    'dist/src',
    'dist/bundle',
    'dist/native',
    'dist/console',
    'src/api/graphql',
  ]) {
    // IMPORTANT: a copied link leads to the packages of a checkout, and tests remove packages.
    const from = realpathSync(join(ROOT, folder))
    const to = join(root, folder)
    if (spawnSync('cp', ['-al', from, to]).status !== 0) {
      rmSync(to, { recursive: true, force: true })
      expect(spawnSync('cp', ['-a', from, to]).status).toBe(0)
    }
    expect(lstatSync(to).isDirectory(), `${to} is a folder of its own`).toBe(true)
  }
  return root
}

let root: string
beforeAll(() => {
  root = installation()
})

/** Files and folders of the copy that are put aside until the test ends. */
const missing: string[] = []
function remove(...path: readonly string[]): string {
  const file = join(root, ...path)
  renameSync(file, `${file}.aside`)
  missing.push(file)
  return file
}
afterEach(() => {
  for (const file of missing.splice(0)) {
    rmSync(file, { force: true })
    renameSync(`${file}.aside`, file)
  }
})

/**
 * Replaces every file below `folder` whose name ends in `ending` by a few bytes that no loader
 * accepts.
 */
function breakFiles(folder: string, ending: string): void {
  let broken = 0
  for (const name of readdirSync(join(root, folder), { recursive: true }) as string[]) {
    if (!name.endsWith(ending) || !statSync(join(root, folder, name)).isFile()) continue
    writeFileSync(remove(folder, name), 'this is no library\n')
    broken++
  }
  expect(broken).toBeGreaterThan(0)
}

/** Removes the packages of a scope that have binaries for this machine. */
function removePackages(scope: string, prefix: string): void {
  const folder = join(root, 'node_modules', scope)
  const names = readdirSync(folder).filter(name => name.startsWith(prefix))
  expect(names).not.toEqual([])
  for (const name of names) remove('node_modules', scope, name)
}

function start(...args: string[]) {
  const main = join(root, 'dist', 'src', 'app', 'main.js')
  const data = join(temporaryFolder(), 'data')
  const ended = spawnSync(process.execPath, [main, '--port', '0', '--data-dir', data, ...args], {
    encoding: 'utf8',
    timeout: 60_000,
  })
  return { code: ended.status, out: ended.stdout, lines: ended.stderr.trim().split('\n') }
}

const PACKAGES_TO_REMOVE: readonly (readonly [told: string, takeAway: () => unknown])[] = [
  ['@duckdb/node-api', () => removePackages('@duckdb', 'node-bindings-')],
  ['lmdb', () => removePackages('@lmdb', 'lmdb-')],
  ['parquet-wasm', () => remove('node_modules', 'parquet-wasm')],
  ['piscina', () => remove('node_modules', 'piscina')],
  ['apache-arrow', () => remove('node_modules', 'apache-arrow')],
]

test.each(PACKAGES_TO_REMOVE)('%s that is not installed: exit 2, one line, the way out', (name, takeAway) => {
  takeAway()
  const { code, lines } = start()
  expect(lines).toEqual([expect.stringContaining(`the package ${name} cannot be loaded: `)])
  expect(lines[0]).toMatch(/(Cannot find|No native build)/)
  expect(lines[0]).toContain(`Node ${process.version}, ${process.platform} ${process.arch}, `)
  expect(lines[0]).toContain('Install the package of Weir again, the one for this machine')
  expect(code).toBe(2)
})

test.each([
  ['@duckdb/node-api', '@duckdb', '.node'],
  ['lmdb', '@lmdb', '.node'],
])('%s whose binary is damaged: exit 2, one line, the way out', (name, folder, ending) => {
  breakFiles(join('node_modules', folder), ending)
  const { code, lines } = start()
  expect(lines).toEqual([expect.stringContaining(`the package ${name} cannot be loaded: `)])
  expect(lines[0]).toMatch(/(file too short|invalid ELF header|ELF)/)
  expect(lines[0]).toContain('Install the package of Weir again, the one for this machine')
  expect(code).toBe(2)
})

test('the native module, damaged or of another machine: the js kernel runs, and a line says why', async () => {
  writeFileSync(remove('dist', 'native', 'weir.node'), 'this is no library\n')
  const main = join(root, 'dist', 'src', 'app', 'main.js')
  const server = spawnServer({ main, dataDir: join(temporaryFolder(), 'data') })
  await server.ready
  expect(server.output()).toMatch(
    /weir: kernel js \(slower\): the native module cannot be used: .*(file too short|invalid ELF header)/,
  )
  server.child.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0 })
  const { code, lines } = start('--kernel', 'native')
  expect(lines).toEqual([
    expect.stringMatching(/--kernel native: the native module cannot be used: .*ELF|short/),
  ])
  expect(code).toBe(2)
})

test('the reason is the one line that says it, whatever the package wraps it in', () => {
  const reasons = [
    [
      "This version of uWS.js supports only Node.js versions 16, 18.\n\nError: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /w/uws.node)",
      "/lib/libc.so.6: version `GLIBC_2.38' not found (required by /w/uws.node)",
    ],
    [
      "Cannot find module '@duckdb/node-bindings-linux-x64/duckdb.node'\nRequire stack:\n- /w/duckdb.js",
      "Cannot find module '@duckdb/node-bindings-linux-x64/duckdb.node'",
    ],
    ['Error loading shared library ld-linux-x86-64.so.2: No such file', undefined],
    ['', 'no reason given'],
  ] as const
  for (const [message, want] of reasons) expect(loadReason(new Error(message))).toBe(want ?? message)
})
