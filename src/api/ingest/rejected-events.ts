/**
 * Rejected events on the main thread: which are kept, their way into the pool of rejected events,
 * and the line that the operator reads once a minute.
 *
 * Rows are made by parse workers (parse/collect-rejected.ts), and here for requests whose bodies
 * nobody read, which have no text. They are posted to their pool after the answers, so no answer
 * waits for them. A kill in between loses rows of the last moments, never the answer that told the
 * sender.
 *
 *   W-9  A pool keeps rejected events of REJECTED_BYTES_PER_DAY, half of them at once and the
 *        others evenly; all pools together four times as much. At most PENDING_BYTES_MAX wait for
 *        their log record. What has no room is counted. Rows wait while many senders wait, so that
 *        no sender loses its place to them.
 */
import {
  type Rejected,
  type RejectedGrant,
  type RejectedPiece,
  type RejectedRows,
  RejectedWriter,
} from '../../parse/rejected-rows.ts'
import { monotonicMs, resolvesWithin } from '../../util/clock.ts'
import { BODY_BYTES_MAX, EVENTS_MAX, KiB, MiB } from '../../util/limits.ts'
import { fail, printable, warn } from '../../util/say.ts'
import type { IngestTarget } from '../api-types.ts'
import type { BatchSink } from './body-memory.ts'
import type { Answer } from './ingest-answer.ts'

const DAY_MS = 86_400_000
/** Bytes of rows that one pool keeps in a day: 400,000 small events, half of them at once. */
export const REJECTED_BYTES_PER_DAY = 128 * MiB
/** Pools that may use all of it in one day. */
const POOLS_AT_LIMIT = 4
/** Bytes of rows that wait for their log record: what workers make in a tenth of a second. */
const PENDING_BYTES_MAX = 16 * MiB
/** Bytes of rows of one parse task. */
const GRANT_BYTES_MAX = 4 * MiB
/**
 * Bytes that are worth a look at texts. Beyond its limit a pool gets 0.8 bytes a millisecond: the
 * first row of each task would be made, and have no room.
 */
const GRANT_BYTES_MIN = 4 * KiB
/** Requests of rows without an answer: the next one is parsed while this one is synced. */
const REQUESTS_UNDER_WAY_MAX = 2
/** Time after which rows that found no room are posted again. */
const RETRY_MS = 100
const MINUTE_MS = 60_000
/** Statuses of refusals that a sender has to mend. The others tell it to come again. */
const TOLD_STATUSES: readonly number[] = [200, 400, 401, 413, 415]
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
  /** False while so many senders wait that a further request could take the place of one. */
  mayPost(): boolean
  submit(target: IngestTarget, body: Uint8Array, sink: BatchSink): void
  /** The unique name of a pool, for the log. */
  nameOf(poolId: string): string
  onRows(kept: number, leftOut: number): void
}

export class RejectedEvents {
  readonly #deps: RejectedDeps
  readonly #budgets: Budgets
  readonly #minute = new Minute()
  #pending: RejectedPiece[] = []
  #pendingBytes = 0
  #underWay = 0
  #isScheduled = false
  #onDrained: () => void = () => {}

  constructor(deps: RejectedDeps, nowMs = monotonicMs) {
    this.#deps = deps
    this.#budgets = new Budgets(nowMs)
  }

  /** Bytes of rows that a pool may keep now; 0 where its refused events are only counted. */
  room({ rejects, poolNumber }: IngestTarget): number {
    const room = rejects === undefined ? 0 : Math.min(this.#roomOf(poolNumber), GRANT_BYTES_MAX)
    return room < GRANT_BYTES_MIN ? 0 : room
  }

  #roomOf(pool: number): number {
    const room = Math.min(this.#budgets.left(pool), PENDING_BYTES_MAX - this.#pendingBytes)
    return Math.max(0, Math.floor(room))
  }

  /** The permission for a group of a parse task; undefined where nothing is kept. */
  grant(target: IngestTarget): RejectedGrant | undefined {
    const { rejects, poolNumber: pool } = target
    // The rows get a later value of this clock, and a start raises it above all rows: so no other
    // start has the value, whatever the wall clock says.
    const atUs = rejects === undefined ? undefined : this.#deps.target()?.received.next()
    if (rejects === undefined || atUs === undefined) return undefined
    return { properties: rejects, pool, atUs, bytesMax: this.room(target) }
  }

  /** Takes the rows of a group over, and posts them soon. Other groups may have used the room. */
  keep(pool: number, { pieces, leftOut }: RejectedRows): void {
    let rowsLeftOut = leftOut
    for (const piece of pieces) {
      const bytes = piece.json.byteLength
      if (bytes > this.#roomOf(pool)) {
        rowsLeftOut += piece.rows
        continue
      }
      this.#budgets.spend(pool, bytes)
      this.#pendingBytes += bytes
      this.#pending.push(piece)
    }
    this.#leaveOut(rowsLeftOut)
    this.#schedule()
  }

  #leaveOut(rows: number): void {
    if (rows === 0) return
    this.#deps.onRows(0, rows)
    this.#minute.leftOut += rows
  }

  /** Keeps one request whose body nobody read. */
  keepRequest(target: IngestTarget, rejected: Rejected): void {
    const grant = this.grant(target)
    if (grant === undefined) return
    const writer = new RejectedWriter(grant)
    writer.add(rejected)
    this.keep(target.poolNumber, writer.end())
  }

