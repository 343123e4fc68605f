/**
 * Set-up's first step: node_modules holds what the lock file asks for, as far as it is needed.
 *
 *   server   `dependencies`: enough to run a server whose build is current
 *   build    those, and what compiles the server
 *   all      tests, checks, benches and examples too
 */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root, run, tellStep } from './kit.mjs'

/** @typedef {'server' | 'build' | 'all'} Packages */

/** The dev packages that compile the server and build the console. */
const BUILDERS = [
  'typescript',
  '@types/node',
  '@types/cli-progress',
  'rolldown',
  'vite',
  'preact',
  'preact-iso',
  'uplot',
]

/** The first ABI whose Node runs Weir, of Node 20. */
const ABI_MIN = 115

/**
 * The packages that a lock file lists, by folder.
 * @param {string} path
 * @returns {Record<string, any>}
 */
export function locked(path) {
  try {
    return JSON.parse(readFileSync(join(root, path), 'utf8')).packages
  } catch {
    return {}
  }
}

/**
 * True when the packages are installed. npm leaves a lock file of its own in node_modules, and
 * changes it when it prunes.
 * @param {Packages} wanted
 */
export function hasPackages(wanted) {
  const have = locked('node_modules/.package-lock.json')
  return Object.entries(locked('package-lock.json')).every(
    ([folder, { integrity, optional, dev, devOptional }]) => {
      if (folder in have) return have[folder].integrity === integrity
      if (folder === '' || optional === true) return true
      const isDev = dev === true || devOptional === true
      return (
        isDev && wanted !== 'all' && !(wanted === 'build' && BUILDERS.some(name => folderOf(name) === folder))
      )
    },
  )
}

/** @param {string} name */
function folderOf(name) {
  return `node_modules/${name}`
}

/**
 * Installs the packages that build the server. All packages where `isWhole`, and in a folder that
 * had them: npm would remove the others.
 * @param {boolean} isWhole
 */
export async function installPackages(isWhole) {
  tellStep('installing packages (npm install)')
  const lock = locked('package-lock.json')
  const builders = BUILDERS.map(name => `${name}@${lock[folderOf(name)].version}`)
  // npm leaves dev packages out, and takes the builders for others. It saves neither.
  const what =
    isWhole || existsSync(join(root, folderOf('vitest')))
      ? ['--include=dev'] // NODE_ENV=production would leave them out
      : ['--omit=dev', '--save-prod', ...builders]
  // Fewer retries: without a network npm ends in two minutes, not ten.
  const retries = ['--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000']
  const flags = ['--no-save', '--no-audit', '--no-fund', ...retries]
  const { ok, output } = await run('npm', ['install', ...flags, ...what])
  if (ok && hasPackages(isWhole ? 'all' : 'build')) return removeForeignBinaries()
  process.stderr.write(output)
  fail(
    'npm install failed: check that this machine reaches its npm registry, and run it again; Weir needs the packages of package-lock.json once',
  )
}

/**
 * uWebSockets.js comes with binaries for all machines and Node versions, 250 MB. Those that cannot
 * run Weir here are removed. Those of other Node versions stay, so that another Node needs no
 * network.
 */
function removeForeignBinaries() {
  const folder = join(root, folderOf('uWebSockets.js'))
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const [, platform, arch, abi] = /^uws_([a-z0-9]+)_([a-z0-9]+)_(\d+)\.node$/.exec(name) ?? []
    if (abi === undefined) continue
    if (platform === process.platform && arch === process.arch && Number(abi) >= ABI_MIN) continue
    rmSync(join(folder, name))
  }
}
