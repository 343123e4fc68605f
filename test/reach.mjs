/**
 * `npm run test:reach [-- commit]`: runs those of `npm test` whose imports reach a file that
 * differs from the commit, HEAD where none is given. Imports show neither what a test reaches
 * through a server that it starts, nor the files of C++, GraphQL and set-up; these are named.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
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
const unfollowed = [...changed].filter(path => !path.endsWith('.js')).map(path => relative(DIST, path))
if (unfollowed.length > 0) process.stdout.write(`no import shows who uses ${unfollowed.join(', ')}\n`)
if (tests.length > 0) {
  const env = { ...process.env, WEIR_TEST_FILES: JSON.stringify(tests) }
  const options = /** @type {const} */ ({ cwd: ROOT, env, stdio: 'inherit' })
  process.exitCode = spawnSync('npx', ['vitest', 'run', '--mode', 'reach'], options).status ?? 1
}
