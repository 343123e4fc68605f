/**
 * The live nodes of a cluster: an ephemeral node of Keeper for each, named by its slot, which says
 * up to which version of the catalog the node has applied its changes.
 *
 * A slot is a number that no other live node has. It goes with the session, and is taken again only
 * after many others: times of nodes are told apart by their slots, and clocks are minutes apart.
 */
import { randomBytes } from 'node:crypto'
import { type ClockSlot, monotonicMs } from '../../util/clock.ts'
import { CannotRun, Unavailable } from '../../util/errors.ts'
import { WEIR_VERSION } from '../../util/version.ts'
import { KEEPER_ERROR } from './jute.ts'
import { isRefused, type KeeperClient } from './keeper-client.ts'

/** Received-at tells nodes apart by its last two digits. */
const NODES_MAX = 100
/**
 * A change waits so long for all nodes. It is longer than a session, after which a dead node is
 * none, so a node that is late for that long lives and applies nothing.
 */
const APPLIED_MS_MAX = 60_000
/** A look without a message of Keeper, in case that its watch was lost with a connection. */
const LOOK_MS = 1_000

export interface NodeState {
  /** The version of the catalog that the node has applied; 0 before it has read one. */
  readonly version: number
  /** The version of Weir. */
  readonly weir: string
  /** A random text of the process, which may have several sessions and slots one after another. */
  readonly process: string
}

export class KeeperNodes {
  readonly #keeper: KeeperClient
  readonly #path: string
  /** The session in which this node has its slot; 0n for none. */
  #session = 0n
  #slot = 0
  #changed = () => {}
  readonly process = randomBytes(12).toString('hex')
  /** Received-at of this node. Without a session it has its last slot, as nobody else has it. */
  readonly clock: ClockSlot = { stepUs: NODES_MAX, slot: () => this.#slot }

  /** @param path of the node that has the nodes as children. It is there. */
  constructor(keeper: KeeperClient, path: string) {
    this.#keeper = keeper
    this.#path = path
  }

  /** The slot of this node in the present session; undefined before it has one. */
  get slot(): number | undefined {
    return this.#session !== 0n && this.#session === this.#keeper.sessionId ? this.#slot : undefined
  }

  /** Takes a slot for the present session. Rejects with CannotRun where all are taken. */
  async register(version: number): Promise<void> {
    const session = this.#keeper.sessionId
    await this.#keeper.sync(this.#path)
    const states = await this.states()
    // It is there where the answer to its creation was lost.
    const ours = states.find(([, , owner]) => owner === session)?.[0]
    this.#slot = ours ?? (await this.#makeSlot(new Set(states.map(([slot]) => slot)), version))
    this.#session = session
    if (ours !== undefined) await this.applied(version)
    // Others need not wait for what this process was in an earlier session.
    const former = states.filter(([, { process }, owner]) => process === this.process && owner !== session)
    for (const [slot] of former) await this.#remove(slot)
  }

  async #makeSlot(taken: ReadonlySet<number>, version: number): Promise<number> {
    const data = this.#stateOf(version)
    const { childrenVersion } = (await this.#keeper.getData(this.#path)).stat
    for (let tries = 0; tries < NODES_MAX; tries += 1) {
      const slot = ((childrenVersion >>> 0) + tries) % NODES_MAX
      if (taken.has(slot)) continue
      try {
        await this.#keeper.write({ kind: 'create', path: `${this.#path}/${slot}`, data, isEphemeral: true })
        return slot
      } catch (error) {
        if (!isRefused(error, KEEPER_ERROR.nodeExists)) throw error
      }
    }
    throw new CannotRun(`the cluster has ${NODES_MAX} nodes, which is the largest number`)
  }

  /** Tells the others that this node has applied a version of the catalog. */
  async applied(version: number): Promise<void> {
    const { slot } = this
    if (slot === undefined) return // it registers with its version
    await this.#keeper.write({ kind: 'setData', path: `${this.#path}/${slot}`, data: this.#stateOf(version) })
  }

  /** It may have ended meanwhile. */
  async #remove(slot: number): Promise<void> {
    try {
      await this.#keeper.write({ kind: 'delete', path: `${this.#path}/${slot}` })
    } catch (error) {
      if (!isRefused(error, KEEPER_ERROR.noNode)) throw error
    }
  }

  #stateOf(version: number): Buffer {
    const state: NodeState = { version, weir: WEIR_VERSION, process: this.process }
    return Buffer.from(JSON.stringify(state))
  }

  /** The processes of the live nodes. Of one that is not among them, the session has ended. */
  async processes(): Promise<ReadonlySet<string>> {
    await this.#keeper.sync(this.#path)
    return new Set((await this.states()).map(([, { process }]) => process))
  }

  /** Keeper told of a change of a node, or of their number. */
  watched(path: string): void {
    if (path.startsWith(this.#path)) this.#changed()
  }

  /**
   * Resolves when every live node has applied the version. Rejects with Unavailable
   * (`catalog_not_everywhere`).
   */
  async allApplied(version: number): Promise<void> {
    for (const endMs = monotonicMs() + APPLIED_MS_MAX; monotonicMs() < endMs; ) {
      const changed = new Promise<void>(resolve => {
        this.#changed = resolve
      })
      const late = (await this.states(true)).filter(([, state]) => state.version < version)
      if (late.length === 0) return
      let timer: NodeJS.Timeout | undefined
      const look = new Promise<void>(resolve => {
        timer = setTimeout(resolve, LOOK_MS)
      })
      await Promise.race([changed, look])
      clearTimeout(timer)
    }
    throw new Unavailable(
      'catalog_not_everywhere',
      'The change is made, but a node of the cluster has not applied it for a minute',
    )
  }

  /** The live nodes by their slots. */
  async states(isWatched = false): Promise<(readonly [slot: number, state: NodeState, session: bigint])[]> {
    const names = await this.#keeper.getChildren(this.#path, isWatched)
    const states = await Promise.all(
      names.map(async name => {
        try {
          const { data, stat } = await this.#keeper.getData(`${this.#path}/${name}`, isWatched)
          return [[Number(name), JSON.parse(data.toString()) as NodeState, stat.ephemeralOwner] as const]
        } catch (error) {
          if (isRefused(error, KEEPER_ERROR.noNode)) return [] // it ended
          throw error
        }
      }),
    )
    return states.flat()
  }
}
