/**
 * The client of the check thread. The thread starts with the first file and ends when none came for
 * a while: a server whose files are checked keeps no thread for them.
 */
import { Unavailable } from '../../util/errors.ts'
import { QUERY_NICE } from '../../util/limits.ts'
import { startThread, type Thread } from '../../util/thread-kit.ts'
import type { CheckCalls, FileToCheck } from './check-file.ts'

/** Time without a check after which the thread ends. It gives its memory back. */
const CHECK_THREAD_IDLE_MS = 10_000

/** Compares a file with its checksum. See CheckCalls for the errors. */
export type CheckFile = (file: FileToCheck) => Promise<void>

export class CheckClient {
  readonly #onCrash: (error: Error) => void
  readonly #idleMs: number
  #thread: Thread<CheckCalls> | undefined
  #exited: Promise<void> = Promise.resolve()
  #idle: NodeJS.Timeout | undefined
  #running = 0
  #isEnded = false

  /** @param onCrash called when the thread has crashed: a bug, with which the process must end */
  constructor(onCrash: (error: Error) => void, idleMs = CHECK_THREAD_IDLE_MS) {
    this.#onCrash = onCrash
    this.#idleMs = idleMs
  }

  readonly check: CheckFile = async file => {
    if (this.#isEnded) throw stopping()
    clearTimeout(this.#idle)
    this.#running += 1
    try {
      this.#thread ??= this.#start()
      await this.#thread.call('check', file)
    } finally {
      this.#running -= 1
      if (this.#running === 0 && !this.#isEnded)
        this.#idle = setTimeout(() => this.#endThread(), this.#idleMs).unref()
    }
  }

  /** Ends running checks, which reject with Unavailable. Resolves when the thread has ended. */
  async stop(): Promise<void> {
    this.#isEnded = true
    clearTimeout(this.#idle)
    this.#endThread()
    await this.#exited
  }

  #start(): Thread<CheckCalls> {
    return startThread<CheckCalls>({
      name: 'check',
      data: undefined,
      nice: QUERY_NICE,
      lost: error => new Unavailable('check_thread_lost', `the check thread failed: ${error.message}`),
      onCrash: error => {
        if (!this.#isEnded) this.#onCrash(error)
      },
    })
  }

  #endThread(): void {
    const thread = this.#thread
    if (thread === undefined) return
    this.#thread = undefined
    this.#exited = thread.exited
    thread.stop().catch(() => {}) // onCrash has got the reason
  }
}

function stopping(): Unavailable {
  return new Unavailable('stopping', 'Weir is stopping')
}
