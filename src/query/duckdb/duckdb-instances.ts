/**
 * DuckDB's instances in the query process, and their settings: one for each propeller in use,
 * opened by its first query. DuckDB limits threads and memory by instance. An open instance without
 * queries takes 2.5 MB. All instances read the same segments.
 *
 * IMPORTANT: the native module is loaded before the settings are locked (util/duckdb-settings.ts).
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import type { Propeller } from '../../catalog/documents/model.ts'
import { disk } from '../../util/disk.ts'
import { DuckDBInstance } from '../../util/duckdb.ts'
import { firstLine } from '../../util/duckdb-errors.ts'
import { applySettings } from '../../util/duckdb-settings.ts'
import { MiB } from '../../util/limits.ts'
import { nativeFile } from '../../util/native.ts'
import { spillFolder } from '../../util/paths.ts'
import { warn } from '../../util/say.ts'
import { quoteText } from '../../util/sql.ts'
import { MAKE_MACROS } from '../statement/functions.ts'
import { memoryBytesOf, threadsOf } from './duckdb-limits.ts'
import type { EngineSettings } from './engine-calls.ts'

/**
 * Bytes that the queries of one propeller spill to data/tmp together; then they fail. A join of
 * large tables could fill the disk otherwise, which ingest needs.
 */
const QUERY_SPILL_BYTES_MAX = 8 * 1024 * MiB

export interface Sandbox {
  readonly duckdb: DuckDBInstance
  /** It has the native function that tells live rows. */
  readonly hasIsLive: boolean
}

/**
 * Opens a locked in-memory instance.
 * @param spill its own folder for what does not fit into its memory
 */
export async function openSandbox(
  settings: EngineSettings,
  spill = processFolder(settings),
): Promise<Sandbox> {
  const extension = nativeFile(settings.kernel)
  const duckdb = await DuckDBInstance.create(':memory:', {
    allow_unsigned_extensions: String(extension !== undefined),
  })
  const connection = await duckdb.connect()
  try {
    const hasIsLive =
      extension !== undefined && (await tryLoad(connection, extension, processFolder(settings)))
    for (const sql of MAKE_MACROS) await connection.run(sql)
    await lock(connection, settings, spill)
    return { duckdb, hasIsLive }
  } finally {
    connection.closeSync()
  }
}

/**
 * Loads the native module as an extension (native/live_rows.cpp). Returns false, with a warning,
 * where DuckDB refuses it. Queries are slower then, and right.
 *
 * DuckDB takes a file only with this ending, and finds its function by the name before. A link to
 * the module is the module to the system's loader, which does not load it twice.
 */
async function tryLoad(connection: DuckDBConnection, module: string, spill: string): Promise<boolean> {
  let folder: string | undefined
  try {
    mkdirSync(spill, { recursive: true })
    folder = mkdtempSync(join(spill, 'extension-'))
    const link = join(folder, 'weir.duckdb_extension')
    symlinkSync(module, link)
    await connection.run(`LOAD ${quoteText(link)}`)
    return true
  } catch (error) {
    warn(`queries skip deleted rows by joins (slower): DuckDB cannot use ${module}: ${firstLine(error)}`)
    return false
  } finally {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  }
}

/** Makes or empties the folder for what DuckDB spills. No other process may use it. */
export function emptySpillFolder(settings: EngineSettings): void {
  const folder = processFolder(settings)
  rmSync(folder, { recursive: true, force: true }) // a kill may have left a folder of `tryLoad` in it
  disk.mkdir(folder)
}

function processFolder({ temporaryFolder, process }: EngineSettings): string {
  return spillFolder(temporaryFolder, process)
}

export function spillFolderOf(settings: EngineSettings, propeller: Propeller): string {
  return join(processFolder(settings), propeller)
}

async function lock(connection: DuckDBConnection, settings: EngineSettings, spill: string): Promise<void> {
  const { segmentFolder, temporaryFolder, outputFolder = temporaryFolder, threads, memoryBytes } = settings
  await applySettings(connection, {
    memoryBytes,
    threads,
    spillFolder: spill,
    more: [
      'allow_unsigned_extensions = false',
      `max_temp_directory_size = '${QUERY_SPILL_BYTES_MAX / 1024}KiB'`,
      // The footers of segments never change. DuckDB keeps them in its memory, those of removed
      // files too, until a query needs the memory.
      'parquet_metadata_cache = true',
      // No answer promises an order, and keeping one takes memory.
      'preserve_insertion_order = false',
    ],
    allowed: { by: 'allowed_directories', names: [segmentFolder, temporaryFolder, outputFolder] },
  })
}

export class DuckdbInstances {
  readonly #settings: EngineSettings
  readonly #instances = new Map<Propeller, Promise<Sandbox>>()

  constructor(settings: EngineSettings) {
    this.#settings = settings
  }

  /** The instance of a propeller, opened at the first call. A failed opening is tried again. */
  of(propeller: Propeller): Promise<Sandbox> {
    const known = this.#instances.get(propeller)
    if (known !== undefined) return known
    const opening = this.#open(propeller)
    this.#instances.set(propeller, opening)
    opening.catch(() => this.#instances.delete(propeller))
    return opening
  }

  async #open(propeller: Propeller): Promise<Sandbox> {
    const settings = this.#settings
    const spill = spillFolderOf(settings, propeller)
    if (disk.kind(dirname(spill)) === 'folder' && !disk.exists(spill)) disk.mkdir(spill)
    const threads = threadsOf(propeller, settings.threads)
    const memoryBytes = memoryBytesOf(propeller, settings.memoryBytes)
    return await openSandbox({ ...settings, threads, memoryBytes }, spill)
  }

  /** No query may run any more. An instance that could not be opened is none. */
  async close(): Promise<void> {
    const settled = await Promise.allSettled(this.#instances.values())
    for (const each of settled) if (each.status === 'fulfilled') each.value.duckdb.closeSync()
  }
}
