/**
 * The settings of DuckDB's instances. Queries, merges and imports of Parquet files each have
 * instances with these safety settings, and add their own.
 *
 * IMPORTANT: their order. Files are allowed first, then everything else is closed, then the
 * settings themselves are locked. DuckDB refuses some of them at creation.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { quoteText } from './sql.ts'

interface Settings {
  readonly memoryBytes: number
  readonly threads: number
  /**
   * For what does not fit into the memory; '': nothing may be spilled. One instance alone may use
   * the folder: instances name the files in it alike, and crash where they read those of another.
   */
  readonly spillFolder: string
  /** Settings of this kind of instance, as in `threads = 1`. */
  readonly more?: readonly string[]
  /** The only files or folders that statements may use. Absent: all statements are Weir's. */
  readonly allowed?: {
    readonly by: 'allowed_directories' | 'allowed_paths'
    readonly names: readonly string[]
  }
}

/** Sets them for all connections of the instance. Rejects with DuckDB's error. */
export async function applySettings(
  connection: DuckDBConnection,
  { memoryBytes, threads, spillFolder, more = [], allowed }: Settings,
): Promise<void> {
  const names = allowed?.names.map(quoteText).join(', ')
  const assignments = [
    "TimeZone = 'UTC'",
    `temp_directory = ${quoteText(spillFolder)}`,
    `threads = ${Math.max(1, Math.trunc(threads))}`,
    memoryLimit(memoryBytes),
    // The system's page cache holds the files already. A second cache would take 12 kB of our
    // memory for each small segment ever read.
    'enable_external_file_cache = false',
    'autoinstall_known_extensions = false',
    'autoload_known_extensions = false',
    'allow_community_extensions = false',
    ...more,
    ...(allowed === undefined
      ? []
      : [`${allowed.by} = [${names}]`, 'enable_external_access = false', 'lock_configuration = true']),
  ]
  // Without GLOBAL some settings are for this connection only.
  for (const assignment of assignments) await connection.run(`SET GLOBAL ${assignment}`)
}

/** Changes the memory of an instance that is not locked. */
export async function setMemory(connection: DuckDBConnection, bytes: number): Promise<void> {
  await connection.run(`SET GLOBAL ${memoryLimit(bytes)}`)
}

function memoryLimit(bytes: number): string {
  return `memory_limit = '${Math.trunc(bytes / 1024)}KiB'`
}
