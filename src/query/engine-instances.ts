/**
 * DuckDB's instances: one for each propeller in use, opened by its first query, in the query
 * process.
 *
 * DuckDB limits threads and memory by instance. An open instance without queries takes 2.5 MB and
 * its cached tables of deleted rows. All instances read the same segments.
 */
import { dirname, join } from 'node:path'
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { Propeller } from '../catalog/model.ts'
import { disk } from '../util/disk.ts'
import { DELETION_TABLES_BYTES_MAX, DELETION_TABLES_MAX } from '../util/limits.ts'
import { tryNative } from '../util/native.ts'
import { spillFolder } from '../util/paths.ts'
import { DeletionTables } from './deletion-tables.ts'
import { openSandbox } from './duckdb-instance.ts'
import { DeletedRowSets, LiveRowViews, type NativeLiveRows } from './live-row-views.ts'
import type { DeletedRows } from './live-rows.ts'
import { memoryBytesOf, RESOURCES, threadsOf } from './propeller.ts'
import type { EngineSettings } from './query-types.ts'

/** The folder that the queries of a propeller spill to. */
export function spillFolderOf(
  { temporaryFolder, process }: Pick<EngineSettings, 'temporaryFolder' | 'process'>,
  propeller: Propeller,
): string {
  return join(spillFolder(temporaryFolder, process), propeller)
}

/** The instance of one propeller. */
export class EngineInstance {
  readonly duckdb: DuckDBInstance
  readonly deletedRows: DeletedRows
  readonly #tableConnection: DuckDBConnection

  private constructor(duckdb: DuckDBInstance, tableConnection: DuckDBConnection, deletedRows: DeletedRows) {
    this.duckdb = duckdb
    this.#tableConnection = tableConnection
    this.deletedRows = deletedRows
  }

  /** `sets`: those of all instances; undefined without the native module. */
  static async open(
    propeller: Propeller,
    settings: EngineSettings,
    sets: DeletedRowSets | undefined,
  ): Promise<EngineInstance> {
    const spill = spillFolderOf(settings, propeller)
    if (disk.kind(dirname(spill)) === 'folder' && !disk.exists(spill)) disk.mkdir(spill)
    const { duckdb, hasIsLive } = await openSandbox(
      {
        ...settings,
        threads: threadsOf(propeller, settings.threads),
        memoryBytes: memoryBytesOf(propeller, settings.memoryBytes),
      },
      spill,
    )
    const tableConnection = await duckdb.connect()
    const { memoryShare } = RESOURCES[propeller]
    const tables = new DeletionTables(tableConnection, {
      bytesMax: Math.floor(DELETION_TABLES_BYTES_MAX * memoryShare),
      tablesMax: Math.floor(DELETION_TABLES_MAX * memoryShare),
    })
    const deletedRows = hasIsLive && sets !== undefined ? new LiveRowViews(sets, tables) : tables
    return new EngineInstance(duckdb, tableConnection, deletedRows)
  }

  /** No query may run any more. */
  close(): void {
    this.#tableConnection.closeSync()
    this.duckdb.closeSync()
  }
}

/** The open instances by propeller. */
export class EngineInstances {
  readonly #settings: EngineSettings
  readonly #sets: DeletedRowSets | undefined
  readonly #instances = new Map<Propeller, Promise<EngineInstance>>()

  constructor(settings: EngineSettings) {
    this.#settings = settings
    const native = tryNative<NativeLiveRows>(settings.kernel)
    if (native !== undefined) this.#sets = new DeletedRowSets(native, settings.deletionVectorBytesMax)
  }

  /** The instance of a propeller, opened at the first call. A failed opening is tried again. */
  of(propeller: Propeller): Promise<EngineInstance> {
    const known = this.#instances.get(propeller)
    if (known !== undefined) return known
    const opening = EngineInstance.open(propeller, this.#settings, this.#sets)
    this.#instances.set(propeller, opening)
    opening.catch(() => this.#instances.delete(propeller))
    return opening
  }

  /** Drops the deleted rows of these files. */
  async forget(files: readonly string[]): Promise<void> {
    await Promise.all((await this.#opened()).map(({ deletedRows }) => deletedRows.forget(files)))
  }

  /** No query may run any more. */
  async close(): Promise<void> {
    for (const instance of await this.#opened()) instance.close()
  }

  /** Those that could be opened; the query of another one has its error. */
  async #opened(): Promise<EngineInstance[]> {
    const settled = await Promise.allSettled(this.#instances.values())
    return settled.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
  }
}
