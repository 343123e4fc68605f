/**
 * Rejected events on the main thread: which are kept, their way into the pool of rejected events,
 * and the line that the operator reads once a minute.
 *
 * Rows are made by parse workers (parse/collect-rejected.ts), and here for requests whose bodies
 * nobody parsed. They are posted to their pool after the answers, so no answer waits for them. A
 * kill in between loses rows of the last moments, never the answer that told the sender.
 *
 *   W-9  A pool keeps rejected events of REJECTED_BYTES_PER_DAY, half of them at once and the others
 *        evenly; all pools together four times as much. At most PENDING_BYTES_MAX wait for their
 *        log record. What has no room is counted.
 */
import {
  type Rejected,
  type RejectedGrant,
  type RejectedPiece,
  type RejectedRows,
  RejectedWriter,
} from '../../parse/rejected-rows.ts'
import { monotonicMs } from '../../util/clock.ts'
import { BODY_BYTES_MAX, EVENTS_MAX, KiB, MiB } from '../../util/limits.ts'
import { printable, warn } from '../../util/say.ts'
import type { IngestTarget } from '../api-types.ts'
import type { BatchSink } from './body-memory.ts'
import type { Answer } from './ingest-answer.ts'

const DAY_MS = 86_400_000
/** Bytes of rows that one pool keeps in a day: 200,000 events of 300 bytes, half of them at once. */
export const REJECTED_BYTES_PER_DAY = 128 * MiB
/** Pools that may use all of it in one day. */
const POOLS_AT_LIMIT = 4
/** Bytes of rows that wait for their log record: what workers make in a tenth of a second. */
const PENDING_BYTES_MAX = 16 * MiB
/** Bytes of rows of one parse task. */
const GRANT_BYTES_MAX = 4 * MiB
/** A pool at its limit keeps a few rows in some seconds, and its other tasks look for none. */
const GRANT_BYTES_MIN = 4 * KiB
/** Requests of rows without an answer: the next one is parsed while this one is synced. */
const REQUESTS_UNDER_WAY_MAX = 2
const MINUTE_MS = 60_000
/** Pools whose refusals are told one by one each minute. */
const POOLS_TOLD_MAX = 20
/** Characters of the first message in the log. */
const MESSAGE_CHARACTERS_MAX = 300
/** Between two objects in an array, and around all. */
const COMMA = Buffer.from(',')
const OPEN = Buffer.from('[')
const CLOSE = Buffer.from(']')

interface RejectedDeps {
  /** The pool of rejected events; undefined while there is none. */
  target(): IngestTarget | undefined
  submit(target: IngestTarget, body: Uint8Array, sink: BatchSink): void
  /** The unique name of a pool, for the log. */
  nameOf(poolId: string): string
  /** Rows that were stored, or left out. */
  onRows(kept: number, leftOut: number): void
}

export class RejectedEvents {
  readonly #deps: RejectedDeps
  readonly #budgets = new Budgets()
  readonly #minute = new Minute()
  #pending: RejectedPiece[] = []
  #pendingBytes = 0
  #underWay = 0
  #isScheduled = false
  #onDrained: () => void = () => {}

  constructor(deps: RejectedDeps) {
    this.#deps = deps
  }

