/**
 * The index thread: it owns `data/index` and answers calls one after the other.
 *
 *   W-4   A commit is answered after its sync. A commit whose outcome is unknown ends the process
 *         before anything follows it.
 *   W-11  All synchronous work on the index is here, none on the main thread.
 */
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MessagePort } from 'node:worker_threads'
import type { ResultOf } from '../util/callee.ts'
import type { Disk } from '../util/disk.ts'
import { AssertionFailed, must, Unavailable } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { LMDB_FILES } from '../util/paths.ts'
import { niceThread } from '../util/this-thread.ts'
import { moved, serve } from '../util/thread-server.ts'
import { OutcomeUnknown } from './index-store.ts'
import type { DeletionVector, IndexCalls, IndexEvents, IndexThreadData } from './index-types.ts'
import { type Opened, openIndexFolder, tryReadEarly } from './open-index.ts'
import type { LoggedSequences } from './rebuild-index.ts'
import { type Swept, sweep } from './sweep-orphans.ts'

/** The parts that workers/index.ts passes in. */
interface ServeOptions {
  readonly port: MessagePort
  readonly data: IndexThreadData
  readonly disk: Disk
  readonly loggedSequences: LoggedSequences
}

/** Reads what is there, opens the index for the owner that comes, and serves until the stop. */
export function serveIndex(options: ServeOptions): void {
  const { port, data, disk } = options
  const hasIndex = disk.exists(join(data.folder, LMDB_FILES.data))
  // No index is created in a folder that is no data folder.
  let early = hasIndex ? tryReadEarly({ ...data, disk }) : undefined
  let opened: Opened | undefined
  let isStopping = false
  const index = () => must(opened, 'an open index').index
  /** Throws where a long call must end because of a stop. The next start does the rest. */
  const mayGoOn = () => {
    if (isStopping) throw new Unavailable('index_stopping', 'the index is being closed')
  }
  const tell = serve<IndexCalls, IndexEvents>(
    port,
    {
      open: async owner => {
        const read = early
        early = undefined // it holds the file names of all pools
        const onProgress = (done: number, of: number, pool: number) => tell('progress', { done, of, pool })
        opened = await openIndexFolder({ ...data, ...options, ...owner, onProgress }, read)
        return found(opened)
      },
      commit: flushes => {
        const committed = index().commit(flushes)
        return moved(committed, buffersOf(committed))
      },
      commitCompaction: compaction => {
        const committed = index().commitCompaction(compaction)
        return moved(committed, buffersOf([committed]))
      },
      readDeletionVectors: pool => {
        const lists = index().readDeletionVectors(pool)
        return moved(lists, buffersOf([lists]))
      },
      dropPool: async pool => {
        while (index().dropSlice(pool)) {
          await nextTurn()
          mayGoOn()
        }
      },
      sweep: poolsByFolder => sweepFolders(must(opened, 'an open index'), options, poolsByFolder, mayGoOn),
    },
    {
      // An error of our own, or a commit whose outcome is unknown, ends the thread and with it the
      // process.
      mayAnswer: error => !(error instanceof AssertionFailed || error instanceof OutcomeUnknown),
      answered: call => {
        // Until the answer to `open` the start waits for this thread.
        if (call === 'open' && data.nice !== undefined) niceThread(data.nice)
        if (call === 'commit') crashPoint('index.answered')
        if (call === 'commitCompaction') crashPoint('index.compaction-answered')
      },
      interrupt: () => {
        isStopping = true
      },
      close: () => {
        early?.store.close()
        opened?.index.close()
      },
    },
  )
}

function found(opened: Opened): ResultOf<IndexCalls['open']> {
  const { pools, lastCommit, keyLoop, rebuiltBecause, cleared, unknownFolders, possibleLosses } = opened
  return {
    opened: { pools, lastCommit, rebuilt: rebuiltBecause !== undefined, keyLoop },
    notes: { rebuiltBecause, cleared, unknownFolders, possibleLosses },
  }
}

function sweepFolders(
  { index, pools, folders, rebuiltBecause }: Opened,
  { data, disk }: ServeOptions,
  poolsByFolder: ReadonlyMap<string, number>,
  mayGoOn: () => void,
): Promise<Swept> {
  const now = index.state().pools
  const indexWasWhole = rebuiltBecause === undefined
  const { segmentFolder } = data
  const what = { segmentFolder, opened: pools, now, folders, poolsByFolder, indexWasWhole }
  return sweep({ disk, mayGoOn, ...what })
}

/** Buffers of deletion vectors, to be moved rather than copied. */
function buffersOf(
  answers: readonly { readonly deletionVectors: readonly DeletionVector[] }[],
): ArrayBuffer[] {
  return answers.flatMap(({ deletionVectors }) =>
    deletionVectors.map(({ rows }) => rows.buffer as ArrayBuffer),
  )
}
