/**
 * The three kinds of failure.
 *
 *   error of the client        a value: `Refusal` (HTTP) or a GraphqlError, with a code and a
 *                              message
 *   error of the environment   a typed error below, with the place
 *   bug in Weir                a failed assertion: it throws, and only the process catches it
 */
import { dirname } from 'node:path'

/** An assertion that did not hold. No code handles it. */
export class AssertionFailed extends Error {
  override readonly name = 'AssertionFailed'
}

/** Throws AssertionFailed unless `condition` holds. `what` says what must be true. */
export function assert(condition: unknown, what: string): asserts condition {
  if (!condition) throw new AssertionFailed(what)
}

/** The value, which the caller knows to exist. */
export function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new AssertionFailed(`${what} is missing`)
  return value
}

/** The states of a life, each with those that may follow it. */
export type Moves<State extends string> = Readonly<Record<State, readonly State[]>>

/** The next state of a life. Throws AssertionFailed where it may not follow. */
export function moved<State extends string>(moves: Moves<State>, now: NoInfer<State>, next: NoInfer<State>) {
  assert(moves[now].includes(next), `${next} may follow ${now}`)
  return next
}

/** A request that is not accepted: a value that `api/` turns into a reply. */
export interface Refusal {
  readonly status: number
  /** snake_case, stable: programs compare it. */
  readonly code: string
  /** One sentence for a person. */
  readonly message: string
  /** True when the same request may succeed later, unchanged. */
  readonly retryable: boolean
  readonly events?: readonly EventError[]
  readonly headers?: Readonly<Record<string, string>>
}

/** One event of a request that was not accepted. */
export interface EventError {
  readonly index: number
  readonly code: string
  readonly column: string | null
  readonly message: string
}

/** The log, a segment or the index is damaged. A start exits 1 with this error. */
export class Damaged extends Error {
  override readonly name = 'Damaged'
  readonly file: string
  readonly offset: number

  constructor(file: string, offset: number, what: string) {
    super(`${file} is damaged at byte ${offset}: ${what}`)
    this.file = file
    this.offset = offset
  }
}

/** The folder, a port or an option cannot be used. The command exits 2 with this error. */
export class CannotRun extends Error {
  override readonly name = 'CannotRun'
}

/** A stage cannot serve now, such as for a full disk. Clients get 503 or UNAVAILABLE. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable'
  readonly code: string

  constructor(code: string, what: string) {
    super(what)
    this.code = code
  }
}

/** The code of what the tables of a store refuse, for a reason that does not go by itself. */
export const TABLES_REFUSED = 'cluster_refused'

/** The code of a user's statement that cannot run, or fails on its rows. Its message says why. */
export const STATEMENT_FAILED = 'statement_failed'

/** Nobody reads the answer any more. */
export const CLIENT_GONE = () => new Unavailable('client_gone', 'the client has disconnected')

/** The body of an import cannot be read on, by the client's fault. Clients get 400. */
export class BodyBroken extends Error {
  override readonly name = 'BodyBroken'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The caller lost its access after its request began. Clients get what their next one gets. */
export class AccessEnded extends Error {
  override readonly name = 'AccessEnded'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.message)
    this.refusal = refusal
  }
}

/** A query needs a segment that is missing or unreadable (W-8). */
export class SegmentDamaged extends Error {
  override readonly name = 'SegmentDamaged'
  readonly file: string

  constructor(file: string, what: string) {
    super(`segment ${file} cannot be read: ${what}`)
    this.file = file
  }

  /** The message for a client: the file is named by its pool and number, not by its path. */
  get messageForClient(): string {
    return this.message.replaceAll(`${dirname(dirname(this.file))}/`, '')
  }
}

/** The segment's file can be read, and is not what was written. */
export const CHECKSUM_DIFFERS = 'its bytes do not match their checksum'

/** Index and segments disagree: rows without keys, or wrong deleted rows. Nothing was changed. */
export class SegmentsDisagree extends Error {
  override readonly name = 'SegmentsDisagree'
  readonly segments: readonly number[]

  constructor(segments: readonly number[], what: string) {
    super(what)
    this.segments = segments
  }
}

/** Errors that are of their class again on the other side of a thread or a process. */
const CROSSING = [Damaged, CannotRun, Unavailable, BodyBroken, SegmentDamaged, SegmentsDisagree]

/** The fields of those errors, and of an error of the disk. */
const FACTS = ['code', 'syscall', 'file', 'offset', 'segments'] as const

/** An error in the form in which it crosses threads. */
export interface WireError {
  readonly name: string
  readonly message: string
  readonly stack: string | undefined
  readonly facts: Readonly<Record<string, unknown>>
}

/** Packs an error for another thread. */
export function toWire(error: unknown): WireError {
  const e = error instanceof Error ? error : new Error(String(error))
  const facts: Record<string, unknown> = {}
  for (const fact of FACTS) {
    const value = (e as Partial<Record<typeof fact, unknown>>)[fact]
    if (typeof value === 'string' || typeof value === 'number' || Array.isArray(value)) facts[fact] = value
  }
  return { name: e.name, message: e.message, stack: e.stack, facts }
}

/** The typed error again, with the stack of the thread where it happened. */
export function fromWire({ name, message, stack, facts }: WireError): Error {
  const error = new Error(message)
  const kind = CROSSING.find(one => one.name === name)
  if (kind !== undefined) Object.setPrototypeOf(error, kind.prototype)
  return Object.assign(error, { name }, facts, stack === undefined ? {} : { stack })
}

/**
 * True when the disk cannot read `source`, or `source` is missing. Other errors (too many open
 * files) say nothing about it.
 */
export function isUnreadable(error: unknown, source: string): boolean {
  const { syscall, path, code } = error as NodeJS.ErrnoException
  if (syscall === 'read') return true
  const isOpening = (syscall === 'open' || syscall === 'stat') && path === source
  return isOpening && (code === 'ENOENT' || code === 'EIO')
}

/**
 * Damaged with the file's name where the disk cannot read the file or it is missing, else the error
 * itself. The system's error of a failed read does not name the file (`EIO: i/o error, read`).
 */
export function asDamage(error: unknown, file: string): unknown {
  return isUnreadable(error, file) ? new Damaged(file, 0, (error as Error).message) : error
}
