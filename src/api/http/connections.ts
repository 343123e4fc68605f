/**
 * The protection of the server against its connections:
 *
 *   Sockets  limits the number of connections, and counts those without a request
 *   Unread   closes connections whose clients do not read their answers
 *   Drain    reads the rest of a body after an early answer, then closes
 *
 *   W-9  The time and the bytes that a client may take for each of these are bounded.
 */
import { readFileSync } from 'node:fs'
import { monotonicMs } from '../../util/clock.ts'
import type { Moves } from '../../util/errors.ts'
import {
  CONNECTIONS_MAX,
  DESCRIPTORS_RESERVED,
  DRAIN_GRACE_MS,
  MiB,
  SMALL_ANSWER_LENGTH,
} from '../../util/limits.ts'
import { warn } from '../../util/say.ts'
import type { ServerState } from '../api-types.ts'
import type { Responder } from './responder.ts'

/** Bytes read and dropped after a 413, so that the client sees the answer instead of a reset. */
export const DRAIN_BYTES_MAX = 8 * MiB
/** Time for which bytes are dropped after a 413. */
const DRAIN_MS_MAX = 5_000
/** Connections at once, at least, so that Weir can be reached at all. */
export const CONNECTIONS_MIN = 16
/** One refusal in this many is the last answer of its connection (api/http/connections.ts). */
export const REFUSALS_PER_CLOSE = 64

export const SERVER_LIFE: Moves<ServerState> = {
  serving: ['leaving', 'stopping'],
  leaving: ['stopping'],
  stopping: ['stopping'],
}

export interface Connections {
  open: number
  state: ServerState
  /** Each answer is the last one of its connection, and /readyz is 503: `leaving` or `stopping`. */
  readonly stopping: boolean
  /** Nothing new is begun: `stopping`. */
  readonly refusing: boolean
  /** Called when no request is open any more. */
  onIdle: () => void
  onReply: (status: number) => void
  readonly drain: Drain
  /** Answers that the socket has not fully taken. */
  readonly unread: Unread
  readonly sockets: Sockets
  /** Number of ticks of API_TICK_MS so far. */
  ticks: number
}

/** Time between two lines about connections without a request. */
const UNHEARD_LINE_MS = 60_000

/** Each connection takes a descriptor; threads, segments, LMDB, DuckDB and the log need theirs. */
export class Sockets {
  readonly max: number
  /** Open connections, including those that are being closed. */
  open = 0
  refused = 0
  /** Connections that closed before the library had read a request of theirs. */
  unheard = 0
  /** Of them, those that no line has told yet. */
  #untold = 0
  #toldMs = Number.NEGATIVE_INFINITY

  constructor(max: number) {
    this.max = max
  }

  /** False where the caller must close it. leave() is called for it in both cases. */
  enter(): boolean {
    this.open += 1
    if (this.open <= this.max) return true
    this.refused += 1
    return false
  }

  leave(): void {
    this.open -= 1
  }

  /** @param mayWait true where its client may have waited for an answer, which nobody saw */
  closedUnheard(mayWait: boolean): void {
    this.unheard += 1
    if (mayWait) this.#untold += 1
  }

