/**
 * Set-up: makes a fresh clone runnable, and does nothing where that is done already.
 *
 *   1  packages     npm install by the lock file, when node_modules does not match the lock file
 *   2  native       dist/native/weir.node, with the system's C++ compiler; without one Weir runs its js kernel
 *   3  TypeScript   tsc to dist/
 *
 * Plain JavaScript without imports from npm: it runs before there is anything else. What it does goes to standard error.
 * `node src/setup.mjs` sets up; `node src/setup.mjs run FILE …` then runs dist/FILE in this process.
 */
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = join(root, 'dist')
const stamps = join(dist, 'stamps.json')

const begin = performance.now()
let didSomething = false
/** Commands that run now: a signal that ends the set-up ends them too. */
const children = new Set()

/** @param {string} line */
function tell(line) {
  process.stderr.write(`set-up: ${line}\n`)
}

/** @param {string} line what takes a while, and begins now */
function tellStep(line) {
  didSomething = true
  tell(line)
}

/** @param {string} what */
function fail(what) {
  tell(what)
  process.exit(2)
}

/** @param {'SIGINT' | 'SIGTERM'} signal */
function endOf(signal) {
  for (const child of children) child.kill(signal)
  process.exit(signal === 'SIGINT' ? 130 : 143)
}

/**
 * Runs a command and shows what it prints only if it fails.
 * @param {string} command @param {string[]} args @returns {Promise<boolean>}
 */
function run(command, args) {
  return new Promise(resolve => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    children.add(child)
    let output = ''
    child.stdout.on('data', data => (output += data))
    child.stderr.on('data', data => (output += data))
    child.on('error', () => resolve(false))
    child.on('close', code => {
      children.delete(child)
      if (code !== 0) process.stderr.write(output)
      resolve(code === 0)
    })
  })
}

/** Names and sizes and times of all files below `folders` whose name ends in one of `endings`. */
function fingerprint(folders, endings) {
  const hash = createHash('sha256')
  for (const folder of folders) {
    const path = join(root, folder)
    if (!existsSync(path)) continue
    const names = statSync(path).isFile() ? [''] : readdirSync(path, { recursive: true }).sort()
    for (const name of names) {
      if (name !== '' && !endings.some(ending => String(name).endsWith(ending))) continue
      const { size, mtimeMs } = statSync(join(path, String(name)))
      hash.update(`${folder}/${name} ${size} ${mtimeMs}\n`)
    }
  }
  return hash.digest('hex')
}

/** @returns {Record<string, string>} what each step was last done for */
function readStamps() {
  try {
    return JSON.parse(readFileSync(stamps, 'utf8'))
  } catch {
    return {}
  }
}

/** @param {string} step @param {string} value */
function stamp(step, value) {
  mkdirSync(dist, { recursive: true })
  const made = `${stamps}.${process.pid}.tmp` // two starts at once: each has its own
  writeFileSync(made, JSON.stringify({ ...readStamps(), [step]: value }))
  renameSync(made, stamps)
}

/** The packages that a lock file lists, by folder. @param {string} path */
function locked(path) {
  try {
    return JSON.parse(readFileSync(join(root, path), 'utf8')).packages
  } catch {
    return {}
  }
}

/** Does node_modules hold what the lock file asks for? npm leaves a lock file of its own there when it is done. */
function hasPackages() {
  const have = locked('node_modules/.package-lock.json')
  return Object.entries(locked('package-lock.json')).every(([folder, { integrity, optional }]) =>
    folder in have ? have[folder].integrity === integrity : folder === '' || optional === true,
  )
}

async function packages() {
  if (hasPackages()) return
  tellStep('installing packages (npm install)')
  // Without a network it ends in two minutes instead of ten; with NODE_ENV=production tsc is needed all the same.
  const retries = ['--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000']
  const flags = ['--no-save', '--no-audit', '--no-fund', '--include=dev', ...retries]
  const patience = setTimeout(
    () => tell('npm is still at work: does this machine reach its registry?'),
    30_000,
  )
  const isDone = await run('npm', ['install', ...flags])
  clearTimeout(patience)
  if (!isDone || !hasPackages())
    fail('npm install failed: Weir needs the packages of package-lock.json from an npm registry once')
}

/** The C++ compiler and what it says of itself, or undefined. CXX names another than the usual ones. */
function compiler() {
  const names = process.env['CXX'] ? [process.env['CXX']] : ['g++', 'clang++', 'c++']
  for (const name of names) {
    const { status, stdout } = spawnSync(name, ['--version'])
    if (status === 0) return { name, version: stdout.toString() }
  }
  return undefined
}