  /** The permission for a group of a parse task; undefined where nothing is kept. */
  grant({ rejects, poolNumber: pool }: IngestTarget): RejectedGrant | undefined {
    if (rejects === undefined) return undefined
    const room = Math.min(this.#budgets.left(pool), PENDING_BYTES_MAX - this.#pendingBytes, GRANT_BYTES_MAX)
    return room >= GRANT_BYTES_MIN ? { properties: rejects, pool, bytesMax: room } : undefined
  }

  /** Takes the rows of a group over, and posts them soon. */
  keep(pool: number, { pieces, leftOut }: RejectedRows): void {
    let bytes = 0
    for (const piece of pieces) bytes += piece.json.byteLength
    this.#budgets.spend(pool, bytes)
    this.#pendingBytes += bytes
    this.#pending.push(...pieces)
    if (leftOut > 0) this.#deps.onRows(0, leftOut)
    this.#schedule()
  }

  /** Keeps one request whose body nobody parsed. */
  keepRequest(target: IngestTarget, rejected: Rejected): void {
    const grant = this.grant(target)
    if (grant === undefined) return
    const writer = new RejectedWriter(grant)
    writer.add(rejected)
    this.keep(target.poolNumber, writer.end())
  }

  /** Counts an answer with refusals for the line of this minute. */
  note({ poolId }: IngestTarget, { refusal, rejected, rejectedBy, errors }: Answer): void {
    if (refusal === undefined && rejected === 0) return
    const message = refusal?.message ?? errors?.[0]?.message ?? ''
    if (rejectedBy.size === 0) this.#minute.add(poolId, refusal?.code ?? '', 1, message)
    for (const [code, count] of rejectedBy) this.#minute.add(poolId, code, count, message)
  }

  tick(nowMs: number): void {
    this.#schedule() // rows that found no room are tried again
    for (const line of this.#minute.lines(nowMs, this.#deps.nameOf)) warn(line)
  }

  /** Resolves when every row that was kept so far is in the log, or was given up. */
  stop(): Promise<void> {
    for (const line of this.#minute.lines(Number.POSITIVE_INFINITY, this.#deps.nameOf)) warn(line)
    if (this.#pending.length === 0 && this.#underWay === 0) return Promise.resolve()
    return new Promise(resolve => {
      this.#onDrained = resolve
    })
  }

  /** Posts after this turn: rows of answers that are sent together share a request. */
  #schedule(): void {
    if (this.#isScheduled || this.#pending.length === 0) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      while (this.#pending.length > 0 && this.#underWay < REQUESTS_UNDER_WAY_MAX) this.#post()
    })
  }

  #post(): void {
    const target = this.#deps.target()
    const pieces = this.#takePieces()
    const rows = pieces.reduce((sum, piece) => sum + piece.rows, 0)
    if (target === undefined) {
      this.#ended(pieces, rows, false)
      return
    }
    const parts = pieces.flatMap((piece, index) => (index === 0 ? [piece.json] : [COMMA, piece.json]))
    this.#underWay += 1
    this.#deps.submit(target, Buffer.concat([OPEN, ...parts, CLOSE]), {
      sequenced: () => {},
      answered: answer => {
        this.#underWay -= 1
        if (answer.refusal?.status === 429) this.#pending.unshift(...pieces)
        else this.#ended(pieces, rows, answer.refusal === undefined, answer)
        if (answer.refusal === undefined) this.#schedule()
      },
    })
  }

  /** The pieces of one request: within the limits of every body. */
  #takePieces(): RejectedPiece[] {
    let [count, rows, bytes] = [0, 0, OPEN.byteLength + CLOSE.byteLength]
    for (const piece of this.#pending) {
      rows += piece.rows
      bytes += piece.json.byteLength + COMMA.byteLength
      if (count > 0 && (rows > EVENTS_MAX || bytes > BODY_BYTES_MAX)) break
      count += 1
    }
    return this.#pending.splice(0, count)
  }

  #ended(pieces: readonly RejectedPiece[], rows: number, isStored: boolean, answer?: Answer): void {
    for (const { json } of pieces) this.#pendingBytes -= json.byteLength
    if (isStored) this.#deps.onRows(rows, 0)
    else {
      this.#deps.onRows(0, rows)
      warn(`${rows} rejected events are not kept: ${answer?.refusal?.message ?? 'their pool is not there'}`)
    }
    if (this.#pending.length === 0 && this.#underWay === 0) this.#onDrained()
  }
}

/** Bytes that pools may still keep: half a day's at once, then evenly. */
class Budgets {
  /** Pools that spent something, with the bytes that they have left at that time. */
  readonly #left = new Map<number, { bytes: number; atMs: number }>()

  left(pool: number): number {
    return Math.min(this.#bytesLeft(pool), this.#bytesLeft(ALL_POOLS))
  }

  spend(pool: number, bytes: number): void {
    for (const each of [pool, ALL_POOLS])
      this.#left.set(each, { bytes: this.#bytesLeft(each) - bytes, atMs: monotonicMs() })
  }

  #bytesLeft(pool: number): number {
    const atOnce = (REJECTED_BYTES_PER_DAY / 2) * (pool === ALL_POOLS ? POOLS_AT_LIMIT : 1)
    const known = this.#left.get(pool)
    if (known === undefined) return atOnce
    const bytes = known.bytes + (atOnce / DAY_MS) * (monotonicMs() - known.atMs)
    if (bytes < atOnce) return bytes
    this.#left.delete(pool)
    return atOnce
  }
}

/** In the place of a pool's number. */
const ALL_POOLS = 0

interface Noted {
  readonly codes: Map<string, number>
  readonly first: string
}

/** What was refused in this minute, by pool. */
class Minute {
  #pools = new Map<string, Noted>()
  #untilMs = 0

  add(poolId: string, code: string, count: number, message: string): void {
    const known = this.#pools.get(poolId) ?? { codes: new Map<string, number>(), first: message }
    known.codes.set(code, (known.codes.get(code) ?? 0) + count)
    this.#pools.set(poolId, known)
  }

  /** The lines of a minute that has ended. */
  lines(nowMs: number, nameOf: (poolId: string) => string): string[] {
    if (nowMs < this.#untilMs) return []
    this.#untilMs = nowMs + MINUTE_MS
    if (this.#pools.size === 0) return []
    const all = [...this.#pools]
    this.#pools = new Map()
    const lines = all.slice(0, POOLS_TOLD_MAX).map(([poolId, { codes, first }]) => {
      const counts = [...codes].sort(([, a], [, b]) => b - a).map(([code, count]) => `${code} ${count}`)
      const message = printable(first.slice(0, MESSAGE_CHARACTERS_MAX))
      return `refused in a minute, Data Pool ${printable(nameOf(poolId))}: ${counts.join(', ')}; the first: ${message}`
    })
    const more = all.length - lines.length
    return more > 0 ? [...lines, `refused in a minute: events of ${more} more Data Pools`] : lines
  }
}
