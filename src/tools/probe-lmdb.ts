/**
 * A whole read of an LMDB folder in a process of its own. LMDB trusts its pages, so that a damaged file may crash whoever
 * reads it, or hold it for ever: here that is an answer and not the end of the command.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fromWire, type WireError } from '../util/errors.ts'
import { PROBE_MS_MAX } from '../util/limits.ts'
import type { KernelChoice } from '../util/native.ts'

/** What the process is asked. */
export interface ProbeQuestion {
  /** `keys`: of an index whose keys are counted and not looked up afterwards. */
  readonly kind: 'index' | 'keys' | 'catalog'
  readonly folder: string
  readonly kernel: KernelChoice
}

/** What it found; keys by pool number, of an index. */
export type ProbeAnswer =
  | { readonly keys: readonly (readonly [number, number])[] }
  | { readonly error: WireError }

/** Reads everything. Resolves with the keys by pool, or with why it could not be read. */
export async function probe(question: ProbeQuestion): Promise<ReadonlyMap<number, number> | Error> {
  const child = fork(new URL('../../workers/probe.js', import.meta.url), [JSON.stringify(question)], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  let answer: ProbeAnswer | undefined
  child.on('message', message => {
    answer = message as ProbeAnswer
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), PROBE_MS_MAX)
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  clearTimeout(timer)
  if (answer === undefined)
    return new Error(`reading ${question.folder} ended the process that tried it (${signal ?? code})`)
  return 'error' in answer ? fromWire(answer.error) : new Map(answer.keys)
}
