/**
 * Set-up's TypeScript step: the types of the GraphQL schema, tsc to dist/, then the bundle. A start
 * compiles the server alone, because tests, benches and examples import dev packages. Both kinds
 * share one .tsbuildinfo, so neither does the work of the other again.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { CONSOLE_TYPES, dist, done, fail, isDone, removeStamp, root, run, tellStep } from './kit.mjs'

const SERVER = ['src', 'workers']
const OTHERS = ['test', 'bench', 'examples']

/**
 * The files that tsc reads, and those that the types of the GraphQL schema are made from.
 * @param {string[]} folders
 */
function inputsOf(folders) {
  return {
    folders: [...folders, 'tsconfig.json', 'package-lock.json'],
    endings: ['.ts', '.mjs', '.graphql'],
    except: CONSOLE_TYPES,
  }
}

/** What each kind compiles. */
const KINDS = {
  server: { project: 'src/setup', inputs: inputsOf(SERVER) },
  all: { project: '.', inputs: inputsOf([...SERVER, ...OTHERS]) },
}

/** @param {'server' | 'all'} kind */
export function isCompiled(kind) {
  return existsSync(join(dist, 'bundle/run-command.js')) && isDone(`typescript-${kind}`, KINDS[kind].inputs)
}

/** @param {'server' | 'all'} kind */
export async function compile(kind) {
  tellStep('compiling (tsc)')
  for (const each of Object.keys(KINDS)) removeStamp(`typescript-${each}`)
  // A left .tsbuildinfo would claim that everything is compiled.
  if (!existsSync(join(dist, 'src'))) rmSync(join(dist, '.tsbuildinfo'), { force: true })
  await runScript('src/setup/graphql-types.mjs')
  await runScript('node_modules/typescript/bin/tsc', '-p', KINDS[kind].project)
  for (const folder of [...SERVER, ...OTHERS]) removeLeftFiles(folder)
  await runScript('src/setup/bundle.mjs')
  done('typescript-server', KINDS.server.inputs)
  if (kind === 'all') done('typescript-all', KINDS.all.inputs)
}

/** @param {string} script @param {string[]} args */
async function runScript(script, ...args) {
  const { ok, output } = await run(process.execPath, [script, ...args])
  if (ok) return
  process.stderr.write(output)
  fail(`${basename(script)} failed`)
}

/**
 * Removes what tsc wrote for sources that are gone: a test of them would still run.
 * @param {string} folder
 */
function removeLeftFiles(folder) {
  if (!existsSync(join(dist, folder))) return
  for (const name of readdirSync(join(dist, folder), { recursive: true }).map(String)) {
    const file = join(folder, name)
    if (/\.js(\.map)?$/.test(file) && !existsSync(join(root, file.replace(/\.js(\.map)?$/, '.ts'))))
      rmSync(join(dist, file))
  }
}