  /** Counts an answer with refusals for the line of this minute. */
  note({ poolId }: IngestTarget, { reply, refusal, rejected, rejectedBy, errors }: Answer): void {
    if (!TOLD_STATUSES.includes(reply.status) || (refusal === undefined && rejected === 0)) return
    const message = refusal?.message ?? errors?.[0]?.message ?? ''
    if (rejectedBy.size === 0) this.#minute.add(poolId, refusal?.code ?? '', 1, message)
    for (const [code, count] of rejectedBy) this.#minute.add(poolId, code, count, message)
  }

  tick(nowMs: number): void {
    for (const line of this.#minute.lines(nowMs, this.#deps.nameOf)) warn(line)
  }

  /** Resolves when every row that was kept so far is in the log, or was given up after `msMax`. */
  async stop(msMax: number): Promise<void> {
    this.tick(Number.POSITIVE_INFINITY)
    if (this.#pending.length === 0 && this.#underWay === 0) return
    const drained = new Promise<void>(resolve => {
      this.#onDrained = resolve
    })
    if (!(await resolvesWithin(msMax, drained)))
      fail('rejected events of the last moments are not kept: the server stops before they are stored')
  }

  /** Posts after this turn: rows of answers that are sent together share a request. */
  #schedule(): void {
    if (this.#isScheduled || this.#pending.length === 0) return
    this.#isScheduled = true
    setImmediate(() => this.#postAll())
  }

  /** Posts what may be posted now. What finds no room is tried again after RETRY_MS. */
  #postAll(): void {
    while (this.#pending.length > 0 && this.#underWay < REQUESTS_UNDER_WAY_MAX) {
      if (!this.#deps.mayPost() || !this.#post()) {
        setTimeout(() => this.#postAll(), RETRY_MS).unref()
        return
      }
    }
    this.#isScheduled = false
  }

  /** False where the request was refused at once, so that its rows wait again. */
  #post(): boolean {
    const target = this.#deps.target()
    const pieces = this.#takePieces()
    const rows = pieces.reduce((sum, piece) => sum + piece.rows, 0)
    if (target === undefined) {
      this.#ended(pieces, 0, rows, 'their pool is not there')
      return true
    }
    const parts = pieces.flatMap((piece, index) => (index === 0 ? [piece.json] : [COMMA, piece.json]))
    let isRefused = false
    this.#underWay += 1
    this.#deps.submit(target, Buffer.concat([OPEN, ...parts, CLOSE]), {
      isOwn: true,
      sequenced: () => {},
      answered: ({ refusal, accepted, errors }) => {
        this.#underWay -= 1
        if (refusal?.status === 429) {
          isRefused = true
          this.#pending.unshift(...pieces)
        } else this.#ended(pieces, accepted, rows, (refusal ?? errors?.[0])?.message)
        this.#schedule()
      },
    })
    return !isRefused
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

  #ended(pieces: readonly RejectedPiece[], kept: number, rows: number, why?: string): void {
    for (const { json } of pieces) this.#pendingBytes -= json.byteLength
    this.#deps.onRows(kept, rows - kept)
    if (kept < rows) fail(`${rows - kept} rejected events are not kept: ${printable(why ?? 'unknown')}`)
    if (this.#pending.length === 0 && this.#underWay === 0) this.#onDrained()
  }
}

/** Bytes that pools may still keep: half a day's at once, then evenly. */
class Budgets {
  readonly #nowMs: () => number
  /** Pools that spent something, with the bytes that they have left at that time. */
  readonly #left = new Map<number, { readonly bytes: number; readonly atMs: number }>()

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  left(pool: number): number {
    return Math.min(this.#bytesLeft(pool), this.#bytesLeft(ALL_POOLS))
  }

  spend(pool: number, bytes: number): void {
    if (this.#left.size > BUDGETS_MAX) for (const each of this.#left.keys()) this.#bytesLeft(each)
    for (const each of [pool, ALL_POOLS])
      this.#left.set(each, { bytes: this.#bytesLeft(each) - bytes, atMs: this.#nowMs() })
  }

  #bytesLeft(pool: number): number {
    const atOnce = (REJECTED_BYTES_PER_DAY / 2) * (pool === ALL_POOLS ? POOLS_AT_LIMIT : 1)
    const known = this.#left.get(pool)
    if (known === undefined) return atOnce
    const bytes = known.bytes + (atOnce / DAY_MS) * (this.#nowMs() - known.atMs)
    if (bytes < atOnce) return bytes
    this.#left.delete(pool)
    return atOnce
  }
}

/** In the place of a pool's number. */
const ALL_POOLS = 0
/** Beyond it those that are full again are forgotten, which takes a deleted pool half a day. */
const BUDGETS_MAX = 1_000

interface Noted {
  readonly codes: Map<string, number>
  readonly first: string
}

/** What was refused in this minute, by pool. */
class Minute {
  /** Rows that were left out for want of room. */
  leftOut = 0
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
    const all = [...this.#pools]
    this.#pools = new Map()
    const lines = all.slice(0, POOLS_TOLD_MAX).map(([poolId, noted]) => lineOf(nameOf(poolId), noted))
    const more = all.length - lines.length
    if (more > 0) lines.push(`refused in a minute: events of ${more} more Data Pools`)
    if (this.leftOut > 0)
      lines.push(`refused in a minute, and not kept because the limit is reached: ${this.leftOut} events`)
    this.leftOut = 0
    return lines
  }
}

function lineOf(name: string, { codes, first }: Noted): string {
  const counts = [...codes].sort(([, a], [, b]) => b - a).map(([code, count]) => `${code} ${count}`)
  const message = printable(first.slice(0, MESSAGE_CHARACTERS_MAX))
  return `refused in a minute, Data Pool ${printable(name)}: ${counts.join(', ')}; the first: ${message}`
}
