/**
 * Set-up's native step: the system's C++ compiler builds dist/native/weir.node from our sources,
 * simdjson's and liblmdb's.
 *
 * The step is optional. A failed build is tried again at the next two starts (a full disk, no
 * memory), and then only for other sources, packages or another compiler, so that a machine whose
 * compiler always fails does not compile at each start.
 */
import { spawnSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { extensionEnd } from './duckdb-extension.mjs'
import {
  contentOf,
  dist,
  done,
  isDone,
  readStamp,
  removeStamp,
  root,
  run,
  tell,
  tellStep,
  writeStamp,
} from './kit.mjs'
import { locked } from './packages.mjs'

/** Tries of the same compiler with the same sources. */
const BUILD_TRIES = 3

const JS_RUNS = 'Weir will run its js kernel (slower)'

const folder = join(dist, 'native')
const module = join(folder, 'weir.node')

/** The inputs of the module. A module of another platform or processor does not count. */
function inputs() {
  const packages = locked('package-lock.json')
  const names = ['lmdb', 'node-api-headers', 'simdjson']
  const versions = names.map(name => packages[`node_modules/${name}`]?.integrity)
  return {
    folders: ['src'],
    endings: ['.cpp', '.h', 'setup/native.mjs', 'setup/duckdb-extension.mjs'],
    more: `${process.platform} ${process.arch} ${versions}`,
  }
}

export function isNativeDone() {
  return existsSync(module) && isDone('native', inputs())
}

/**
 * Builds the module, or reports why it cannot.
 * @param {string | undefined} wanted the compiler that CXX names
 */
export async function native(wanted) {
  removeStamp('native')
  rmSync(folder, { recursive: true, force: true }) // an old module, or the rest of a killed set-up
  const found = compiler(wanted)
  if (found === undefined) return tell(`no C++ compiler: ${JS_RUNS}`)
  const attempt = `${contentOf(inputs())} ${found.name} ${found.version}`
  const last = readStamp('native-failed')
  const tries = last.attempt === attempt ? Number(last.tries) : 0
  if (tries >= BUILD_TRIES) {
    const again = `remove ${join('dist', 'setup', 'native-failed.json')} to try again`
    return tell(`the native module did not build with ${found.name}: ${last.reason}. ${JS_RUNS}; ${again}`)
  }
  mkdirSync(folder, { recursive: true })
  const objects = mkdtempSync(join(folder, 'objects-'))
  try {
    const broken = await probe(found.name, objects)
    if (broken !== undefined)
      return tell(`the C++ compiler ${found.name} builds no module (${broken}): ${JS_RUNS}`)
    tellStep(`building the native module (${found.name})`)
    const output = await buildModule({
      compiler: found.name,
      objects,
      out: module,
      optimize: ['-O3', '-DNDEBUG'],
    })
    if (output === undefined) {
      removeStamp('native-failed')
      return done('native', inputs())
    }
    process.stderr.write(output)
    writeStamp('native-failed', { attempt, tries: tries + 1, reason: firstError(output) })
    tell(`the native module did not build: ${JS_RUNS}`)
  } finally {
    rmSync(objects, { recursive: true, force: true })
  }
}

/** The line of a compiler's output that names the error. @param {string} output */
function firstError(output) {
  const lines = output.split('\n').filter(line => line.trim() !== '')
  return (
    lines.find(line => /error|No space|memory|ended by/i.test(line)) ??
    lines[0] ??
    'it said nothing'
  ).trim()
}

/**
 * The C++ compiler and its version; undefined without one.
 * @param {string | undefined} wanted the name from CXX
 */
function compiler(wanted) {
  for (const name of wanted ? [wanted] : ['g++', 'clang++', 'c++']) {
    const { status, stdout } = spawnSync(name, ['--version'])
    if (status === 0) return { name, version: stdout.toString() }
  }
  return undefined
}

/**
 * The reason why the compiler builds no module at all, such as a missing C++ library or linker. It
 * is checked before each build and does not count as a failed build, because the compiler's version
 * does not change when the rest is installed.
 * @param {string} name @param {string} objects @returns {Promise<string | undefined>}
 */
async function probe(name, objects) {
  const source = join(objects, 'probe.cpp')
  const text =
    '#include <atomic>\n#include <cstdint>\nextern "C" uint32_t probe() { return std::atomic<uint32_t>(7).load(); }\n'
  writeFileSync(source, text)
  const flags = [
    '-std=c++17',
    '-fPIC',
    '-shared',
    source,
    '-o',
    join(objects, 'probe.node'),
    '-lpthread',
    '-ldl',
  ]
  const { ok, output } = await run(name, flags)
  return ok ? undefined : firstError(output)
}

/** Sources of the module, with liblmdb and LZ4, which ship in the lmdb package. */
function sources() {
  const lmdb = 'node_modules/lmdb/dependencies/lmdb/libraries/liblmdb'
  const lz4 = 'node_modules/lmdb/dependencies/lz4/lib'
  const ours = readdirSync(join(root, 'src'), { recursive: true })
    .map(name => join('src', String(name)))
    .filter(name => /[/\\]native[/\\][^/\\]+\.cpp$/.test(name))
    .sort()
  return {
    ours,
    folders: [lmdb, lz4],
    theirs: [join(lmdb, 'mdb.c'), join(lmdb, 'midl.c'), join(lz4, 'lz4.c')],
  }
}

/**
 * Compiles a file on each processor, links to a new name and renames it, so a running server keeps
 * the old module.
 * @param {{ compiler: string, objects: string, out: string, optimize: string[], others?: string[]
 *   }} options
 *   `objects`: a folder of the caller; `optimize`: flags of this kind of build, for compiler and
 *   linker; `others`: more flags for sources that are not ours
 * @returns {Promise<string | undefined>} the compiler's output where it failed
 */
export async function buildModule({ compiler, objects, out, optimize, others = [] }) {
  const { ours, folders, theirs } = sources()
  const headers = ['node_modules/node-api-headers/include', 'node_modules/simdjson/simdjson/src', ...folders]
  const include = headers.map(path => `-I${path}`)
  const common = [...optimize, '-g1', '-fPIC', '-fvisibility=hidden', '-DNAPI_VERSION=8', ...include]
  const warnings = ['-Wall', '-Wextra', '-Wno-unused-parameter']
  const cxx = [...common, '-std=c++17', '-fno-exceptions', ...warnings, '-DSIMDJSON_EXCEPTIONS=0']
  const c = [...common, '-x', 'c', '-w', '-DMDB_MAXKEYSIZE=0', '-DMDB_USE_ROBUST', '-DLZ4LIB_VISIBILITY=']
  const queue = [
    { file: 'node_modules/simdjson/simdjson/src/simdjson.cpp', flags: [...cxx, '-w', ...others] },
    ...theirs.map(file => ({ file, flags: [...c, ...others] })),
    ...ours.map(file => ({ file, flags: cxx })),
  ].map(one => ({ ...one, object: join(objects, `${one.file.replace(/[/\\]/g, '_')}.o`) }))
  let next = 0
  let failed
  const worker = async () => {
    while (failed === undefined && next < queue.length) {
      const { file, flags, object } = queue[next++]
      const { ok, output } = await run(compiler, [...flags, '-c', file, '-o', object])
      if (!ok) failed ??= output
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, worker))
  if (failed !== undefined) return failed
  const made = `${out}.${process.pid}.tmp`
  const link = ['-shared', ...optimize, '-o', made, ...queue.map(one => one.object), '-lpthread', '-ldl']
  const { ok, output } = await run(compiler, link)
  if (!ok) {
    rmSync(made, { force: true })
    return output
  }
  appendFileSync(made, extensionEnd())
  renameSync(made, out)
  return undefined
}
