/**
 * The tests of the cluster store: those of test/cluster, each of which says what it is skipped
 * without, then the suites of the real server on nodes of a cluster (suites.mjs), then the models
 * of questions once more with their rows in ClickHouse. These need a Python that has the package
 * chdb (pip install chdb==4.4.0).
 *
 *   WEIR_TEST_CHDB_PYTHON     that Python; its default is python3
 *   WEIR_TEST_CLICKHOUSE_URL  instead of it the HTTP address of a server whose data may be changed
 *   WEIR_TEST_CLICKHOUSE      a modern ClickHouse binary, on which the tests of replication run
 *                             (clickhouse-servers.ts)
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { MODELS } from './suites.mjs'

const python = process.env['WEIR_TEST_CHDB_PYTHON'] ?? 'python3'
const hasChdb =
  process.env['WEIR_TEST_CLICKHOUSE_URL'] !== undefined ||
  spawnSync(python, ['-c', 'import chdb']).status === 0

/** @param {string[]} args @param {Record<string, string | undefined>} [more] */
function run(args, more) {
  const env = { ...process.env, WEIR_TEST_CHDB_PYTHON: python, ...more }
  return spawnSync('npx', ['vitest', 'run', ...args], { stdio: 'inherit', env }).status ?? 1
}

const own = run(['--mode', 'cluster'])
if (!hasChdb)
  process.stdout.write(
    `skipped: ${python} has no package chdb. Install it (pip install chdb==4.4.0), or set WEIR_TEST_CHDB_PYTHON\n`,
  )
const hasServers = existsSync('/usr/sbin/clickhouse-server')
const suites = [...(hasServers ? ['clickhouse18'] : []), ...(hasChdb ? ['chdb'] : [])]
const again = suites.map(store =>
  run(['--mode', 'cluster-store'], { WEIR_TEST_STORE: store, WEIR_TEST_CLICKHOUSE: undefined }),
)
const files = MODELS.map(name => `dist/test/${name}.test.js`)
const models = hasChdb ? run(files, { WEIR_TEST_STORE: 'clickhouse' }) : 0
process.exit(own || again.find(status => status !== 0) || models)
