/**
 * Set-up's step for the console: dist/console, its page with hashed files (src/console). The server
 * reads them at its start.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CONSOLE_TYPES, dist, done, fail, isDone, removeStamp, run, tellStep } from './kit.mjs'

const INPUTS = {
  folders: ['src/console', 'package-lock.json'],
  endings: ['.ts', '.tsx', '.mjs', '.css', '.html', '.svg'],
  except: CONSOLE_TYPES,
}

export function isConsoleBuilt() {
  return existsSync(join(dist, 'console/index.html')) && isDone('console', INPUTS)
}

export async function buildConsole() {
  tellStep('building the console (vite)')
  removeStamp('console')
  const config = 'src/console/vite.config.mjs'
  const vite = ['node_modules/vite/bin/vite.js', 'build', '--config', config]
  const { ok, output } = await run(process.execPath, vite)
  if (!ok) {
    process.stderr.write(output)
    fail('the console could not be built')
  }
  done('console', INPUTS)
}
