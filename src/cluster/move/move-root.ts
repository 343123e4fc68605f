/**
 * The root of a cluster in Keeper while `weir move` fills it.
 *
 *   <root>/catalog   has the format MOVING until the end: no node starts
 *   <root>/move      which folder, and how far it is. The zxid of its last change is the version of
 *                    the rows that come next
 *
 * So the version of a block of rows is in Keeper before the block is sent, and a move that goes on
 * sends the same bytes. Versions are below those of all later events. Of two moves of one folder
 * the later one goes on: it takes the catalog's node, whose version the end compares, and each
 * change of the other node compares its version.
 */
import type { Entry } from '../../catalog/documents/catalog-types.ts'
import { sealEntry } from '../../catalog/lmdb/seal.ts'
import { CannotRun, must } from '../../util/errors.ts'
import { tablesPath } from '../clickhouse/pool-tables.ts'
import type { TablesInKeeper } from '../clickhouse/stored-rows.ts'
import { KEEPER_ERROR, type Write } from '../keeper/jute.ts'
import { connectKeeper, writeDocuments } from '../keeper/keeper-backup.ts'
import { isRefused, type KeeperClient, type KeeperOptions } from '../keeper/keeper-client.ts'
import {
  checkRoot,
  FORMAT,
  json,
  type Layout,
  MOVING,
  makePath,
  type Paths,
  pathsOf,
  type Root,
  unlessRefused,
} from '../keeper/keeper-root.ts'
import { versionOfZxid } from '../keeper/versions.ts'

/** Keeper refuses requests of 1 MiB, and a later change has a document twice, sealed. */
export const DOCUMENT_BYTES_MAX = 350_000

/** How far a move is. */
export interface MoveState {
  /** What the folder is: a checksum of its catalog and its segments. */
  readonly folder: string
  /** Pools that are moved, in the order of their numbers. */
  readonly pools: number
  /** Rows of the next pool that are moved. */
  readonly rows: number
  readonly isDone: boolean
}

interface MoveRootOptions {
  readonly keeper: Omit<KeeperOptions, 'onConnected' | 'onWatched'>
  readonly root: string
  readonly secretKey: Uint8Array
  readonly layout: Layout
}

export class MoveRoot {
  readonly #options: MoveRootOptions
  readonly #keeper: KeeperClient
  readonly #paths: Paths
  readonly #path: string
  #state: MoveState | undefined
  /** Of the nodes that have the catalog's root and the state. */
  #catalogVersion = 0
  #nodeVersion = 0
  #zxid = 0n

  private constructor(options: MoveRootOptions, keeper: KeeperClient) {
    this.#options = options
    this.#keeper = keeper
    this.#paths = pathsOf(options.root)
    this.#path = `${options.root}/move`
  }

  /** Rejects with CannotRun where the root has another catalog, and with Unavailable. */
  static async open(options: MoveRootOptions): Promise<MoveRoot> {
    const root = new MoveRoot(options, await connectKeeper(options.keeper))
    try {
      await root.#open()
      return root
    } catch (error) {
      await root.stop()
      throw error
    }
  }

  /** Undefined before `begin`. */
  get state(): MoveState | undefined {
    return this.#state
  }

  /** The version of the first row that comes next. */
  get version(): bigint {
    return versionOfZxid(this.#zxid)
  }

  get tables(): TablesInKeeper {
    return { keeper: this.#keeper, path: tablesPath(this.#options.root) }
  }

  async stop(): Promise<void> {
    await this.#keeper.stop()
  }

  /** Makes the root, which must be empty. */
  async begin(folder: string): Promise<void> {
    const { catalog, documents, changes } = this.#paths
    await makePath(this.#keeper, this.#options.root)
    const state: MoveState = { folder, pools: 0, rows: 0, isDone: false }
    const places: readonly Write[] = [
      { kind: 'create', path: catalog, data: json(this.#rootOf(MOVING)) },
      { kind: 'create', path: documents, data: json(null) },
      { kind: 'create', path: changes, data: json(null) },
      { kind: 'create', path: this.#path, data: json(state) },
    ]
    if (!(await unlessRefused(this.#keeper, places, KEEPER_ERROR.nodeExists))) throw this.#notEmpty()
    await this.#readState()
  }

  /** Writes all documents. No other move can end from now on. */
  async putDocuments(entries: readonly Entry[]): Promise<void> {
    await this.#unlessOther([this.#catalogWrite(MOVING)])
    this.#catalogVersion += 1
    const sealed = entries.map(entry => sealEntry(entry, this.#options.secretKey))
    await writeDocuments(this.#keeper, this.#paths, sealed)
  }

  /** The rows so far are in the tables. */
  async advance(to: Pick<MoveState, 'pools' | 'rows'>): Promise<void> {
    await this.#set({ ...must(this.#state, 'a move that has begun'), ...to }, [])
  }

  /** Nodes may start from now on. */
  async end(): Promise<void> {
    const state = { ...must(this.#state, 'a move that has begun'), isDone: true }
    await this.#set(state, [this.#catalogWrite(FORMAT)])
  }

  async #open(): Promise<void> {
    const isBegun = await this.#readState()
    const catalog = await this.#read<Root>(this.#paths.catalog)
    if (isBegun !== (catalog !== undefined)) throw this.#notEmpty()
    if (catalog === undefined) return
    checkRoot({ ...catalog.value, format: FORMAT }, this.#options.layout)
    this.#catalogVersion = catalog.stat.version
  }

  async #set(state: MoveState, others: readonly Write[]): Promise<void> {
    const write: Write = {
      kind: 'setData',
      path: this.#path,
      data: json(state),
      version: this.#nodeVersion,
    }
    this.#zxid = (await this.#unlessOther([...others, write])).zxid
    this.#state = state
    this.#nodeVersion += 1
  }

  async #unlessOther(writes: readonly Write[]): Promise<{ readonly zxid: bigint }> {
    try {
      return await this.#keeper.multi(writes)
    } catch (error) {
      if (!isRefused(error, KEEPER_ERROR.badVersion)) throw error
      throw new CannotRun('another weir move of the same folder goes on or has ended, so this one ends')
    }
  }

  async #readState(): Promise<boolean> {
    await this.#keeper.sync('/')
    const found = await this.#read<MoveState>(this.#path)
    if (found === undefined) return false
    this.#state = found.value
    this.#nodeVersion = found.stat.version
    this.#zxid = found.stat.changedZxid
    return true
  }

  async #read<T>(path: string) {
    try {
      const { data, stat } = await this.#keeper.getData(path)
      return { value: JSON.parse(data.toString()) as T, stat }
    } catch (error) {
      if (isRefused(error, KEEPER_ERROR.noNode)) return undefined
      throw error
    }
  }

  #catalogWrite(format: number): Write {
    const data = json(this.#rootOf(format))
    return { kind: 'setData', path: this.#paths.catalog, data, version: this.#catalogVersion }
  }

  #rootOf(format: number): Root {
    return { format, version: 0, oldest: 1, layout: this.#options.layout, zxidOffset: 0 }
  }

  #notEmpty(): CannotRun {
    return new CannotRun(
      `Keeper has a catalog at ${this.#options.root}: a move needs an empty place, name another WEIR_KEEPER_PATH`,
    )
  }
}
