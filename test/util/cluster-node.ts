/**
 * Servers of tests as nodes of clusters, where WEIR_TEST_STORE names a vehicle (see
 * cluster/suites-setup.ts): each data folder stands for a cluster of its own, with its own database
 * and its own path in Keeper.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Which store the servers of this run have. */
export const STORE = (
  process.env['WEIR_TEST_CLUSTER'] === undefined ? 'local' : process.env['WEIR_TEST_STORE']
) as 'local' | 'clickhouse18' | 'chdb'

/** By file: why tests whose titles begin so are skipped (cluster/suites.mjs). */
const SKIPPED = JSON.parse(process.env['WEIR_TEST_SKIPPED'] ?? '{}') as Readonly<
  Record<string, Readonly<Record<string, string>>>
>

/** Why a test is skipped on the store of this run; undefined where it is not. */
export function whyNot(file: string, title: string): string | undefined {
  const name = /dist\/test\/(.*)\.test\.js$/.exec(file)?.[1] ?? ''
  return Object.entries(SKIPPED[name] ?? {}).find(([begin]) => title.startsWith(begin))?.[1]
}

const SHARED = JSON.parse(process.env['WEIR_TEST_CLUSTER'] ?? '{}') as {
  readonly urls: readonly string[]
  readonly keeper: string
}

const databases = new Set<string>()

/** The environment of a server; nothing where it has a data folder. */
export function nodeEnvironment(dataDir: string): Record<string, string> {
  if (STORE === 'local') return {}
  const name = `t${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`
  databases.add(name)
  const admin = { clientId: 'APPFIRST', clientSecret: createHash('sha256').update(name).digest('hex') }
  // What helps to ask reads the secret where a server of one machine has it.
  mkdirSync(dataDir, { recursive: true })
  const file = join(dataDir, 'admin.json')
  if (!existsSync(file)) writeFileSync(file, JSON.stringify(admin))
  return {
    WEIR_STORE: 'clickhouse',
    WEIR_CLICKHOUSE_URL: SHARED.urls.join(','),
    WEIR_CLICKHOUSE_CLUSTER: 'weir',
    WEIR_CLICKHOUSE_DATABASE: name,
    WEIR_KEEPER: SHARED.keeper,
    WEIR_KEEPER_PATH: `/${name}`,
    WEIR_KEEPER_SESSION_MS: '6000',
    WEIR_SECRET_KEY: '07'.repeat(32),
    WEIR_CLIENT_ID: admin.clientId,
    WEIR_CLIENT_SECRET: admin.clientSecret,
  }
}

/** Drops what the nodes had. They have ended. */
export async function dropDatabases(): Promise<void> {
  for (const name of databases)
    await Promise.all(
      SHARED.urls.map(url => fetch(url, { method: 'POST', body: `DROP DATABASE IF EXISTS ${name}` })),
    )
  databases.clear()
}
