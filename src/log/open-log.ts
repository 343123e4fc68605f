/** Starts the two threads of the commit stage, and recovers the log through the first of them. */
import { Worker } from 'node:worker_threads'
import { fromWire } from '../util/errors.ts'
import { LOG_FILE_BYTES } from '../util/limits.ts'
import { type CommitThreads, LogCommit } from './commit-log.ts'
import type { FromLog, FromSpare, Port, RecoveredState, ThreadData, ToLog, ToSpare } from './log-messages.ts'
import type { Commit, RecoverOptions } from './log-types.ts'
import type { Durability } from './log-writer.ts'
import type { RecoveredSummary } from './recover-log.ts'

interface OpenLogOptions {
  /** Absolute; made if missing. */
  readonly folder: string
  readonly durability: Durability
  /** Hidden option of tests; see util/fault-injection.ts. */
  readonly crashAt: string
  /** Default LOG_FILE_BYTES. */
  readonly fileBytes?: number
}

/** An open log: what recovery found, and the way in. */
export interface OpenedLog {
  readonly summary: RecoveredSummary
  readonly commit: Commit
}

/** The log's thread, which reads what is there until `recover` tells it what is flushed. */
export interface StartedLog {
  /**
   * Recovers the log, replaying what is above the flushed sequences, and opens it for appends. Resolves when everything
   * replayed is copied into the new generation and synced (W-3). Rejects with Damaged, CannotRun (no room), or what `replay`
   * threw; the thread is ended then.
   */
  recover(options: RecoverOptions): Promise<OpenedLog>
  /** Ends the thread where `recover` was not called. */
  leave(): Promise<void>
}

/** Starts the log's thread. The other one, of the spares, is started when the log is open. */
export function startLog(options: OpenLogOptions): StartedLog {
  const { folder, durability, crashAt } = options
  const data: ThreadData = { folder, durability, crashAt, fileBytes: options.fileBytes ?? LOG_FILE_BYTES }
  const log = startThread<ToLog, FromLog>(new URL('../../workers/log.js', import.meta.url), data)
  const startSpare = () =>
    startThread<ToSpare, FromSpare>(new URL('../../workers/spare.js', import.meta.url), data)
  let death: Error | undefined
  let isTaken = false
  log.onDeath = error => {
    death ??= error // an exit follows, which says less
  }
  log.post({ kind: 'read' })
  return {
    recover: async recover => {
      isTaken = true
      if (death !== undefined) throw death
      return await openOver({ log, startSpare }, data, recover)
    },
    leave: async () => {
      if (!isTaken) await log.end()
    },
  }
}

/** `startLog`, and `recover` at once. */
export function openLog(options: OpenLogOptions, recover: RecoverOptions): Promise<OpenedLog> {
  return startLog(options).recover(recover)
}

/** The threads of a log that is not recovered yet. */
export interface LogThreads {
  readonly log: CommitThreads['log']
  startSpare(): CommitThreads['spare']
}

/** Recovers over threads that run already. */
export async function openOver(
  { log, startSpare }: LogThreads,
  data: ThreadData,
  recover: RecoverOptions,
): Promise<OpenedLog> {
  try {
    const state = await recovered(log, recover)
    return { summary: state.summary, commit: new LogCommit({ log, spare: startSpare() }, data, state) }
  } catch (error) {
    await log.end()
    throw error
  }
}

function recovered(log: Port<ToLog, FromLog>, recover: RecoverOptions): Promise<RecoveredState> {
  return new Promise((resolve, reject) => {
    log.onDeath = reject
    log.onMessage = message => {
      if (message.kind === 'recovered') resolve(message.state)
      else if (message.kind === 'failed') reject(fromWire(message.error))
      else if (message.kind === 'replay') {
        recover.replay(message.chunk).then(() => log.post({ kind: 'replayed' }), reject)
      }
    }
    log.post({ kind: 'recover', flushed: recover.flushed })
  })
}

function startThread<To, From>(url: URL, data: ThreadData): Port<To, From> {
  const worker = new Worker(url, { workerData: data })
  const port: Port<To, From> = {
    post: message => worker.postMessage(message),
    onMessage: () => {},
    onDeath: () => {},
    end: async () => {
      port.onDeath = () => {}
      await worker.terminate()
    },
  }
  worker.on('message', (message: From) => port.onMessage(message))
  worker.on('error', error => port.onDeath(error instanceof Error ? error : new Error(String(error))))
  worker.on('exit', code => port.onDeath(new Error(`the thread exited with ${code}`)))
  return port
}
