/**
 * The whole native module under the address and undefined-behaviour sanitizers: a copy of the build
 * whose weir.node is compiled with them runs the tests of native code, and a real server under load
 * with kills and restarts. Node itself is not instrumented, so leaks are not looked for. Any report
 * fails, from whichever process it came: each writes a file.
 */
import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildModule } from '../../src/setup/native.mjs'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
/** A root of its own: dist/, package.json, and node_modules of the folders above. */
const tree = join(root, 'dist', 'sanitize', 'tree')
const reports = join(tree, 'reports')

const FLAGS = ['-O1', '-fno-omit-frame-pointer', '-fsanitize=address,undefined', '-fno-sanitize-recover=all']
/**
 * liblmdb reads words at odd addresses by design, LZ4 and simdjson shift as they like: bounds are
 * what counts there.
 */
const OTHERS = ['-fno-sanitize=undefined']

/**
 * Tests that call native code directly, and a server that does everything with it. Paths below
 * dist/test.
 */
const TESTS = [
  'parse/kernel_agrees',
  'parse/native_',
  'parse/request_outcomes',
  'index/index_commits',
  'index/store_random_changes',
  'index/compaction_moves_keys',
  'index/versions_in_commits',
  'path/records_model',
  'query/engine_reads_segments',
  'query/exact_sums',
  'query/live_rows_two_ways',
  'query/live_rows_native',
  'query/record_batches',
  'store/assembling_two_ways',
  'store/keys_and_versions_model',
  'store/min_max_two_ways',
  'store/keys_sorted_by_runs',
  'store/parquet_encoded_two_ways',
  'store/payloads_in_batches',
  'store/segment_keys_read_two_ways',
  'util/crc32',
  'util/past_the_cache',
]

/** A run that takes longer than this hangs: it takes four minutes on two cores. */
const RUN_MS_MAX = 900_000

/** @param {string} line */
function tell(line) {
  process.stdout.write(`sanitize: ${line}\n`)
}

/** A library of the compiler, by its path. @param {string} cxx @param {string} name */
function library(cxx, name) {
  return spawnSync(cxx, [`-print-file-name=${name}`])
    .stdout.toString()
    .trim()
}

/** The environment of an instrumented process. @param {string} cxx */
function environment(cxx) {
  // libstdc++ too: the sanitizer looks for its throw at the start, and Node has one of its own
  // inside.
  const preload = [library(cxx, 'libasan.so'), library(cxx, 'libstdc++.so.6')].join(' ')
  const common = `log_path=${join(reports, 'report')}:halt_on_error=1:print_stacktrace=1`
  return {
    ...process.env,
    LD_PRELOAD: preload,
    ASAN_OPTIONS: `${common}:detect_leaks=0:alloc_dealloc_mismatch=0:quarantine_size_mb=64:allocator_may_return_null=1`,
    UBSAN_OPTIONS: common,
    // Models run with the native kernel only, and fewer sequences: under sanitizers a start takes
    // seconds.
    WEIR_KERNEL: 'native',
    WEIR_TEST_RUNS: '1',
  }
}

/** The build's files beside a module of our own. @param {string} cxx @returns {Promise<boolean>} */
async function makeTree(cxx) {
  rmSync(tree, { recursive: true, force: true })
  for (const folder of ['dist/native', 'objects', 'reports'])
    mkdirSync(join(tree, folder), { recursive: true })
  copyFileSync(join(root, 'package.json'), join(tree, 'package.json'))
  for (const folder of ['src', 'workers', 'test', 'console']) {
    const { status, stderr } = spawnSync('cp', ['-a', join(root, 'dist', folder), join(tree, 'dist', folder)])
    if (status !== 0) throw new Error(stderr.toString())
  }
  // Fixtures, and the sources that stack traces name.
  for (const folder of ['src', 'test', 'workers', 'bench', 'examples'])
    symlinkSync(join(root, folder), join(tree, folder))
  const out = join(tree, 'dist', 'native', 'weir.node')
  const objects = join(tree, 'objects')
  const said = await buildModule({ compiler: cxx, objects, out, optimize: FLAGS, others: OTHERS })
  if (said !== undefined) process.stderr.write(said)
  return said === undefined
}

/**
 * @param {string} what @param {string[]} args @param {NodeJS.ProcessEnv} env @returns
 *   {Promise<boolean>}
 */
function run(what, args, env) {
  tell(what)
  return new Promise(resolve => {
    const child = spawn(process.execPath, args, { cwd: tree, env, stdio: 'inherit', timeout: RUN_MS_MAX })
    child.on('error', () => resolve(false))
    child.on('close', code => resolve(code === 0))
  })
}

/** Prints what the sanitizers wrote. @returns {boolean} whether there was anything */
function hasReports() {
  const names = readdirSync(reports)
  for (const name of names) process.stdout.write(`${readFileSync(join(reports, name))}\n`)
  return names.length > 0
}

/**
 * @param {string} cxx a compiler with sanitizers @param {string} seed of the load @param {number}
 *   kills of the server under load
 * @returns {Promise<boolean>} nothing was found
 */
export async function sanitizeModule(cxx, seed, kills) {
  tell(`compiling the native module with ${cxx}`)
  if (!(await makeTree(cxx))) return false
  const env = environment(cxx)
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  const config = join(root, 'vitest.config.mjs')
  const tests = TESTS.map(name => `dist/test/${name}`)
  const tested = await run(
    'the tests of native code',
    [vitest, 'run', '--root', tree, '--config', config, ...tests],
    env,
  )
  const crash = join(tree, 'dist', 'test', 'crash', 'main.js')
  const loaded = await run(
    `a server under load, ${kills} kills, seed ${seed}`,
    [crash, String(kills), seed],
    env,
  )
  const found = hasReports()
  const isWhole = existsSync(join(tree, 'dist', 'test-results.json'))
  tell(found ? 'the sanitizers found something' : 'no report')
  return tested && loaded && isWhole && !found
}
