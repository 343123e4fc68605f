/**
 * `npm run package [folder]`: makes weir-<version>-linux-<cpu>.tgz, in dist/package or in `folder`.
 * npm installs it without a network and without a compiler (docs/decisions/0079).
 *
 * It holds what `npm pack` takes, and node_modules: the packages of package-lock.json that a server
 * loads on this kind of machine, without sources, types, maps and binaries of other machines. Their
 * package.json names no package that is not there and no script, so npm asks for nothing and runs
 * nothing.
 */
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, relative, resolve, sep } from 'node:path'
import { KNOWN_BINARIES } from '../dist/src/api/http/choose-transport.js'
import { dist, root } from '../src/setup/kit.mjs'
import { locked } from '../src/setup/packages.mjs'

const target = resolve(process.argv[2] ?? join(dist, 'package'))
mkdirSync(target, { recursive: true })
const work = mkdtempSync(join(target, 'making-'))
/** npm wants the files of a package in a folder of this name. */
const stage = join(work, 'package')

/** The C library of this machine. Node knows glibc only. */
const libc = process.report.getReport().header.glibcVersionRuntime === undefined ? 'musl' : 'glibc'
const otherLibc = libc === 'glibc' ? 'musl' : 'glibc'

/** Packages that only the build of the native module reads, and types. */
const NOT_LOADED = /^(simdjson|node-api-headers|node-addon-api|undici-types|temporal-spec|@types\/.*)$/

/** Files that no server loads. Licences stay. */
const NOT_LOADED_FILES =
  /(\.d\.[cm]?ts|\.[cm]?ts|\.map|\.gyp|\.c|\.cc|\.cpp|\.h|(?<!licen[cs]e)\.(md|markdown))$|^(\.\w+|test|tests|docs|examples|benchmark|bench|src)\//i

/**
 * The files of packages with builds for several machines or loaders.
 * @type {Record<string, (file: string) => boolean>}
 */
const LOADED_FILES = {
  'uWebSockets.js': file =>
    !file.endsWith('.node') ? /^(package\.json|LICENSE)$/.test(file) : isKnown(file),
  'parquet-wasm': file => !/^(bundler|esm)\//.test(file),
  'apache-arrow': file => !/^(bin\/|Arrow\.(es|externs))/.test(file),
  lmdb: file => /^(dist|dict)\/|^(package\.json|LICENSE)$/.test(file),
}

/** @param {string} file */
function isKnown(file) {
  const [, cpu, abi] = /^uws_linux_(\w+)_(\d+)\.node$/.exec(file) ?? []
  return cpu === process.arch && `${cpu}_${abi}` in KNOWN_BINARIES
}

/** The packages of OpenTelemetry have a build for each kind of loader. Node takes `build/src`. */
const OTHER_BUILDS = /^build\/(esm|esnext)\//

/** @param {string} name @param {string} file */
function isLoaded(name, file) {
  if (name.startsWith('@opentelemetry/') && OTHER_BUILDS.test(file)) return false
  if (NOT_LOADED_FILES.test(file) || file.endsWith(`.${otherLibc}.node`)) return false
  return LOADED_FILES[name]?.(file) ?? true
}

/** @param {string} command @param {string[]} args */
function run(command, ...args) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`)
  return stdout.trim()
}

/** The program, as `npm pack` takes it. */
function stageProgram() {
  const packed = run('npm', 'pack', '--silent', '--ignore-scripts', '--pack-destination', work)
  run('tar', '-xzf', join(work, packed), '-C', work)
}

/** The folders of the packages. */
function stagePackages() {
  const folders = Object.entries(locked('package-lock.json')).flatMap(([folder, { dev, devOptional }]) => {
    const isInstalled = folder !== '' && existsSync(join(root, folder))
    return !isInstalled || dev || devOptional || NOT_LOADED.test(nameOf(folder)) ? [] : [folder]
  })
  for (const folder of folders)
    cpSync(join(root, folder), join(stage, folder), {
      recursive: true,
      filter: path => {
        const file = relative(join(root, folder), path).split(sep).join('/')
        if (/(^|\/)node_modules(\/|$)/.test(file)) return false
        return statSync(path).isDirectory() || isLoaded(nameOf(folder), file)
      },
    })
  for (const folder of folders) rewrite(folder)
}

/** @param {string} folder */
const nameOf = folder => folder.replace(/^.*node_modules\//, '')

/**
 * Leaves in a package.json what is there, and nothing to run at the install.
 * @param {string} folder
 */
function rewrite(folder) {
  const path = join(stage, folder, 'package.json')
  const {
    scripts: _,
    devDependencies: __,
    gypfile: ___,
    ...manifest
  } = JSON.parse(readFileSync(path, 'utf8'))
  const isThere = ([name]) =>
    existsSync(join(stage, folder, 'node_modules', name)) || existsSync(join(stage, 'node_modules', name))
  for (const key of ['dependencies', 'optionalDependencies'])
    manifest[key] = Object.fromEntries(Object.entries(manifest[key] ?? {}).filter(isThere))
  writeFileSync(path, JSON.stringify(manifest, null, 2))
  return manifest
}

/** The package.json of the whole: npm refuses the package on another kind of machine. */
function finish() {
  const { files: _, ...manifest } = rewrite('')
  const ofMachine = { os: [process.platform], cpu: [process.arch], libc: [libc] }
  const bundled = { bundleDependencies: Object.keys(manifest.dependencies) }
  writeFileSync(
    join(stage, 'package.json'),
    JSON.stringify({ ...manifest, ...ofMachine, ...bundled }, null, 2),
  )
  const made = join(target, `weir-${manifest.version}-${process.platform}-${process.arch}.tgz`)
  run('tar', '-czf', made, '--sort=name', '--owner=0', '--group=0', '--numeric-owner', '-C', work, 'package')
  return made
}

/** @param {string} folder */
function bytesIn(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(one => one.isFile())
  return files.reduce((sum, one) => sum + statSync(join(one.parentPath, one.name)).size, 0)
}

try {
  stageProgram()
  stagePackages()
  const made = finish()
  const [packed, installed] = [statSync(made).size, bytesIn(stage)].map(
    bytes => `${Math.round(bytes / 1e6)} MB`,
  )
  const kernel = existsSync(join(stage, 'dist/native/weir.node')) ? '' : '; WITHOUT the native module'
  process.stdout.write(`${relative(process.cwd(), made)}: ${packed}, ${installed} installed${kernel}\n`)
} finally {
  rmSync(work, { recursive: true, force: true })
}
