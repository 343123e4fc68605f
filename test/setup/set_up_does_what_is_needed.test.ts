/** Set-up installs and builds what is missing, once, and nothing else. */
import { once } from 'node:events'
import { utimesSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Clone } from './clone.ts'

let clone: Clone
beforeEach(() => {
  clone = new Clone()
})
afterEach(() => clone.close())

const BUILT = [
  'bundle',
  'compile src/parse/native/a.cpp',
  'compile src/parse/native/b.cpp',
  'link',
  'tsc src/setup',
  'types',
  'vite',
]

/** npm installs what the server and its compilation need. */
const BUILDERS =
  /^npm install .*--omit=dev .*typescript@7\.1\.2 @types\/node@20\.1\.2 @types\/cli-progress@3\.1\.2 rolldown@1\.1\.2 vite@8\.1\.2 preact@11\.1\.2 preact-iso@2\.1\.2 uplot@1\.1\.2$/
/** npm installs all packages. */
const ALL = /^npm install .*--include=dev$/

async function startsAndRuns() {
  const ended = await clone.start()
  expect([ended.code, ended.output]).toEqual([0, expect.stringContaining('weir runs')])
  return ended
}

test('a fresh clone installs and builds, and a second start does nothing', async () => {
  clone.prune()
  await startsAndRuns()
  const calls = clone.takeCalls()
  expect(calls.shift()).toMatch(BUILDERS)
  expect(calls.sort()).toEqual(BUILT)
  expect((await startsAndRuns()).output).toBe('weir runs\n')
  expect(clone.takeCalls()).toEqual([])
})

test('an image without the packages to build with starts, and installs nothing', async () => {
  await startsAndRuns()
  clone.takeCalls()
  clone.prune()
  expect((await startsAndRuns()).output).toBe('weir runs\n')
  expect(clone.takeCalls()).toEqual([])
})

test('… and installs what compiles the server where there is something to build', async () => {
  await startsAndRuns()
  clone.takeCalls()
  clone.prune()
  clone.append('src/app/main.ts', 'changed')
  await startsAndRuns()
  expect(clone.takeCalls()).toEqual([expect.stringMatching(BUILDERS), 'types', 'tsc src/setup', 'bundle'])
})

test('a start is no set-up of the tests, which installs and compiles the rest; then a start does nothing', async () => {
  clone.prune()
  await startsAndRuns()
  clone.takeCalls()
  expect((await clone.setUp()).code).toBe(0) // as `npm test` does, whose next step is vitest
  expect(clone.takeCalls()).toEqual([expect.stringMatching(ALL), 'types', 'tsc .', 'bundle'])
  expect((await startsAndRuns()).output).toBe('weir runs\n')
  expect(clone.takeCalls()).toEqual([])
})

test('the set-up of a server alone, for its package, is that of a start, and runs nothing', async () => {
  clone.prune()
  expect(await clone.setUp('server')).toMatchObject({
    code: 0,
    output: expect.not.stringContaining('weir runs'),
  })
  const calls = clone.takeCalls()
  expect(calls.shift()).toMatch(BUILDERS)
  expect(calls.sort()).toEqual(BUILT)
  expect((await startsAndRuns()).output).toBe('weir runs\n')
  expect(clone.takeCalls()).toEqual([])
})

test('a start keeps the packages of the tests where it installs others', async () => {
  await startsAndRuns()
  clone.takeCalls()
  clone.write('node_modules/.package-lock.json', '{"packages":{}}')
  await startsAndRuns()
  expect(clone.takeCalls()).toEqual([expect.stringMatching(ALL)])
})

