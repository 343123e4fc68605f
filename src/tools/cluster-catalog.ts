/**
 * `weir cluster backup <file>` and `weir cluster restore <file>`: the catalog of a cluster as one
 * file, and back into an empty place of Keeper (cluster/keeper/keeper-backup.ts). The tables are
 * ClickHouse's own to back up. They are restored first: versions of later rows must be above
 * theirs.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { ownReplicas, tablesPath } from '../cluster/clickhouse/pool-tables.ts'
import { type Replica, watchTopology } from '../cluster/clickhouse/topology.ts'
import {
  type CatalogFile,
  connectKeeper,
  exportCatalog,
  importCatalog,
  readCatalogFile,
} from '../cluster/keeper/keeper-backup.ts'
import { clusterOptionsOf } from '../database/cluster-options.ts'
import { CLEAN, type CommandInput } from '../database/command.ts'
import { missingSettings } from '../database/config.ts'
import { ClickHouseError } from '../query/clickhouse/http.ts'
import { VERSION } from '../query/clickhouse/rows.ts'
import { disk, replaceFile } from '../util/disk.ts'
import { CannotRun, must, Unavailable } from '../util/errors.ts'
import { MiB } from '../util/limits.ts'
import { say } from '../util/say.ts'
import { quoteClickHouseName } from '../util/sql.ts'

const ANSWER_BYTES_MAX = 64 * MiB

/** Runs `weir cluster backup` and `weir cluster restore`. */
export async function cluster({ config, positionals }: CommandInput): Promise<number> {
  const [action, given] = positionals
  const act = action === 'backup' ? backup : action === 'restore' ? restore : undefined
  if (act === undefined) throw new CannotRun(`weir cluster takes backup or restore, not "${action}"`)
  const missing = missingSettings(config).filter(name => name !== 'WEIR_SECRET_KEY')
  if (missing.length > 0)
    throw new CannotRun(`weir cluster ${action} needs the settings of the cluster: ${missing.join(', ')}`)
  try {
    await act(clusterOptionsOf(config), resolve(must(given, 'the file')))
    return CLEAN
  } catch (error) {
    if (!(error instanceof Unavailable || error instanceof ClickHouseError)) throw error
    throw new CannotRun(error.message)
  }
}

type Options = ReturnType<typeof clusterOptionsOf>

async function backup({ keeper: servers, root }: Options, path: string): Promise<void> {
  if (disk.exists(path)) throw new CannotRun(`${path} exists already: name another file`)
  const keeper = await connectKeeper(servers)
  try {
    const file = await exportCatalog(keeper, root)
    replaceFile(disk, path, [Buffer.from(JSON.stringify(file))])
    say(
      `backup of the catalog at version ${file.root.version}: ${file.documents.length} documents in ${path}`,
    )
  } finally {
    await keeper.stop()
  }
}

async function restore({ keeper: servers, root, addresses, cluster }: Options, path: string): Promise<void> {
  const file = readCatalogFile(readFileSync(path, 'utf8'))
  const watch = await watchTopology(addresses, cluster)
  const { shards, replicas, names } = watch.topology
  const found = shards.flat().map(async replica => {
    await checkNotReadOnly(replica, root)
    return await highestVersion(replica, file)
  })
  const versions = await Promise.all(found).finally(() => watch.stop())
  const down = names.filter((_, shard) => shards[shard]?.length !== replicas[shard])
  if (down.length > 0)
    throw new CannotRun(
      `a server of shard ${down.join(', ')} does not answer, and it may have the newest rows: start it, or take it out of remote_servers`,
    )
  const keeper = await connectKeeper(servers)
  try {
    const [highest = 0n] = versions.toSorted((a, b) => (a < b ? 1 : -1))
    await importCatalog(keeper, root, file, highest)
    say(
      `restored the catalog of version ${file.root.version} to ${root}: ${file.documents.length} documents; nodes with its WEIR_SECRET_KEY may start`,
    )
  } finally {
    await keeper.stop()
  }
}

/**
 * A node makes the tables that a server lacks. Of a table that no replica has restored yet that
 * would be the first one, and the others would put their rows aside. Rejects with CannotRun.
 */
async function checkNotReadOnly({ http, address }: Replica, root: string): Promise<void> {
  const sql = `${ownReplicas(tablesPath(root))} AND is_readonly LIMIT 1 FORMAT TabSeparated`
  const [table = ''] = (await http.run(sql, {}, ANSWER_BYTES_MAX)).body.toString().split('\n')
  if (table !== '')
    throw new CannotRun(
      `the table ${table} at ${address.url} is read-only, as Keeper lacks it: restore the tables first, by SYSTEM RESTORE REPLICA (docs/how-to/repair-a-cluster.md)`,
    )
}

/** Of the rows that a server has of the catalog's pools; 0n for none. */
async function highestVersion({ http }: Replica, { documents }: CatalogFile): Promise<bigint> {
  const ask = async (sql: string) => (await http.run(sql, {}, ANSWER_BYTES_MAX)).body.toString().split('\n')
  const tables = new Set(
    await ask('SELECT name FROM system.tables WHERE database = currentDatabase() FORMAT TabSeparated'),
  )
  let highest = 0n
  for (const [key] of documents) {
    const [kind, id = ''] = key.split('/')
    if (kind !== 'pool' || !tables.has(id)) continue
    const [version = '0'] = await ask(
      `SELECT toString(max(${VERSION})) FROM ${quoteClickHouseName(id)} FORMAT TabSeparated`,
    )
    if (BigInt(version) > highest) highest = BigInt(version)
  }
  return highest
}
