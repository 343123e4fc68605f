/**
 * The catalog of a cluster, in Keeper. Documents are sealed as on disk (catalog/lmdb/seal.ts), with
 * the key of WEIR_SECRET_KEY.
 *
 *   <root>/catalog               format, version, layout, zxidOffset. Its znode's version rises
 *                                with each change, which compares and sets it
 *   <root>/catalog/documents/<key>  one document. Slashes of the key are %2F
 *   <root>/catalog/changes/<version>  what the change to this version put and removed, and who made
 *                                it. The newest CHANGES_KEPT are kept
 *   <root>/nodes/<slot>          a live node (keeper-nodes.ts)
 *
 * A node holds all documents in memory and applies changes in the order of their versions, its own
 * too. A change is answered when every live node has applied it: then no node takes a request for
 * what was deleted, and each knows what was made.
 */
import { randomBytes } from 'node:crypto'
import type { Change, Entry } from '../../catalog/documents/catalog-types.ts'
import { openEntry, sealEntry } from '../../catalog/lmdb/seal.ts'
import type { StoreClient } from '../../catalog/lmdb/store-client.ts'
import { CannotRun, type Moves, moved, Unavailable } from '../../util/errors.ts'
import { KiB } from '../../util/limits.ts'
import { KEEPER_ERROR, type Write } from './jute.ts'
import { isRefused, KeeperClient, KeeperLost, type KeeperOptions, KeeperRefused } from './keeper-client.ts'
import { KeeperNodes } from './keeper-nodes.ts'
import {
  bytesOf,
  checkRoot,
  FORMAT,
  hasCatalog,
  json,
  type Layout,
  makePath,
  type Paths,
  pathsOf,
  READS_MAX,
  type Root,
  readDocuments,
  readRoot,
  unlessRefused,
} from './keeper-root.ts'

/** A node that was away for longer reads the catalog again: it ends, and starts anew. */
const CHANGES_KEPT = 1_000
/**
 * Keeper has all of its data in memory. A change forgets one of the oldest for so many bytes of its
 * own, down to so many: together they have at most about 60 MB.
 */
const BYTES_PER_FORGOTTEN = 64 * KiB
const CHANGES_KEPT_MIN = 100
/** Keeper refuses requests of 1 MiB. A change has its documents twice. */
const CHANGE_BYTES_MAX = 1_000_000
const CONNECT_MS_MAX = 30_000
/** A try again of what Keeper refused on a connection that stands. */
const RETRY_MS = 1_000
/** Connections that may break while the others apply one change, and changes before a fence. */
const TRIES_MAX = 10
export interface KeeperStoreOptions {
  readonly keeper: Omit<KeeperOptions, 'onConnected' | 'onWatched'>
  /** The path of all that this cluster keeps, such as `/weir`. */
  readonly root: string
  readonly secretKey: Uint8Array
  readonly layout: Layout
  /** Called before a catalog is made where there is none. Rejects with CannotRun or Unavailable. */
  beforeNew?(): Promise<void>
  /** Called when this node cannot follow the catalog any more: the process must end. */
  onFatal(error: Error): void
}

export interface KeeperStore extends StoreClient {
  readonly keeper: KeeperClient
  readonly nodes: KeeperNodes
  readonly zxidOffset: number
  /**
   * Another one after each change and each fence: what was decided by an earlier one is decided
   * again.
   */
  readonly stamp: number
  /** Why Keeper can never take a change as one, for who asked for it. */
  refuses(change: Change): string | undefined
  /** The version that this node has applied. */
  version(): number
  /**
   * True while the others wait for this node with each change. A node that is not current serves
   * nothing: it may not know what was made or deleted.
   */
  isCurrent(): boolean
  /**
   * Takes the root from all changes that are on their way: each is made, and known here, when this
   * resolves, or is decided again where it came from. Rejects with Unavailable.
   */
  fence(): Promise<void>
}

export interface KeptChange extends Change {
  /** A random text of the node that made it, by which it finds its own after a lost connection. */
  readonly by: string
}

/**
 * Connects and reads the whole catalog. Rejects with CannotRun, also for what Keeper refuses, or
 * with Unavailable.
 */
export async function openKeeperStore(options: KeeperStoreOptions): Promise<KeeperStore> {
  const store = new Store(options)
  try {
    await store.open()
  } catch (error) {
    await store.stop()
    throw error instanceof KeeperRefused ? new CannotRun(`${error.message}, below ${options.root}`) : error
  }
  return store
}

