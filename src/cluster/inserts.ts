/**
 * Rows on their way into the cluster: versions, then one INSERT for all that gathered in a pool.
 *
 *   commit() ──► versions (one write to Keeper) ──► waits in its pool ──► INSERT on every shard
 *
 * Each INSERT makes a part on each replica, and a cluster makes a few hundred parts a second. So a
 * pool has one INSERT under way, what comes meanwhile gathers for the next one, and pools take
 * turns. Versions decide which row of a key counts, so the order of INSERTs does not matter.
 *
 *   W-9  Bytes that wait or are under way have a limit. Where a pool waits for too long, no further
 *        body is parsed: requests wait, then get 429.
 */
import type { BatchBuffer } from '../format/batch-layout.ts'
import type { PoolSchema, RequestKind } from '../format/schema.ts'
import { monotonicMs } from '../util/clock.ts'
import { must, Unavailable } from '../util/errors.ts'
import { INSERT_SENT_MS_MAX, MEMTABLE_BYTES_MAX } from '../util/limits.ts'
import { type BlockEntry, REQUEST_WORDS } from './clickhouse/native-block.ts'

/** INSERTs under way: a server of two cores makes no more parts a second with more of them. */
const INSERTS_MAX = 16
/**
 * A pool that waits for longer tells that more pools are active than the cluster takes. Together
 * with ROOM_MS_MAX that is the 2 s which a request may wait for its turn.
 */
const WAIT_MS_MAX = 1_000
/** A request waits so long while pools wait for too long. */
export const ROOM_MS_MAX = 1_000
/** Rows of one INSERT, and bytes of its batches. One part of a MergeTree has about so many. */
const INSERT_ROWS_MAX = 500_000
const INSERT_BYTES_MAX = MEMTABLE_BYTES_MAX / 16

/** Rows of one pool, kind and schema. */
export interface InsertTask {
  readonly table: string
  readonly kind: RequestKind
  readonly schema: PoolSchema
  readonly entries: readonly BlockEntry[]
  /** See RowsToInsert. */
  readonly notAfterNs: bigint
}

export interface InsertStats {
  readonly running: number
  readonly runningMax: number
  /** Pools that wait for a turn. */
  readonly waitingPools: number
  /** Of all rows that wait or are under way. */
  readonly bytes: number
  /** Rows that wait. */
  readonly rows: number
  /** How long the first of them waits. */
  readonly oldestMs: number
}

export interface InsertsDeps {
  /** The first of so many versions. Rejects with Unavailable. */
  versions(rows: number): Promise<bigint>
  /** Resolves when a quorum of replicas of each shard has the rows. Rejects with Unavailable. */
  insert(task: InsertTask): Promise<void>
  /** True while no other node can take this one for dead. */
  isCurrent(): boolean
  /** The version of the newest job that changes rows of the table; 0n for none. */
  jobVersion(table: string): bigint
  /** The batch's memory is free. */
  onDone(batch: BatchBuffer): void
  /** An INSERT was answered after so long. */
  onInsert(ms: number): void
}

interface Waiting {
  readonly kind: RequestKind
  readonly schema: PoolSchema
  readonly entry: BlockEntry
  readonly rows: number
  readonly sinceMs: number
  readonly notAfterNs: bigint
  resolve(): void
  reject(error: unknown): void
}

interface PoolQueue {
  waiting: Waiting[]
  isRunning: boolean
}

export class Inserts {
  readonly #deps: InsertsDeps
  readonly #pools = new Map<string, PoolQueue>()
  /** Pools that wait for a turn, in order. */
  readonly #turns = new Set<string>()
  #running = 0
  #bytes = 0
  #isAwaited = false
  /** Called when there is room again after `room` returned false. */
  onRoom: () => void = () => {}

  constructor(deps: InsertsDeps) {
    this.#deps = deps
  }

  /** True where the rows of a body of so many bytes may come. */
  room(bytes: number): boolean {
    const isRoom = this.#bytes === 0 || (this.#bytes + bytes <= MEMTABLE_BYTES_MAX && !this.#isLate())
    if (!isRoom) this.#isAwaited = true
    return isRoom
  }

