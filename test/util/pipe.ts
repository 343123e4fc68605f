/** A pipe for the output of a process, which a test reads or not, and whose reader may go. */
import { spawnSync } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from './server.ts'

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = constants

export class Pipe {
  /** The end that a child gets. */
  readonly writer: number
  readonly #path = join(temporaryFolder(), 'pipe')
  #reader: number
  #read = ''

  constructor() {
    const { status, stderr } = spawnSync('mkfifo', [this.#path])
    if (status !== 0) throw new Error(`mkfifo: ${stderr}`)
    this.#reader = this.#open()
    this.writer = openSync(this.#path, O_WRONLY)
  }

  #open(): number {
    return openSync(this.#path, O_RDONLY | O_NONBLOCK)
  }

  /** Reads whatever is in the pipe. Returns all that was read so far. */
  read(): string {
    const chunks: Buffer[] = []
    for (let count = 1; count > 0; ) {
      const chunk = Buffer.alloc(65_536)
      try {
        count = readSync(this.#reader, chunk)
      } catch {
        count = 0 // EAGAIN: it is empty
      }
      chunks.push(chunk.subarray(0, count))
    }
    this.#read += Buffer.concat(chunks).toString()
    return this.#read
  }

  /** Fills it, so that the next write finds no room. */
  fill(): void {
    const writer = openSync(this.#path, O_WRONLY | O_NONBLOCK)
    try {
      for (;;) writeSync(writer, Buffer.alloc(4096, '.'))
    } catch {
      closeSync(writer)
    }
  }

  /** True where a write to the shared end would not wait. */
  isNonBlocking(): boolean {
    const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${this.writer}`, 'latin1'))?.[1]
    return (Number.parseInt(flags ?? '', 8) & O_NONBLOCK) !== 0
  }

  closeReader(): void {
    closeSync(this.#reader)
  }

  openReader(): void {
    this.#reader = this.#open()
  }
}
