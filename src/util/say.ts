/**
 * Lines for the operator. Only this file gives them to standard output and standard error; in the
 * server, lines.ts takes them from there.
 */
import { cannotLoad } from './load-package.ts'
import { NO_IDS, type RequestIds } from './request-id.ts'

/** Writes a line. The stream emits the error of a write to app/run-command.ts and util/lines.ts. */
function write(stream: NodeJS.WriteStream, line: string): void {
  stream.write(`${line}\n`)
}

/** A line on standard output. */
export function say(line: string): void {
  write(process.stdout, line)
}

/** The levels of lines of operation, the most urgent first. */
export const LOG_LEVELS = ['error', 'warn', 'info'] as const
type LogLevel = (typeof LOG_LEVELS)[number]

/** How lines of operation are written, and which. Results of commands have no level. */
export interface LogSettings {
  /** `json`: one object a line with `time`, `level` and `message`, and some with ids. */
  readonly format: 'text' | 'json'
  /** Lines of this level and of more urgent ones are written. */
  readonly level: LogLevel
}

let settings: LogSettings = { format: 'text', level: 'info' }

/** Each thread and each process of Weir sets them at its start. */
export function setLog(given: LogSettings): void {
  settings = given
}

export function logSettings(): LogSettings {
  return settings
}

/** @param text the line in the format `text` */
function log(stream: NodeJS.WriteStream, level: LogLevel, message: string, text: string, ids = NO_IDS): void {
  if (LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(settings.level))
    write(stream, format(level, message, text, ids))
}

function format(level: LogLevel, message: string, text: string, { requestId, traceId } = NO_IDS): string {
  // `trace_id` is the name that OpenTelemetry gives it in every format of logs.
  const ids = { ...(requestId !== '' && { requestId }), ...(traceId !== '' && { trace_id: traceId }) }
  const entry = { time: new Date().toISOString(), level, message, ...ids }
  return settings.format === 'json' ? JSON.stringify(entry) : text
}

/** The line, with its end, that stands after lines which could not be written. */
export function leftOutLine(count: number): string {
  const message = `lines before this one that could not be written: ${count}`
  return `${format('error', message, `weir: ${message}`)}\n`
}

/** A line at the start of the server, on standard output. */
export function announce(message: string): void {
  log(process.stdout, 'info', message, `weir: ${message}`)
}

/** Something that is expected, on standard error with the time. */
export function inform(message: string): void {
  log(process.stderr, 'info', message, withTime(message))
}

/**
 * A condition that an operator may have to look at, on standard error with the time. Nothing is
 * lost, and nothing is refused for longer than a retry.
 */
export function warn(message: string): void {
  log(process.stderr, 'warn', message, withTime(message))
}

/**
 * A failure that somebody must look at, on standard error with the time: requests are refused, data
 * is missing, or work has stopped.
 * @param ids of the request that it is about, which `message` names too
 */
export function fail(message: string, ids: RequestIds = NO_IDS): void {
  log(process.stderr, 'error', message, withTime(message), ids)
}

function withTime(message: string): string {
  return `${new Date().toISOString()} ${message}`
}

/** A line of the audit trail on standard output, one JSON object. No level hides it. */
export function sayAudit(entry: object): void {
  say(auditLine(entry))
}

/** The same on standard error, for a command: its result goes to standard output. */
export function noteAudit(entry: object): void {
  note(auditLine(entry))
}

function auditLine(entry: object): string {
  return JSON.stringify({ time: new Date().toISOString(), audit: entry })
}

/** Writes a note or progress of a command to standard error. Results go to standard output. */
export function note(line: string): void {
  write(process.stderr, line)
}

/** Writes bytes of a command's result. Resolves when there is room; rejects on a closed pipe. */
export function sayBytes(bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(bytes, error => (error ? reject(error) : resolve()))
  })
}

/**
 * A text that is safe on a terminal: control characters, line breaks and invisible characters are
 * written as in JSON, `\\u001b`. Names and messages may hold any character.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, character =>
    Array.from({ length: character.length }, (_, index) => {
      const unit = character.charCodeAt(index)
      return `\\u${unit.toString(16).padStart(4, '0')}`
    }).join(''),
  )
}

/** Errors of the environment: their message alone tells the operator enough. */
const ENVIRONMENT_ERRORS: ReadonlySet<string> = new Set([
  'CannotRun',
  'Damaged',
  'SegmentDamaged',
  'Unavailable',
])

/** An error as the operator reads it: one sentence, or the stack of a bug. */
export function errorText(error: Error): string {
  const { name, message, stack, syscall } = (missingPackage(error) ?? error) as NodeJS.ErrnoException
  return ENVIRONMENT_ERRORS.has(name) || syscall !== undefined ? printable(message) : (stack ?? message)
}

/** CannotRun for an `import` of a missing package. */
export function missingPackage(error: Error): Error | undefined {
  const isMissing = (error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND'
  const name = isMissing ? /^Cannot find package '([^']+)'/.exec(error.message)?.[1] : undefined
  return name === undefined ? undefined : cannotLoad(name, error)
}