  stats(): InsertStats {
    let rows = 0
    for (const { waiting } of this.#pools.values()) for (const each of waiting) rows += each.rows
    return {
      running: this.#running,
      runningMax: INSERTS_MAX,
      waitingPools: this.#turns.size,
      bytes: this.#bytes,
      rows,
      oldestMs: this.#oldestMs(),
    }
  }

  /**
   * Resolves when the rows are in a quorum of replicas, and this node was alive then. Rejects with
   * Unavailable: the rows may be visible, and the same request again changes nothing more.
   */
  async commit(
    table: string,
    schema: PoolSchema,
    kind: RequestKind,
    batch: BatchBuffer,
    requests: Float64Array,
  ): Promise<void> {
    this.#bytes += batch.byteLength
    try {
      // Threads have this clock in common, and it goes on while the process stands still.
      const notAfterNs = process.hrtime.bigint() + BigInt(INSERT_SENT_MS_MAX) * 1_000_000n
      const entry = { batch, requests, versions: await this.#versionsOf(requests) }
      await this.#inserted(table, schema, kind, entry, notAfterNs)
      if (!this.#deps.isCurrent())
        throw new Unavailable(
          'keeper_lost',
          'This node lost Keeper meanwhile: the events may be stored. Send the same request again',
        )
      // A job that was made meanwhile may have looked at the key before the row was there, and what
      // it wrote counts more. Only the sender may repeat it: newer versions of rows that others
      // have seen would win over what these wrote then.
      const overtaken = this.#deps.jobVersion(table)
      if (schema.key !== null && !entry.versions.every(version => version > overtaken))
        throw new Unavailable(
          'jobs_meanwhile',
          'A job of the Data Pool began meanwhile: the events may be stored. Send the same request again',
        )
    } finally {
      this.#bytes -= batch.byteLength
      this.#deps.onDone(batch)
      if (this.#isAwaited && !this.#isLate()) {
        this.#isAwaited = false
        this.onRoom()
      }
    }
  }

  async #inserted(
    table: string,
    schema: PoolSchema,
    kind: RequestKind,
    entry: BlockEntry,
    notAfterNs: bigint,
  ): Promise<void> {
    const rows = rowsOf(entry.requests)
    await new Promise<void>((resolve, reject) => {
      const queue = this.#queueOf(table)
      const sinceMs = monotonicMs()
      queue.waiting.push({ kind, schema, entry, rows, sinceMs, notAfterNs, resolve, reject })
      this.#offer(table, queue)
    })
  }

  /** The version of each request's first row. */
  async #versionsOf(requests: Float64Array): Promise<BigInt64Array> {
    const count = requests.length / REQUEST_WORDS
    const firsts = Array.from({ length: count }, (_, request) =>
      this.#deps.versions(must(requests[request * REQUEST_WORDS + 2], 'rows')),
    )
    return BigInt64Array.from(await Promise.all(firsts))
  }

  #queueOf(table: string): PoolQueue {
    const known = this.#pools.get(table)
    if (known !== undefined) return known
    const made: PoolQueue = { waiting: [], isRunning: false }
    this.#pools.set(table, made)
    return made
  }

  #offer(table: string, queue: PoolQueue): void {
    if (!queue.isRunning && queue.waiting.length > 0) this.#turns.add(table)
    while (this.#running < INSERTS_MAX) {
      const [next] = this.#turns
      if (next === undefined) return
      this.#turns.delete(next)
      void this.#insert(next, must(this.#pools.get(next), 'the queue of a pool that waits'))
    }
  }

  async #insert(table: string, queue: PoolQueue): Promise<void> {
    const taken = takeAlike(queue)
    const { schema, kind, notAfterNs } = must(taken[0], 'rows that wait')
    queue.isRunning = true
    this.#running += 1
    try {
      const beganMs = monotonicMs()
      const entries = taken.map(({ entry }) => entry)
      await this.#deps.insert({ table, kind, schema, entries, notAfterNs })
      this.#deps.onInsert(monotonicMs() - beganMs)
      for (const { resolve } of taken) resolve()
    } catch (error) {
      for (const { reject } of taken) reject(error)
    } finally {
      queue.isRunning = false
      this.#running -= 1
      if (queue.waiting.length === 0) this.#pools.delete(table)
      this.#offer(table, queue)
    }
  }

  /** True where a pool has waited for too long. */
  #isLate(): boolean {
    return this.#oldestMs() > WAIT_MS_MAX
  }

  /** How long the pool waits that waits longest: it is the first in turn. */
  #oldestMs(): number {
    const [first] = this.#turns
    const since = first === undefined ? undefined : this.#pools.get(first)?.waiting[0]?.sinceMs
    return since === undefined ? 0 : monotonicMs() - since
  }
}

/** The first that wait, of one kind and schema, as many as one INSERT takes. */
function takeAlike(queue: PoolQueue): Waiting[] {
  const first = must(queue.waiting[0], 'rows that wait')
  const taken: Waiting[] = []
  let [rows, bytes] = [0, 0]
  for (const waiting of queue.waiting) {
    const isAlike = waiting.kind === first.kind && waiting.schema.version === first.schema.version
    rows += waiting.rows
    bytes += waiting.entry.batch.byteLength
    if (!isAlike || (taken.length > 0 && (rows > INSERT_ROWS_MAX || bytes > INSERT_BYTES_MAX))) break
    taken.push(waiting)
  }
  queue.waiting.splice(0, taken.length)
  return taken
}

function rowsOf(requests: Float64Array): number {
  let rows = 0
  for (let word = 2; word < requests.length; word += REQUEST_WORDS) rows += requests[word]!
  return rows
}
