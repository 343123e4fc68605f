/**
 * The index thread: owns `data/index`, answers calls one after the other.
 *
 *   W-4   A commit is answered after its flush. One that may be there or not ends the process before anything follows it.
 *   W-11  All synchronous work on the index is here, none on the main thread.
 */
import { join } from 'node:path'
import type { MessagePort } from 'node:worker_threads'
import { toWire, Unavailable } from '../errors.ts'
import { LMDB_FILES } from '../paths.ts'
import { AssertionFailed, must } from '../util/assert.ts'
import { crashPoint } from '../util/crash.ts'
import type { Disk } from '../util/disk.ts'
import { tryNative } from '../util/native.ts'
import { OutcomeUnknown } from './commit-failure.ts'
import type { ParseDeletes } from './folder-segments.ts'
import { type Early, type Opened, openIndexFolder, readEarly } from './open.ts'
import type { MarkDelta } from './protocol.ts'
import type { HeldSequences } from './rebuild.ts'
import { nextTurn, sweep } from './sweep.ts'
import type {
  IndexCall,
  IndexFirst,
  IndexMessage,
  IndexOwner,
  IndexResults,
  IndexThreadData,
} from './thread-protocol.ts'

/** What workers/index.ts brings together. */
interface ServeOptions {
  readonly port: MessagePort
  readonly data: IndexThreadData
  readonly disk: Disk
  readonly parseDeletes: ParseDeletes
  readonly heldSequences: HeldSequences
}

/** Reads what is there, opens the index for the owner that comes, says so, and serves until `stop`. */
export function serveIndex(options: ServeOptions): void {
  const { port, data, disk } = options
  const hasIndex = disk.exists(join(data.folder, LMDB_FILES.data))
  // A folder that is no data folder gets no index.
  let early = hasIndex ? readEarly({ ...data, disk }) : undefined
  let calls: Calls | undefined
  port.on('message', (message: IndexFirst | IndexCall) => {
    if (message.call === 'leave') leave(port, early)
    else if (message.call === 'open') {
      const read = early
      early = undefined // all names of all pools
      void open(options, message, read).then(found => {
        if (found === undefined) port.close()
        else calls = new Calls(options, found)
      })
    } else must(calls, 'an open index').answer(message)
  })
}

function leave(port: MessagePort, early: Early | undefined): void {
  if (early !== undefined && 'got' in early.store) early.store.got.close()
  port.close()
}

/** undefined: it could not be opened, and that was said. */
async function open(
  options: ServeOptions,
  { identity, pools: known }: IndexOwner,
  early: Early | undefined,
): Promise<Opened | undefined> {
  const { port, data } = options
  const send = (message: IndexMessage) => port.postMessage(message)
  const onProgress = (done: number, of: number, pool: number) => send({ kind: 'progress', done, of, pool })
  let opened: Opened
  try {
    opened = await openIndexFolder({ ...data, ...options, identity, pools: known, onProgress }, early)
  } catch (error) {
    send({ kind: 'failed', error: toWire(error) })
    return undefined
  }
  const { pools, lastCommit, keyLoop, rebuiltBecause, cleared, unknownFolders, lost } = opened
  const answer = { pools, lastCommit, rebuilt: rebuiltBecause !== undefined, keyLoop }
  send({ kind: 'opened', opened: answer, notes: { rebuiltBecause, cleared, unknownFolders, lost } })
  if (data.nice !== undefined) beNice(data.nice) // from now on others are waited for
  return opened
}

/** Answers calls, but for what comes before the index is open. */
class Calls {
  readonly #options: ServeOptions
  readonly #opened: Opened
  /** Calls that let others in between their steps. */
  readonly #long = new Set<Promise<unknown>>()
  #isStopping = false

  constructor(options: ServeOptions, opened: Opened) {
    this.#options = options
    this.#opened = opened
  }

  answer(call: IndexCall): void {
    const { port } = this.#options
    const send = (message: IndexMessage, transfer: readonly ArrayBuffer[] = []) =>
      port.postMessage(message, [...transfer])
    void this.#handled(call).then(
      result => {
        send({ kind: 'done', id: call.id, result }, buffersOf(result))
        if (call.call === 'commit') crashPoint('index.answered')
        if (call.call === 'swap') crashPoint('index.swap-answered')
        if (call.call === 'stop') port.close() // nothing is left to wait for: the thread ends by itself
      },
      (error: unknown) => {
        // Our own fault, or a commit of which nobody knows whether it is there: the thread ends, and the process with it.
        if (error instanceof AssertionFailed || error instanceof OutcomeUnknown) throw error
        send({ kind: 'refused', id: call.id, error: toWire(error) })
      },
    )
  }

  /** Long calls let others in between their steps. The end waits for the step that is under way, and no further one begins. */
  async #handled(call: IndexCall): Promise<IndexResults[keyof IndexResults]> {
    if (call.call === 'stop') {
      this.#isStopping = true
      await Promise.all(this.#long)
    }
    const done = handle(call, this.#opened, this.#options, () => this.#mayGoOn())
    if (call.call === 'sweep' || call.call === 'dropPool') {
      const ended = done.catch(() => undefined)
      this.#long.add(ended)
      void ended.then(() => this.#long.delete(ended))
    }
    return await done
  }

  /** Throws where a long call is to end: the next start does the rest. */
  #mayGoOn(): void {
    if (this.#isStopping) throw new Unavailable('index_stopping', 'the index is being closed')
  }
}

async function handle(
  call: IndexCall,
  { index, pools, folders, rebuiltBecause }: Opened,
  { data, disk, parseDeletes }: ServeOptions,
  mayGoOn: () => void,
): Promise<IndexResults[keyof IndexResults]> {
  switch (call.call) {
    case 'commit':
      return index.commit(call.seals)
    case 'swap':
      return index.swap(call.swap)
    case 'readMarks':
      return index.readMarks(call.pool)
    case 'dropPool':
      while (index.dropSlice(call.pool)) {
        await nextTurn()
        mayGoOn()
      }
      return undefined
    case 'sweep': {
      const now = index.state().pools
      const indexWasWhole = rebuiltBecause === undefined
      const { poolsByFolder } = call
      const { segmentFolder } = data
      const what = { segmentFolder, opened: pools, now, folders, poolsByFolder, indexWasWhole }
      return await sweep({ disk, parseDeletes, mayGoOn, ...what })
    }
    case 'stop':
      index.close()
      return undefined
  }
}

/** Buffers of marks, to be moved rather than copied. */
function buffersOf(result: IndexResults[keyof IndexResults]): ArrayBuffer[] {
  const lists: MarkDelta[] = []
  if (Array.isArray(result)) for (const { marks } of result) lists.push(...marks)
  else if (result !== undefined && 'marks' in result) lists.push(...result.marks)
  return lists.map(({ rows }) => rows.buffer as ArrayBuffer)
}

function beNice(nice: number): void {
  const set = tryNative()?.['niceThread']
  if (typeof set === 'function') (set as (nice: number) => boolean)(nice)
}
