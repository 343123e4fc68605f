/**
 * Reads a folder of LMDB in a process of its own, before a command relies on it. LMDB trusts its
 * pages: a damaged file may crash its reader or hold it for ever. The entry point of the process is
 * workers/try-lmdb.ts.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { workerFile } from '../util/build-files.ts'
import { fromWire, type WireError } from '../util/errors.ts'
import type { KernelChoice } from '../util/native.ts'

/** Time for the process that reads a whole index to see whether it is damaged. */
const PROBE_MS_MAX = 3_600_000

/** The question to the process, its one argument. */
export interface LmdbQuestion {
  /** `keys`: counts the keys of an index and does not read the pages that a lookup needs. */
  readonly kind: 'index' | 'keys' | 'catalog'
  readonly folder: string
  /** The key of the catalog's secrets. */
  readonly keyFile: string
  readonly kernel: KernelChoice
}

/** The answer of the process; `keys` are the keys of an index by pool number. */
export type LmdbAnswer =
  | { readonly keys: readonly (readonly [number, number])[] }
  | { readonly error: WireError }

/** Reads an LMDB folder in a process of its own. Resolves with its keys by pool. */
export async function tryLmdb(question: LmdbQuestion): Promise<ReadonlyMap<number, number>> {
  const child = fork(workerFile('try-lmdb'), [JSON.stringify(question)], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  let answer: LmdbAnswer | undefined
  child.on('message', message => {
    answer = message as LmdbAnswer
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), PROBE_MS_MAX)
  // Not `exit`, which may come before the answer that stands in the channel.
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  clearTimeout(timer)
  if (answer === undefined)
    throw new Error(`reading ${question.folder} ended the process that tried it (${signal ?? code})`)
  if ('error' in answer) throw fromWire(answer.error)
  return new Map(answer.keys)
}
