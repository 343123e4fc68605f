/**
 * The one way to run a process of Weir that serves calls. If it crashes, this process lives on.
 *
 *   startProcess({ name, data })  ── argument, JSON ──►  beginProcess(): name, nice value, …
 *   process.call('run', task)     ── socket pair ──►  serve(port, { run }): the handler
 *
 *   K-6  The process ends with this one, however this one ends.
 *   K-7  It gets no secret: its environment has only what its libraries read, its arguments are the
 *        data that its caller gives, and it inherits no file.
 *
 * Values are copied in V8's format, both ways. Buffers do not change hands: a move list is ignored.
 */

import { fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { workerFile } from './build-files.ts'
import { type AnswerMessage, Callee, type CalleeOptions, type Carrier, type Reports } from './callee.ts'
import { faultSpec } from './fault-injection.ts'
import { type LogSettings, logSettings } from './say.ts'

/** The argument of every such process, as JSON. */
export interface ProcessStart {
  readonly name: string
  readonly nice: number
  readonly crashAt: string
  readonly faults: string
  readonly log: LogSettings
  readonly data: unknown
}

interface ProcessOptions {
  /** Names the file in `workers/`, and the process in `top` as `weir-<name>`. */
  readonly name: string
  /** JSON. Every user of the machine can read it. */
  readonly data: unknown
  /** Added to the nice value of each thread of the process. */
  readonly nice: number
  /** Hidden option of tests; see util/fault-injection.ts. It kills the process alone. */
  readonly crashAt: string
  /** Megabytes of V8's heap for long-lived objects. A process that needs more aborts. */
  readonly heapMiB: number
  /**
   * Bytes of private writable memory that the system gives the process (RLIMIT_DATA): heaps, mapped
   * memory and whole stacks. Beyond it an allocation fails in the process. Absent for no limit.
   */
  readonly dataBytesMax?: number
  /** Default: the file of its name. */
  readonly file?: URL
}

/** See Callee for `Calls` and `Events`. */
export function startProcess<Calls, Events = object>(
  options: ProcessOptions & CalleeOptions<Events>,
): Callee<Calls, Events> {
  return new Callee(`the ${options.name} process`, options, reports => carry(options, reports))
}

/** What the system, libuv and an instrumented native module read. */
const ENVIRONMENT = ['LD_LIBRARY_PATH', 'LD_PRELOAD', 'UV_THREADPOOL_SIZE', 'ASAN_OPTIONS', 'UBSAN_OPTIONS']

/** Sets the limit of $0 KiB, and becomes the command after it. */
const LIMITED =
  'ulimit -d "$0" || echo "weir: the system refuses a limit of memory for the processes of Weir" >&2; exec "$@"'
const SHELL = '/bin/sh'

/**
 * The command that runs Node. Node cannot set a limit of the system, so a shell does, whose process
 * then becomes Node's: its id, its parent and the channel stay.
 *
 * Not RLIMIT_AS, which counts what V8 and sanitizers reserve: they reserve terabytes. Sanitizers
 * write to what they reserve, so that a process with one has no limit.
 */
function command({ heapMiB, dataBytesMax }: ProcessOptions) {
  const argumentsOfNode = [`--max-old-space-size=${heapMiB}`]
  const isInstrumented = process.env['ASAN_OPTIONS'] !== undefined
  if (dataBytesMax === undefined || isInstrumented || !existsSync(SHELL))
    return { execPath: process.execPath, execArgv: argumentsOfNode }
  const kib = String(Math.ceil(dataBytesMax / 1024))
  return { execPath: SHELL, execArgv: ['-c', LIMITED, kib, process.execPath, ...argumentsOfNode] }
}

/**
 * DuckDB's allocator keeps addresses that it has given back, which the limit counts: 1,650 MiB
 * where 960 were in use. Without that 1,090.
 */
const GIVE_BACK = { DUCKDB_JE_MALLOC_CONF: 'retain:false' }

function carry(options: ProcessOptions, reports: Reports): Carrier {
  const { name, nice, crashAt, data, file } = options
  const start: ProcessStart = { name, nice, crashAt, faults: faultSpec(), log: logSettings(), data }
  const child = fork(file ?? workerFile(name), [JSON.stringify(start)], {
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { ...Object.fromEntries(ENVIRONMENT.map(key => [key, process.env[key]])), ...GIVE_BACK },
    ...command(options),
  })
  // The standard output of a command is its result, so both outputs go to standard error. They go
  // through this process, whose lines no reader can hold up (lines.ts).
  for (const output of [child.stdout, child.stderr])
    output?.on('data', (bytes: Uint8Array) => process.stderr.write(bytes))
  const exited = new Promise<void>(resolve => {
    const end = (what: string) => {
      reports.exit(new Error(`the ${name} process ${child.pid ?? '?'} ${what}`))
      resolve()
    }
    child.once('close', (code, signal) =>
      end(signal === null ? `ended with code ${code}` : `was ended by ${signal}`),
    )
    child.on('error', error => {
      reports.crash(error)
      if (child.pid === undefined) end('did not start')
    })
  })
  child.on('message', message => reports.message(message as AnswerMessage))
  return {
    // The end of the process rejects the call. An error of the channel says nothing more.
    post: message => void child.send(message, () => undefined),
    terminate: () => {
      child.kill('SIGKILL')
      return exited
    },
  }
}
