/**
 * A ClickHouse for tests: chdb behind chdb-bridge.py, or a server that runs.
 *
 *   WEIR_TEST_CHDB_PYTHON   a Python that has the package chdb
 *   WEIR_TEST_CLICKHOUSE_URL  the HTTP address of a server whose data may be changed
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'

const BRIDGE = fileURLToPath(new URL('../../../test/cluster/chdb-bridge.py', import.meta.url))

export interface TestClickHouse {
  readonly url: string
  /** Runs one statement. */
  query(sql: string): Promise<string>
  stop(): Promise<void>
}

/** Why no ClickHouse can be started; undefined where one can. */
export function whyNoClickHouse(): string | undefined {
  if (process.env['WEIR_TEST_CLICKHOUSE_URL'] !== undefined) return undefined
  const python = process.env['WEIR_TEST_CHDB_PYTHON']
  if (python === undefined) return 'WEIR_TEST_CHDB_PYTHON names no Python that has the package chdb'
  const found = spawnSync(python, ['-c', 'import chdb'], { encoding: 'utf8' })
  return found.status === 0
    ? undefined
    : `${python} has no chdb: ${found.stderr?.split('\n').at(-2) ?? found.error}`
}

export async function startClickHouse(): Promise<TestClickHouse> {
  const known = process.env['WEIR_TEST_CLICKHOUSE_URL']
  if (known !== undefined) return clickHouseAt(known, async () => {})
  const { url, stop } = await startBridge([])
  return clickHouseAt(url, stop)
}

/** chdb behind chdb-bridge.py, with these arguments. */
export async function startBridge(args: readonly string[]): Promise<Pick<TestClickHouse, 'url' | 'stop'>> {
  const stdio = ['pipe', 'pipe', 'inherit'] as const
  const child = spawn(process.env['WEIR_TEST_CHDB_PYTHON']!, [BRIDGE, ...args], { stdio: [...stdio] })
  const [port] = (await once(child.stdout!, 'data')) as [Buffer]
  return {
    url: `http://127.0.0.1:${String(port).trim()}`,
    async stop() {
      child.stdin!.end()
      if (child.exitCode === null) await once(child, 'exit')
    },
  }
}

function clickHouseAt(url: string, end: () => Promise<void>): TestClickHouse {
  const http = new ClickHouseHttp({ url })
  return {
    url,
    query: async sql => (await http.run(sql, {}, 1e9)).body.toString(),
    async stop() {
      http.close()
      await end()
    },
  }
}
