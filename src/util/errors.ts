/**
 * The three kinds of failure.
 *
 *   error of the client        a value: `Refusal` (HTTP) or a GraphqlError, with a code and a
 *                              message
 *   error of the environment   a typed error below, with the place
 *   bug in Weir                `assert` (util/assert.ts)
 */

import { dirname } from 'node:path'

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

/**
 * A stage cannot serve now (disk full, log poisoned, flush failed). Clients get 503 or UNAVAILABLE.
 */
export class Unavailable extends Error {
  override readonly name = 'Unavailable'
  readonly code: string

  constructor(code: string, what: string) {
    super(what)
    this.code = code
  }
}

/** The body of an import cannot be read on, by the client's fault. Clients get 400. */
export class BodyBroken extends Error {
  override readonly name = 'BodyBroken'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * The caller's application was deleted, or its secret, token or scope was taken away, after its
 * request began. Clients get the refusal that their next request gets.
 */
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

/**
 * The index and its segments disagree: rows without their keys, or deleted rows that no flush
 * deleted. Nothing was changed.
 */
export class SegmentsDisagree extends Error {
  override readonly name = 'SegmentsDisagree'
  /** Numbers of the segments. */
  readonly segments: readonly number[]

  constructor(segments: readonly number[], what: string) {
    super(what)
    this.segments = segments
  }
}

/** An error in the form in which it crosses threads. */
export interface WireError {
  readonly name: string
  readonly message: string
  readonly stack: string | undefined
  readonly code: string | undefined
  /** That of an error of the disk. */
  readonly syscall: string | undefined
  readonly file: string | undefined
  readonly offset: number | undefined
  readonly segments: readonly number[] | undefined
}

/** Packs an error for another thread: name, message, stack, code and place. */
export function toWire(error: unknown): WireError {
  const e = error instanceof Error ? error : new Error(String(error))
  const more = e as { code?: unknown; syscall?: unknown; file?: unknown; offset?: unknown }
  const segments = e instanceof SegmentsDisagree ? e.segments : undefined
  return {
    name: e.name,
    message: e.message,
    stack: e.stack,
    code: typeof more.code === 'string' ? more.code : undefined,
    syscall: typeof more.syscall === 'string' ? more.syscall : undefined,
    file: typeof more.file === 'string' ? more.file : undefined,
    offset: typeof more.offset === 'number' ? more.offset : undefined,
    segments,
  }
}

/** The typed error again, with the stack of the thread where it happened. */
export function fromWire(wire: WireError): Error {
  const error = ofKind(wire)
  if (wire.stack !== undefined) error.stack = wire.stack
  return error
}

function ofKind(wire: WireError): Error {
  switch (wire.name) {
    case 'Damaged':
      return keepMessage(new Damaged(wire.file ?? '?', wire.offset ?? 0, ''), wire.message)
    case 'CannotRun':
      return new CannotRun(wire.message)
    case 'Unavailable':
      return new Unavailable(wire.code ?? 'unavailable', wire.message)
    case 'BodyBroken':
      return new BodyBroken(wire.code ?? 'broken_body', wire.message)
    case 'SegmentDamaged':
      return keepMessage(new SegmentDamaged(wire.file ?? '?', ''), wire.message)
    case 'SegmentsDisagree':
      return new SegmentsDisagree(wire.segments ?? [], wire.message)
    default: {
      const error = new Error(wire.message)
      error.name = wire.name
      if (wire.code !== undefined) Object.assign(error, { code: wire.code })
      return wire.syscall === undefined ? error : Object.assign(error, { syscall: wire.syscall })
    }
  }
}

function keepMessage<E extends Error>(error: E, message: string): E {
  error.message = message
  return error
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
 * The error of reading `file`: Damaged with the file's name where the disk cannot read it, else the
 * error itself. The system's error does not name the file (`EIO: i/o error, read`).
 */
export function asDamage(error: unknown, file: string): unknown {
  return isUnreadable(error, file) ? new Damaged(file, 0, (error as Error).message) : error
}
