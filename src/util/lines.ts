/**
 * The server's lines on standard output and standard error. A thread writes them (line-writer.ts),
 * so that no write ends the server or holds it up: not to a closed pipe, to a full disk, to a pipe
 * that nobody reads, or to a terminal that is stopped.
 *
 *   say.ts, Node, other threads ─► process.stdout, process.stderr ─► the lines thread ─► 1, 2
 *
 * Lines for which there is no room, or that the system does not take, are left out and counted.
 */
import { closeSync, constants, fstatSync, openSync } from 'node:fs'
import { Writable } from 'node:stream'
import { isatty } from 'node:tty'
import { monotonicMs } from './clock.ts'
import { beforeEnd, killProcess } from './end-process.ts'
import { assert } from './errors.ts'
import { MiB } from './limits.ts'
import { BEGUN, bytesOf, DONE, LEFT_OUT, type LineCalls, NUMBERS, OUTPUTS, WRITES } from './line-writer.ts'
import { startThread } from './thread-kit.ts'

/** Bytes of lines that wait for standard output, and for standard error: some 2,000 lines. */
export const LINES_WAITING_BYTES_MAX = 1 * MiB

/** Time for the thread to start. A server that is refused may end before. */
const BEGIN_MS_MAX = 5_000
/** Time for the last lines at the end of the server. A pipe that nobody reads takes none. */
const LAST_LINES_MS_MAX = 500

const state = new Int32Array(new SharedArrayBuffer(NUMBERS * Int32Array.BYTES_PER_ELEMENT))

/** Lines left out since the start, by output. */
export function linesLeftOut(): [output: string, count: number][] {
  return OUTPUTS.map((name, output) => [name, Atomics.load(state, LEFT_OUT + output)])
}

/**
 * From now on the thread writes whatever this process gives to standard output and standard error.
 * The main thread calls this once, before it starts other threads.
 */
export function beginLines(): void {
  const sent = OUTPUTS.map(() => 0)
  const leftOut = OUTPUTS.map(() => 0)
  const take = (output: number, bytes: Uint8Array) => {
    const line = { output, bytes, leftOut: leftOut[output]! }
    const waiting = (sent[output]! - Atomics.load(state, DONE + output)) | 0
    if (waiting + bytesOf(line) > LINES_WAITING_BYTES_MAX) {
      leftOut[output]! += 1
      Atomics.add(state, LEFT_OUT + output, 1)
      return
    }
    leftOut[output] = 0
    sent[output] = (sent[output]! + bytesOf(line)) | 0
    thread.tell('write', line)
  }
  for (const [output, name] of OUTPUTS.entries()) {
    makeNonBlocking(output + 1)
    const value = new Writable({
      write(chunk: Uint8Array, _encoding, done) {
        take(output, Uint8Array.from(chunk)) // a small chunk shares its memory with others
        done()
      },
    })
    Object.defineProperty(process, name, { configurable: true, enumerable: true, value })
  }
  const thread = startThread<LineCalls>({
    name: 'lines',
    data: state,
    onCrash: error => {
      throw error
    },
  })
  const areWritten = () => {
    Atomics.wait(state, BEGUN, 0, BEGIN_MS_MAX)
    const untilMs = monotonicMs() + LAST_LINES_MS_MAX
    return OUTPUTS.every((_, output) => isDone(output, sent[output]!, untilMs))
  }
  beforeEnd(areWritten)
  process.on('exit', () => {
    if (!areWritten() && isStuck()) killProcess() // exit() would wait for the thread
  })
}

/** True where the system does not end a write of the thread, as to a disk that hangs. */
function isStuck(): boolean {
  const writes = Atomics.load(state, WRITES)
  if (writes % 2 === 0) return false
  Atomics.wait(state, WRITES, writes, LAST_LINES_MS_MAX)
  return Atomics.load(state, WRITES) === writes
}

/** Waits until the thread has written, or left out, all that was sent to an output. */
function isDone(output: number, sent: number, untilMs: number): boolean {
  for (;;) {
    const done = Atomics.load(state, DONE + output)
    if (done === sent) return true
    const restMs = untilMs - monotonicMs()
    if (restMs <= 0) return false
    Atomics.wait(state, DONE + output, done, restMs)
  }
}

const OWN_FLAGS = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY

/**
 * Makes writes to a pipe, a terminal or a socket return at once, those of native code too. The
 * flag for it belongs to the open file, which other processes share: Weir opens a pipe and a
 * terminal again for itself.
 */
function makeNonBlocking(descriptor: number): void {
  const own = isatty(descriptor) || fstatSync(descriptor).isFIFO() ? tryOpenAgain(descriptor) : undefined
  if (own === undefined) {
    // Node sets the flag as it makes the stream of a pipe or a socket, and leaves files alone.
    void (descriptor === 1 ? process.stdout : process.stderr)
    return
  }
  closeSync(descriptor)
  // The lowest free descriptor is the one just closed. Where the last reader went meanwhile, the
  // lines that follow fail and are counted.
  const again = tryOpenAgain(own) ?? openSync('/dev/full', 'w')
  assert(again === descriptor, 'the lowest free descriptor is taken')
  closeSync(own)
}

/** Undefined where the file belongs to another user, or nobody reads the pipe any more. */
function tryOpenAgain(descriptor: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${descriptor}`, OWN_FLAGS)
  } catch {
    return undefined
  }
}
