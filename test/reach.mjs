/**
 * `npm run test:reach [commit]`: runs the test files whose imports reach a file that differs from
 * the commit, HEAD where none is given. A test that starts a server reaches all of it through the
 * process, and imports do not show that: such files run where they changed themselves.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DIST = join(ROOT, 'dist')
const IMPORT = /\b(?:from|import)\s*\(?\s*['"](\.{1,2}\/[^'"]+\.js)['"]/g

/** @param {string[]} args @returns {string[]} the lines that git prints */
function git(...args) {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' })
  if (status !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`)
  return stdout.split('\n').filter(line => line !== '')
}

/** @type {Map<string, string[]>} */
const imports = new Map()

/** @param {string} file a compiled file @returns {string[]} */
function importsOf(file) {
  let found = imports.get(file)
  if (found === undefined) {
    const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
    found = [...text.matchAll(IMPORT)].map(([, path = '']) => resolve(dirname(file), path))
    imports.set(file, found)
  }
  return found
}

/** @param {string} test @param {ReadonlySet<string>} changed */
function reaches(test, changed) {
  const seen = new Set([test])
  for (const file of seen) {
    if (changed.has(file)) return true
    for (const next of importsOf(file)) seen.add(next)
  }
  return false
}

const changed = new Set(
  [
    ...git('diff', '--name-only', process.argv[2] ?? 'HEAD'),
    ...git('ls-files', '--others', '--exclude-standard'),
  ].map(path => join(DIST, path.replace(/\.ts$/, '.js'))),
)
const tests = readdirSync(join(DIST, 'test'), { recursive: true })
  .map(String)
  .filter(name => name.endsWith('.test.js') && reaches(join(DIST, 'test', name), changed))
  .map(name => `dist/test/${name}`)
process.stdout.write(`${tests.length} test files reach ${changed.size} changed files\n`)
if (tests.length > 0)
  process.exitCode =
    spawnSync('npx', ['vitest', 'run', ...tests], { cwd: ROOT, stdio: 'inherit' }).status ?? 1
