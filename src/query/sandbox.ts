/**
 * DuckDB's settings: what a statement may touch is decided here, before the first one runs.
 *
 * IMPORTANT: the order. Folders are allowed first, then everything else outside is closed, then the settings
 * themselves; DuckDB refuses some of them when they are given at creation.
 */

import type { DuckDBConnection } from '@duckdb/node-api'
import { DuckDBInstance } from '../util/duckdb.ts'
import { quoteText } from '../util/sql.ts'
import type { EngineSettings } from './wire.ts'

/** A locked in-memory instance. Segments never change, so footers are cached. */
export async function openSandbox(settings: EngineSettings): Promise<DuckDBInstance> {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    await lock(connection, settings)
  } finally {
    connection.closeSync()
  }
  return instance
}

async function lock(connection: DuckDBConnection, settings: EngineSettings): Promise<void> {
  const { segmentFolder, temporaryFolder, outputFolder = temporaryFolder } = settings
  const folders = [segmentFolder, temporaryFolder, outputFolder].map(quoteText).join(', ')
  const statements = [
    "SET TimeZone = 'UTC'",
    `SET temp_directory = ${quoteText(settings.temporaryFolder)}`,
    `SET threads = ${Math.max(1, Math.trunc(settings.threads))}`,
    `SET memory_limit = '${Math.trunc(settings.memoryBytes / 1024)}KiB'`,
    'SET parquet_metadata_cache = true',
    // The system's page cache has them already; here they would be memory of ours, 12 kB for each small segment ever read.
    'SET enable_external_file_cache = false',
    'SET preserve_insertion_order = false', // no answer promises an order, and keeping one is memory
    'SET autoinstall_known_extensions = false',
    'SET autoload_known_extensions = false',
    'SET allow_community_extensions = false',
    `SET allowed_directories = [${folders}]`,
    'SET enable_external_access = false',
    'SET lock_configuration = true',
  ]
  for (const statement of statements) await connection.run(statement)
}
