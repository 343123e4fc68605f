/** Set-up's first step: node_modules holds what the lock file asks for. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root, run, tell, tellStep } from './kit.mjs'

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
 * @param {boolean} withDev dev packages count too
 */
export function hasPackages(withDev) {
  const have = locked('node_modules/.package-lock.json')
  return Object.entries(locked('package-lock.json')).every(
    ([folder, { integrity, optional, dev, devOptional }]) => {
      if (folder in have) return have[folder].integrity === integrity
      return folder === '' || optional === true || (!withDev && (dev === true || devOptional === true))
    },
  )
}

/** Installs all packages, dev packages included. */
export async function installPackages() {
  tellStep('installing packages (npm install)')
  // Fewer retries: without a network npm ends in two minutes, not ten. tsc is needed even with
  // NODE_ENV=production.
  const retries = ['--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000']
  const flags = ['--no-save', '--no-audit', '--no-fund', '--include=dev', ...retries]
  const patience = setTimeout(
    () => tell('npm is still working: check that this machine reaches its registry'),
    30_000,
  )
  const { ok, output } = await run('npm', ['install', ...flags])
  clearTimeout(patience)
  if (ok && hasPackages(true)) return
  process.stderr.write(output)
  fail(
    'npm install failed: run it again where an npm registry is reachable; Weir needs the packages of package-lock.json once',
  )
}