test('binaries that run on other machines, or on Nodes without Weir, are removed after the install', async () => {
  clone.prune()
  const { platform, arch } = process
  const own = [`uws_${platform}_${arch}_115.node`, `uws_${platform}_${arch}_999.node`]
  const others = [
    `uws_${platform}_${arch}_93.node`,
    `uws_${platform}_other_115.node`,
    'uws_other_x64_115.node',
  ]
  for (const name of [...own, ...others, 'uws.js']) clone.write(`installed/uWebSockets.js/${name}`, 'a file')
  await startsAndRuns()
  expect(clone.list('node_modules/uWebSockets.js')).toEqual([...own, 'uws.js'].sort())
})

test('an install that fails says what to check', async () => {
  clone.prune()
  clone.write('node_modules/.package-lock.json', '{"packages":{}}')
  clone.npm('echo "no network" >&2; exit 1')
  const { code, output } = await clone.start()
  expect([code, output]).toEqual([2, expect.stringContaining('no network')])
  expect(output).toContain('check that this machine reaches its npm registry')
})

test('what tsc wrote for a source that is gone is removed', async () => {
  for (const name of ['dist/src/app/gone.js', 'dist/src/app/gone.js.map', 'dist/test/gone.test.js'])
    clone.write(name, '')
  await startsAndRuns()
  expect(clone.list('dist/src/app')).toEqual(['main.js'])
  expect(clone.list('dist/test')).toEqual([])
})

test('a package that the server needs and that is missing is installed', async () => {
  await startsAndRuns()
  clone.takeCalls()
  clone.write('node_modules/.package-lock.json', '{"packages":{}}')
  await startsAndRuns()
  expect(clone.takeCalls()).toEqual([expect.stringMatching(/^npm install /)])
})

test('a changed schema makes the types of its resolvers, and only then compiles', async () => {
  await startsAndRuns()
  clone.takeCalls()
  clone.append('src/api/graphql/a.graphql', 'changed')
  await startsAndRuns()
  expect(clone.takeCalls()).toEqual(['types', 'tsc src/setup', 'bundle'])
})

test('a changed page builds the console, and nothing else', async () => {
  await startsAndRuns()
  clone.takeCalls()
  clone.append('src/console/main.tsx', 'changed')
  await startsAndRuns()
  expect(clone.takeCalls()).toEqual(['vite'])
})

test('a copied folder, whose files have other times, builds nothing', async () => {
  await startsAndRuns()
  clone.takeCalls()
  for (const file of ['src/app/main.ts', 'src/parse/native/a.cpp', 'package-lock.json'])
    utimesSync(join(clone.root, file), 1_000_000_000, 1_000_000_000)
  expect((await startsAndRuns()).output).toBe('weir runs\n')
  expect(clone.takeCalls()).toEqual([])
})

test('an image that cannot be written to starts, and its files may have other times', async () => {
  await startsAndRuns()
  clone.takeCalls()
  utimesSync(join(clone.root, 'src/app/main.ts'), 1_000_000_000, 1_000_000_000)
  expect(await clone.startReadOnly()).toEqual({ code: 0, output: 'weir runs\n' })
  clone.append('src/app/main.ts', 'changed')
  const { code, output } = await clone.startReadOnly()
  expect([code, output]).toEqual([2, expect.stringMatching(/this folder cannot be set up: E\w+: .*dist/)])
  expect(output).not.toContain('    at ')
})

test('four set-ups at once: one builds, the others wait for it and run', async () => {
  const ended = await Promise.all([1, 2, 3, 4].map(() => clone.start()))
  for (const { code, output } of ended)
    expect([code, output]).toEqual([0, expect.stringContaining('weir runs')])
  expect(clone.takeCalls().sort()).toEqual(BUILT)
})

test('a server that was set up and runs keeps no other set-up waiting', async () => {
  clone.tsc('setInterval(() => undefined, 1000); console.log("weir runs")')
  const server = clone.spawn('run', 'src/app/main.js')
  await once(server.stdout, 'data')
  clone.append('src/app/main.ts', 'changed')
  const { code, output } = await clone.setUp()
  expect([code, output]).toEqual([0, expect.not.stringContaining('another set-up works')])
  expect(server.exitCode).toBe(null)
})
