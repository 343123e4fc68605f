/**
 * `npm run docs`: builds the documentation into docs/site. The generator and what it needs stand in
 * site/node_modules, by a lock file of their own. They are installed when they are missing.
 */
import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { root, run } from '../src/setup/kit.mjs'
import { locked } from '../src/setup/packages.mjs'
import { problemsOf } from './check-links.mjs'

const OUTPUT = join(root, 'docs/site')
/** Broken links that are named. */
const PROBLEMS_SHOWN = 50

const begin = performance.now()

function isInstalled() {
  const have = locked('site/node_modules/.package-lock.json')
  return Object.entries(locked('site/package-lock.json')).every(
    ([folder, { integrity, optional }]) =>
      folder === '' || optional === true || have[folder]?.integrity === integrity,
  )
}

/** @param {string} line */
function tell(line) {
  process.stderr.write(`docs: ${line}\n`)
}

/** @param {string} what @returns {never} */
function fail(what) {
  tell(what)
  process.exit(2)
}

async function install() {
  tell('installing the generator (npm ci)')
  const { ok, output } = await run('npm', [
    'ci',
    '--prefix',
    'site',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
  ])
  if (ok && isInstalled()) return
  process.stderr.write(output)
  fail('npm ci failed: check that this machine reaches its npm registry, and run it again')
}

async function build() {
  rmSync(OUTPUT, { recursive: true, force: true })
  const { default: Eleventy } = await import('@11ty/eleventy') // it was not there before install()
  const configPath = 'site/eleventy.config.mjs'
  await new Eleventy('docs', 'docs/site', { configPath, quietMode: true }).write()
}

function sizes() {
  const files = readdirSync(OUTPUT, { recursive: true }).map(name => join(OUTPUT, String(name)))
  const pages = files.filter(name => name.endsWith('.html')).length
  const bytes = files.reduce((sum, name) => sum + (statSync(name).isFile() ? statSync(name).size : 0), 0)
  return `${pages} pages, ${(bytes / 1e6).toFixed(1)} MB`
}

process.chdir(root)
if (!isInstalled()) await install()
await build()
const problems = problemsOf(OUTPUT)
for (const problem of problems.slice(0, PROBLEMS_SHOWN)) tell(problem)
if (problems.length > 0) fail(`broken links: ${problems.length}`)
tell(`docs/site/index.html: ${sizes()}, after ${((performance.now() - begin) / 1000).toFixed(1)} s`)
