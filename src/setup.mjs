/**
 * Set-up: makes a fresh clone runnable. It does nothing where nothing has changed.
 *
 *   1  packages     npm install by the lock file, when node_modules does not match it
 *   2  native       dist/native/weir.node, with the system's C++ compiler
 *   3  TypeScript   the types of the GraphQL schema (setup/graphql-types.mjs), tsc to dist/, and a
 *                   bundle of the server (setup/bundle.mjs)
 *   4  console      dist/console, the pages at /, by vite
 *
 * Without a C++ compiler Weir runs its js kernel. Set-up is plain JavaScript without imports from
 * npm, because it runs first. It reports on standard error.
 *
 * `node src/setup.mjs` sets up all. `node src/setup.mjs run FILE …` then runs dist/FILE in this
 * process. A FILE of the server, and `node src/setup.mjs server`, which runs nothing, are set up
 * without the packages and files of tests, checks, benches and examples. A server whose build is
 * current needs no dev packages: an image may drop them (`npm prune --omit=dev`).
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildConsole, isConsoleBuilt } from './setup/console.mjs'
import { didSomething, dist, endOf, fail, root, takeLock, tell } from './setup/kit.mjs'
import { isNativeDone, native } from './setup/native.mjs'
import { hasPackages, installPackages } from './setup/packages.mjs'
import { compile, isCompiled } from './setup/typescript.mjs'

const begin = performance.now()
const [, , verb, fileToRun = ''] = process.argv

/** A server needs neither the packages nor the compiled files of tests, benches and examples. */
const isServer = verb === 'server' || (verb === 'run' && fileToRun.startsWith('src/'))
const kind = isServer ? 'server' : 'all'

/** True when nothing has to be done. A server whose build is current needs no dev packages. */
function isReady() {
  return isBuilt() && isNativeDone() && hasPackages(kind)
}

function isBuilt() {
  return isCompiled(kind) && isConsoleBuilt()
}

async function setUp() {
  const releaseLock = await takeLock()
  // Checked again: another set-up may have compiled meanwhile.
  const needed = isServer && !isBuilt() ? 'build' : kind
  if (!hasPackages(needed)) await installPackages(!isServer)
  await Promise.all([
    isNativeDone() ? undefined : native(process.env['CXX']),
    isCompiled(kind) ? undefined : compile(kind),
    isConsoleBuilt() ? undefined : buildConsole(),
  ])
  releaseLock()
}

/** package.json says ">=20.19". */
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