/** `behind`: its session is new, and the others did not wait for this node between the two. */
type State = 'opening' | 'current' | 'behind' | 'ended'

const LIFE: Moves<State> = {
  opening: ['current', 'ended'],
  current: ['behind', 'ended'],
  behind: ['behind', 'current', 'ended'],
  ended: ['ended'],
}

class Store implements KeeperStore {
  readonly keeper: KeeperClient
  readonly nodes: KeeperNodes
  zxidOffset = 0
  readonly #options: KeeperStoreOptions
  readonly #paths: Paths
  /** Keys of the documents at `#version`. */
  readonly #keys = new Set<string>()
  #version = 0
  /** The znode's version of the root at `#version`. */
  #rootVersion = 0
  /** By which change of Keeper the root was made; a restored Keeper has another one. */
  #rootMadeBy: bigint | undefined
  #oldest = 1
  /** Of the catalog at `#version`, until somebody follows. */
  readonly #documents = new Map<string, Entry>()
  #taken = (change: Change): void => {
    for (const key of change.removes) this.#documents.delete(key)
    for (const entry of change.puts) this.#documents.set(entry[0], entry)
  }
  #connected = () => {}
  #state: State = 'opening'
  #following: Promise<void> = Promise.resolve()
  /** One after the other: a session has one slot. */
  #returning: Promise<void> = Promise.resolve()
  #retry: NodeJS.Timeout | undefined

  constructor(options: KeeperStoreOptions) {
    const { keeper, root } = options
    this.#options = options
    this.#paths = pathsOf(root)
    this.keeper = new KeeperClient({
      ...keeper,
      onConnected: isNew => {
        this.#connected()
        if (this.#isOpen) this.#return(isNew)
      },
      onWatched: path => {
        this.nodes.watched(path)
        if (path === this.#paths.catalog && this.#isOpen) void this.#followOr()
      },
    })
    this.nodes = new KeeperNodes(this.keeper, `${root}/nodes`)
  }

  #move(next: State): void {
    this.#state = moved(LIFE, this.#state, next)
  }

  get #isOpen(): boolean {
    return this.#state === 'current' || this.#state === 'behind'
  }

  get entries(): readonly Entry[] {
    return [...this.#documents.values()]
  }

  get process(): string {
    return this.nodes.process
  }

  get stamp(): number {
    return this.#rootVersion
  }

  version(): number {
    return this.#version
  }

  isCurrent(): boolean {
    return this.#state === 'current' && this.nodes.slot !== undefined && this.keeper.isAlive()
  }

  refusal(): string | undefined {
    return this.isCurrent()
      ? undefined
      : 'Keeper cannot be reached, so the catalog may be older than others know it'
  }

  /** Call it in the same turn as `entries`: no change comes between. */
  follow(take: (change: Change) => void): void {
    this.#documents.clear()
    this.#taken = take
  }

  async stop(): Promise<void> {
    this.#move('ended')
    clearTimeout(this.#retry)
    await this.keeper.stop()
  }

  async open(): Promise<void> {
    await this.#isConnected(CONNECT_MS_MAX)
    const { root, layout, keeper } = this.#options
    if (this.keeper.sessionMs > keeper.sessionMs)
      throw new CannotRun(
        `Keeper grants no session shorter than ${this.keeper.sessionMs} ms, two of its ticks: a session needs three, ${this.keeper.sessionMs * 1.5} ms`,
      )
    if (!(await hasCatalog(this.keeper, this.#paths))) await this.#options.beforeNew?.()
    await makePath(this.keeper, `${root}/nodes`)
    const first: Root = { format: FORMAT, version: 0, oldest: 1, layout, zxidOffset: 0 }
    const catalog: Write[] = [
      { kind: 'create', path: this.#paths.catalog, data: json(first) },
      { kind: 'create', path: this.#paths.documents, data: json(null) },
      { kind: 'create', path: this.#paths.changes, data: json(null) },
    ]
    await unlessRefused(this.keeper, catalog, KEEPER_ERROR.nodeExists)
    // From here on each change waits for this node.
    await this.nodes.register(0)
    const { root: before } = await this.#readRoot()
    this.zxidOffset = before.zxidOffset
    for (const entry of await readDocuments(this.keeper, this.#paths))
      this.#documents.set(entry[0], this.#opened(entry))
    for (const key of this.#documents.keys()) this.#keys.add(key)
    // Documents may be newer than `before`. After all changes since then they are those of one
    // version, because a change has its documents whole.
    this.#version = before.version
    await this.#followInTurn()
    await this.nodes.applied(this.#version)
    if (this.nodes.slot === undefined) throw new KeeperLost('the session ended during the start')
    this.#move('current')
  }

  async apply(change: Change): Promise<boolean> {
    const version = this.#version + 1
    const by = randomBytes(12).toString('hex')
    const writes = this.#writesOf(change, version, by)
    try {
      await this.keeper.multi(writes)
    } catch (error) {
      if (isRefused(error, KEEPER_ERROR.badVersion)) {
        await this.#followInTurn()
        return false
      }
      if (!(error instanceof KeeperLost)) throw error
      if (!(await this.#wasMade(version, by))) return false
    }
    await this.#everywhere(version)
    return true
  }

  /** Resolves when every live node has applied the version, whatever breaks meanwhile. */
  async #everywhere(version: number): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      await this.#isConnected(CONNECT_MS_MAX)
      try {
        if (tries > 1) await this.keeper.sync(this.#paths.catalog)
        await this.#followInTurn()
        await this.nodes.allApplied(version)
        return
      } catch (error) {
        const isRefused = !(error instanceof Unavailable) || error instanceof KeeperRefused
        if (isRefused || !error.code.startsWith('keeper_') || tries === TRIES_MAX) throw error
      }
    }
  }

  refuses(change: Change): string | undefined {
    const writes = this.#writesOf(change, this.#version + 1, '')
    const bytes = writes.reduce((sum, write) => sum + bytesOf(write), 0)
    if (bytes <= CHANGE_BYTES_MAX) return undefined
    return `This changes ${change.puts.length + change.removes.length} objects at once, which are ${bytes} bytes for Keeper, and it takes ${CHANGE_BYTES_MAX}: change or delete some of them first.`
  }

  #writesOf(change: Change, version: number, by: string): Write[] {
    // The last of several puts counts, and a put counts more than a remove, as in memory.
    const puts = new Map(change.puts.map(entry => [entry[0], entry]))
    // Keeper refuses to delete what is not there.
    const removes = [...new Set(change.removes)].filter(key => this.#keys.has(key) && !puts.has(key))
    const sealed = [...puts.values()].map(entry => sealEntry(entry, this.#options.secretKey))
    const kept: KeptChange = { by, puts: sealed, removes }
    const data = json(kept)
    const count = version + 1 - this.#oldest
    const large = Math.min(Math.floor(data.byteLength / BYTES_PER_FORGOTTEN), count - CHANGES_KEPT_MIN)
    const forgotten = Math.max(0, large, count - CHANGES_KEPT)
    return [
      this.#rootWrite(version, this.#oldest + forgotten),
      { kind: 'create', path: this.#paths.change(version), data },
      ...sealed.map(([key, value]): Write => {
        const kind = this.#keys.has(key) ? 'setData' : 'create'
        return { kind, path: this.#paths.document(key), data: json(value) }
      }),
      ...removes.map((key): Write => ({ kind: 'delete', path: this.#paths.document(key) })),
      ...Array.from({ length: forgotten }, (_, index): Write => {
        return { kind: 'delete', path: this.#paths.change(this.#oldest + index) }
      }),
    ]
  }

  /** Makes the catalog have the version, where nobody has changed it meanwhile. */
  #rootWrite(version: number, oldest = this.#oldest): Write {
    const { layout } = this.#options
    const root: Root = { format: FORMAT, version, oldest, layout, zxidOffset: this.zxidOffset }
    return { kind: 'setData', path: this.#paths.catalog, data: json(root), version: this.#rootVersion }
  }

  async fence(): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      await this.#followInTurn()
      const write = this.#rootWrite(this.#version)
      if (await unlessRefused(this.keeper, [write], KEEPER_ERROR.badVersion)) return
    }
    throw new Unavailable('catalog_busy', 'Others change the catalog without a pause')
  }

  /** After a lost connection: whether the change to `version` is the one that this node sent. */
  async #wasMade(version: number, by: string): Promise<boolean> {
    await this.#isConnected(CONNECT_MS_MAX)
    // The change may still be on its way, in a session that has not ended. This write takes the
    // root from it, so that it is made before or never.
    await unlessRefused(this.keeper, [this.#rootWrite(this.#version)], KEEPER_ERROR.badVersion)
    await this.#followInTurn()
    if (this.#version < version) return false
    return (await this.#readChange(version)).by === by
  }

  /** A connection is back. The watches of the last one are gone, and a new session has no slot. */
  #return(isNew: boolean): void {
    if (isNew) this.#move('behind')
    this.#returning = this.#returning.then(() => this.#returned())
  }

  async #returned(): Promise<void> {
    try {
      // In a Keeper that was emptied there is nothing to register at.
      await this.keeper.sync(this.#paths.catalog)
      await this.#readRoot()
      const hasSlot = this.nodes.slot !== undefined
      if (!hasSlot) await this.nodes.register(this.#version)
      await this.#followInTurn()
      // Others may have called for #followInTurn() while it had no slot to tell it.
      if (!hasSlot) await this.nodes.applied(this.#version)
      if (this.#state === 'behind') this.#move('current')
    } catch (error) {
      this.#failed(error as Error)
    }
  }

  async #followOr(): Promise<void> {
    await this.#followInTurn().catch(error => this.#failed(error as Error))
  }

  /** The next connection tries again what this one could not, or this one after a pause. */
  #failed(error: Error): void {
    if (!this.#isOpen) return
    if (error instanceof Unavailable) {
      clearTimeout(this.#retry)
      this.#retry = setTimeout(() => {
        if (this.keeper.isConnected) this.#return(false)
      }, RETRY_MS)
      return
    }
    this.#move('ended')
    this.#options.onFatal(error)
  }

  /** Applies all changes up to the newest, and watches for the next one. One call at a time. */
  #followInTurn(): Promise<void> {
    const turn = this.#following.then(() => this.#follow())
    this.#following = turn.catch(() => undefined)
    return turn
  }

  async #follow(): Promise<void> {
    const { root, version: rootVersion } = await this.#readRoot()
    const before = this.#version
    if (root.version < before)
      throw new CannotRun(`the catalog in Keeper was set back from version ${before} to ${root.version}`)
    while (this.#version < root.version) {
      const count = Math.min(READS_MAX, root.version - this.#version)
      const from = this.#version + 1
      const changes = await Promise.all(
        Array.from({ length: count }, (_, index) => this.#readChange(from + index)),
      )
      for (const { puts, removes } of changes) {
        for (const key of removes) this.#keys.delete(key)
        for (const [key] of puts) this.#keys.add(key)
        this.#taken({ puts, removes })
        this.#version += 1
      }
    }
    this.#rootVersion = rootVersion
    this.#oldest = root.oldest
    if (this.#isOpen && this.#version > before) await this.nodes.applied(this.#version)
  }

  async #readRoot(): Promise<{ readonly root: Root; readonly version: number }> {
    try {
      const { root, stat } = await readRoot(this.keeper, this.#paths, true)
      // A newer Weir, or a restore, may have changed the format while this node runs.
      checkRoot(root, this.#options.layout)
      this.#rootMadeBy ??= stat.createdZxid
      if (this.#rootMadeBy === stat.createdZxid) return { root, version: stat.version }
    } catch (error) {
      if (!isRefused(error, KEEPER_ERROR.noNode)) throw error
    }
    throw new CannotRun(
      `the catalog that this node knows is not in Keeper any more, at ${this.#paths.catalog}: was Keeper emptied? Restore it, then start again`,
    )
  }

  async #readChange(version: number): Promise<KeptChange> {
    try {
      const { data } = await this.keeper.getData(this.#paths.change(version))
      const { by, puts, removes } = JSON.parse(data.toString()) as KeptChange
      return { by, puts: puts.map(entry => this.#opened(entry)), removes }
    } catch (error) {
      if (!isRefused(error, KEEPER_ERROR.noNode)) throw error
      throw new CannotRun(
        `this node was away while the catalog changed ${CHANGES_KEPT} times, so it has to start again`,
      )
    }
  }

  #opened(entry: Entry): Entry {
    const opened = openEntry(entry, this.#options.secretKey)
    if (opened === undefined)
      throw new CannotRun('WEIR_SECRET_KEY is not the key that the secrets in the catalog are sealed with')
    return opened
  }

  /** Resolves with the next connection, or at once where there is one. Rejects with Unavailable. */
  async #isConnected(msMax: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    try {
      await new Promise<void>((resolve, reject) => {
        this.#connected = resolve
        if (this.keeper.isConnected) resolve()
        const { servers } = this.#options.keeper
        const where = servers.map(({ host, port }) => `${host}:${port}`).join(', ')
        const failed = () =>
          reject(new Unavailable('keeper_unreachable', `Keeper cannot be reached at ${where}`))
        timer = setTimeout(failed, msMax)
      })
    } finally {
      clearTimeout(timer)
    }
  }
}
