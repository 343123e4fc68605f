/**
 * Writes lines to one output of the process, in the thread of workers/lines.ts. lines.ts, on the
 * main thread, sends them.
 */
import { writeSync } from 'node:fs'
import { leftOutLine } from './say.ts'

/** A line for the thread. */
export interface Line {
  /** The index in OUTPUTS. */
  readonly output: number
  readonly bytes: Uint8Array
  /** Lines before it that found no room. */
  readonly leftOut: number
}

export interface LineCalls {
  write(line: Line): void
}

/** The outputs. The descriptor of each is its index plus 1. */
export const OUTPUTS = ['stdout', 'stderr'] as const

/** Numbers in memory that both threads see. `DONE` and `LEFT_OUT` have one for each output. */
export const BEGUN = 0
/** Writes begun and ended: odd while the thread is in one. */
export const WRITES = 1
/** Of the bytes sent, as bytesOf() counts them, those that were written or left out. */
export const DONE = 2
/** Lines left out since the start. */
export const LEFT_OUT = DONE + OUTPUTS.length
export const NUMBERS = LEFT_OUT + OUTPUTS.length

/** What a line takes beside its bytes while it waits. */
const LINE_BYTES = 200

export function bytesOf({ bytes }: Pick<Line, 'bytes'>): number {
  return bytes.length + LINE_BYTES
}

/** Time between two tries to write to an output that takes nothing now. */
const RETRY_MS = 20

const LINE_END = Buffer.from('\n')
const NOTHING = Buffer.alloc(0)

/** Writes the lines of one output in their order. */
export class LineWriter {
  readonly #state: Int32Array
  readonly #output: number
  readonly #waiting: Line[] = []
  /** The rest of the first line; undefined where nothing of it was written. */
  #rest: Uint8Array | undefined
  /** Lines left out that no line has told yet. */
  #untold = 0
  /** The last line was left out after its beginning was written. */
  #isTorn = false

  constructor(state: Int32Array, output: number) {
    this.#state = state
    this.#output = output
  }

  add(line: Line): void {
    // Else the line before waits for its turn.
    if (this.#waiting.push(line) === 1) this.#write()
  }

  #write(): void {
    for (let line = this.#waiting[0]; line !== undefined; line = this.#waiting[0]) {
      this.#rest ??= this.#withNotes(line)
      try {
        Atomics.add(this.#state, WRITES, 1)
        this.#rest = this.#rest.subarray(writeSync(this.#output + 1, this.#rest))
        this.#isTorn = this.#rest.length > 0
        if (this.#isTorn) continue
        this.#untold = 0
      } catch (error) {
        // The system has no room now: that of a pipe which is not read.
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
          setTimeout(() => this.#write(), RETRY_MS)
          return
        }
        this.#untold += 1
        Atomics.add(this.#state, LEFT_OUT + this.#output, 1)
      } finally {
        Atomics.add(this.#state, WRITES, 1)
      }
      this.#settle(line)
    }
  }

  /** The line after what must be said before it. */
  #withNotes({ bytes, leftOut }: Line): Uint8Array {
    this.#untold += leftOut
    if (this.#untold === 0) return bytes
    const note = Buffer.from(leftOutLine(this.#untold))
    return Buffer.concat([this.#isTorn ? LINE_END : NOTHING, note, bytes])
  }

  #settle(line: Line): void {
    this.#rest = undefined
    this.#waiting.shift()
    Atomics.add(this.#state, DONE + this.#output, bytesOf(line))
    Atomics.notify(this.#state, DONE + this.#output)
  }
}