  tick(nowMs: number): void {
    if (this.#untold === 0 || nowMs - this.#toldMs < UNHEARD_LINE_MS) return
    warn(
      `connections that closed without a request which uWebSockets.js answers: ${this.#untold}. Their clients sent nothing or half a head, or a header with "_" or "." in its name, or more than 97 headers; for such a sender start with --http node (docs/http.md)`,
    )
    this.#toldMs = nowMs
    this.#untold = 0
  }
}

export function connectionsMaxOf(descriptors: number): number {
  return Math.max(CONNECTIONS_MIN, Math.min(CONNECTIONS_MAX, descriptors - DESCRIPTORS_RESERVED))
}

/** RLIMIT_NOFILE of this process, which Node has raised to the hard limit; else Infinity. */
export function descriptorLimit(): number {
  try {
    const soft = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return Number.POSITIVE_INFINITY // a system without /proc
  }
}

/**
 * Answers whose clients do not read them. Until the socket has taken all of a large answer, the
 * next request of the connection closes it: so a connection holds at most one answer. A share of
 * the small answers checks whether the socket took those before (SMALL_ANSWERS_CHECKED), and counts
 * as large if it did not.
 *
 * NOTE: uWebSockets.js does not tell whether the socket took an answer that fits into its buffer of
 * 16 KiB. Small refusals cost their client nothing and would pile up, so one in REFUSALS_PER_CLOSE
 * is the last answer of its connection. An answer may take ANSWER_MS_MAX, then its connection is
 * closed.
 */
export class Unread {
  readonly #answerMsMax: number
  /** The deadline of each answer, in the order in which the answers began. */
  readonly #pending = new Map<Pick<Responder, 'close'>, number>()
  #refusals = 0

  constructor(answerMsMax: number) {
    this.#answerMsMax = answerMsMax
  }

  get length(): number {
    return this.#pending.size
  }

  isLast(): boolean {
    this.#refusals += 1
    if (this.#refusals < REFUSALS_PER_CLOSE) return false
    this.#refusals = 0
    return true
  }

  add(responder: Pick<Responder, 'close'>): void {
    this.#pending.set(responder, monotonicMs() + this.#answerMsMax)
  }

  delete(responder: Pick<Responder, 'close'>): void {
    this.#pending.delete(responder)
  }

  has(responder: Pick<Responder, 'close'>): boolean {
    return this.#pending.has(responder)
  }

  tick(nowMs: number): void {
    for (const [responder, untilMs] of this.#pending) {
      if (untilMs > nowMs) break
      this.#pending.delete(responder)
      responder.close()
    }
  }
}

type Drained = Pick<Responder, 'close' | 'pause' | 'bodyRead'>

/**
 * Drains connections whose answer came before the end of the body: the rest of the body is read and
 * dropped, up to DRAIN_BYTES_MAX or DRAIN_MS_MAX. Then the connection is closed. Closed at once,
 * the client would see a reset instead of the answer. Beyond DRAIN_BYTES_MAX the connection is not
 * read for DRAIN_GRACE_MS before it is closed: a fast client can send 8 MiB before it reads the
 * answer (Go's did, in 2 of 400 runs).
 */
export class Drain {
  readonly #running = new Map<Drained, { bytes: number; untilMs: number }>()

  readonly #answerMsMax: number

  constructor(answerMsMax: number) {
    this.#answerMsMax = answerMsMax
  }

  start(responder: Drained, answerBytes: number): void {
    this.#running.set(responder, { bytes: 0, untilMs: monotonicMs() + this.#msFor(responder, answerBytes) })
  }

  /** Counts a dropped chunk. Closes after the last chunk, or soon after the limit. */
  count(responder: Drained, bytes: number, last: boolean): void {
    const state = this.#running.get(responder)
    if (state === undefined) return
    state.bytes += bytes
    if (last) this.#end(responder)
    else if (state.bytes > DRAIN_BYTES_MAX) {
      state.untilMs = Math.min(state.untilMs, monotonicMs() + DRAIN_GRACE_MS)
      responder.pause()
    }
  }

  tick(nowMs: number): void {
    for (const [responder, state] of this.#running) {
      if (state.untilMs <= nowMs) this.#end(responder)
    }
  }

  /** Most clients close at the end, but most of a large answer may still be in memory. */
  #msFor({ bodyRead }: Drained, answerBytes: number): number {
    if (!bodyRead) return DRAIN_MS_MAX
    return answerBytes <= SMALL_ANSWER_LENGTH ? DRAIN_GRACE_MS : this.#answerMsMax
  }

  #end(responder: Drained): void {
    this.#running.delete(responder)
    // In this turn the answer may still be in the cork buffer, which close() would discard.
    setImmediate(() => responder.close())
  }
}
