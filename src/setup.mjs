/**
 * Set-up: makes a fresh clone runnable. It does nothing where nothing has changed.
 *
 *   1  packages     npm install by the lock file, when node_modules does not match it
 *   2  native       dist/native/weir.node, with the system's C++ compiler
 *   3  TypeScript   the types of the GraphQL schema (setup/graphql-types.mjs), then tsc to dist/
 *
 * Without a C++ compiler Weir runs its js kernel. Set-up is plain JavaScript without imports from
 * npm, because it runs first. It reports on standard error.
 *
 * `node src/setup.mjs` sets up. `node src/setup.mjs run FILE …` then runs dist/FILE in this
 * process. A server whose build is current needs no dev packages: an image may drop them (`npm
 * prune --omit=dev`).
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  didSomething,
  dist,
  done,
  endOf,
  fail,
  isDone,
  removeStamp,
  root,
  run,
  takeLock,
  tell,
  tellStep,
} from './setup/kit.mjs'
import { isNativeDone, native } from './setup/native.mjs'
import { hasPackages, installPackages } from './setup/packages.mjs'

const begin = performance.now()
const [, , verb, fileToRun = ''] = process.argv

/** The server needs `dependencies` alone; tests, benches and examples need dev packages. */
const isServer = verb === 'run' && fileToRun.startsWith('src/')

/** The files that tsc reads, and those that the types of the GraphQL schema are made from. */
const SOURCES = {
  folders: ['src', 'workers', 'test', 'bench', 'examples', 'tsconfig.json', 'package-lock.json'],
  endings: ['.ts', '.mjs', '.graphql'],
}

function isCompiled() {
  return existsSync(join(dist, 'src')) && isDone('typescript', SOURCES)
}

async function compile() {
  tellStep('compiling (tsc)')
  removeStamp('typescript')
  // A left .tsbuildinfo would claim that everything is compiled.
  if (!existsSync(join(dist, 'src'))) rmSync(join(dist, '.tsbuildinfo'), { force: true })
  await runScript('src/setup/graphql-types.mjs')
  await runScript('node_modules/typescript/bin/tsc', '-p', '.')
  done('typescript', SOURCES)
}

/** @param {string} script @param {string[]} args */
async function runScript(script, ...args) {
  const { ok, output } = await run(process.execPath, [script, ...args])
  if (ok) return
  process.stderr.write(output)
  fail(`${basename(script)} failed`)
}

/** True when nothing has to be done. Dev packages count only where something has to be compiled. */
function isReady() {
  return isCompiled() && isNativeDone() && hasPackages(!isServer)
}

async function setUp() {
  const releaseLock = await takeLock()
  const isBuilt = isCompiled() // checked again: another set-up may have compiled meanwhile
  if (!hasPackages(!isServer || !isBuilt)) await installPackages()
  await Promise.all([
    isNativeDone() ? undefined : native(process.env['CXX']),
    isCompiled() ? undefined : compile(),
  ])
  releaseLock()
}

/** package.json says ">=20.15". */
function checkNode() {
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const [major, minor] = engines.node.slice(2).split('.').map(Number)
  const [haveMajor, haveMinor] = process.versions.node.split('.').map(Number)
  if (haveMajor < major || (haveMajor === major && haveMinor < minor))
    fail(`Weir needs Node ${major}.${minor} or newer; this is ${process.version}`)
}

const signals = /** @type {const} */ (['SIGINT', 'SIGTERM'])
for (const signal of signals) process.on(signal, endOf)
checkNode()
try {
  if (!isReady()) await setUp()
} catch (error) {
  if (error.syscall === undefined) throw error
  fail(`this folder cannot be set up: ${error.message}`)
}
for (const signal of signals) process.off(signal, endOf)
if (didSomething()) tell(`done after ${((performance.now() - begin) / 1000).toFixed(0)} s`)

if (verb === 'run') {
  const file = join(dist, fileToRun)
  process.argv.splice(1, 3, file)
  await import(pathToFileURL(file).href)
}