/** Sources of the module, with liblmdb and LZ4, which ship in the lmdb package. */
function nativeSources() {
  const lmdb = 'node_modules/lmdb/dependencies/lmdb/libraries/liblmdb'
  const ours = readdirSync(join(root, 'src'), { recursive: true })
    .map(name => join('src', String(name)))
    .filter(name => /[/\\]native[/\\][^/\\]+\.cpp$/.test(name))
    .sort()
  const lz4 = 'node_modules/lmdb/dependencies/lz4/lib'
  const theirs = [join(lmdb, 'mdb.c'), join(lmdb, 'midl.c'), join(lz4, 'lz4.c')]
  return { ours, folders: [lmdb, lz4], theirs }
}

async function native() {
  const want = fingerprint(['src', 'src/setup.mjs', 'package-lock.json'], ['.cpp', '.h'])
  const module = join(dist, 'native', 'weir.node')
  if (readStamps()['native'] === want && existsSync(module)) return
  rmSync(module, { force: true }) // built from other sources: never run half of each
  const found = compiler()
  if (found === undefined) {
    tell('no C++ compiler: Weir will run its js kernel (slower)')
    return
  }
  // A build that failed is not tried at every start again, but with another compiler, or after a change.
  const tried = `${want} ${found.name} ${found.version}`
  const again = 'Weir will run its js kernel (slower); remove dist/stamps.json to try again'
  if (readStamps()['nativeFailed'] === tried) {
    tell(`the native module did not build with ${found.name}: ${again}`)
    return
  }
  tellStep(`building the native module (${found.name})`)
  if (await buildNative(found.name)) return stamp('native', want)
  stamp('nativeFailed', tried)
  tell(`the native module did not build: ${again}`)
}

/** Compiles to objects, two at a time, links to a new name and renames it: a running server keeps the old one. */
async function buildNative(found) {
  const { ours, folders, theirs } = nativeSources()
  const folder = join(dist, 'native')
  mkdirSync(folder, { recursive: true })
  const headers = ['node_modules/node-api-headers/include', 'node_modules/simdjson/simdjson/src', ...folders]
  const include = headers.map(path => `-I${path}`)
  const common = ['-O3', '-g1', '-fPIC', '-fvisibility=hidden', '-DNDEBUG', '-DNAPI_VERSION=8', ...include]
  const cxx = [
    ...common,
    '-std=c++17',
    '-fno-exceptions',
    '-Wall',
    '-Wextra',
    '-Wno-unused-parameter',
    '-DSIMDJSON_EXCEPTIONS=0',
  ]
  const c = [...common, '-x', 'c', '-w', '-DMDB_MAXKEYSIZE=0', '-DMDB_USE_ROBUST', '-DLZ4LIB_VISIBILITY=']
  const queue = [...theirs.map(file => ({ file, flags: c })), ...ours.map(file => ({ file, flags: cxx }))]
  queue.push({ file: 'node_modules/simdjson/simdjson/src/simdjson.cpp', flags: [...cxx, '-w'] })
  const objects = queue.map(({ file }) => join(folder, `${file.replace(/[/\\]/g, '_')}.o`))
  let next = 0
  let good = true
  const worker = async () => {
    while (good && next < queue.length) {
      const index = next++
      const { file, flags } = queue[index]
      good = (await run(found, [...flags, '-c', file, '-o', objects[index]])) && good
    }
  }
  await Promise.all([worker(), worker()])
  if (!good) return false
  const made = join(folder, `weir.node.${process.pid}.tmp`)
  if (!(await run(found, ['-shared', '-o', made, ...objects, '-lpthread', '-ldl']))) return false
  renameSync(made, join(folder, 'weir.node'))
  return true
}

async function typescript() {
  const want = fingerprint(
    ['src', 'workers', 'test', 'bench', 'examples', 'tsconfig.json', 'package-lock.json'],
    ['.ts', '.mjs'],
  )
  if (readStamps()['typescript'] === want && existsSync(join(dist, 'src'))) return
  tellStep('compiling (tsc)')
  if (!(await run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.']))) fail('tsc failed')
  stamp('typescript', want)
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
await packages()
await Promise.all([native(), typescript()])
for (const signal of signals) process.off(signal, endOf)
if (didSomething) tell(`done after ${((performance.now() - begin) / 1000).toFixed(0)} s`)

if (process.argv[2] === 'run') {
  const file = join(dist, process.argv[3] ?? '')
  process.argv.splice(1, 3, file)
  await import(pathToFileURL(file).href)
}
