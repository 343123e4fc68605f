/**
 * Entry point of a parse worker: binds the task runner (src/parse/run-task.ts) to Piscina. Batches
 * stand in shared memory, and all other buffers are moved.
 */
import { workerData } from 'node:worker_threads'
import type * as PiscinaPackage from 'piscina'
import type { ParseResult, ParseTask } from '../src/parse/parse-task.ts'
import type { ParseWorkersData } from '../src/parse/parse-workers.ts'
import { createTaskRunner, needsZstd } from '../src/parse/run-task.ts'
import { loadUnzstd, type Unzstd } from '../src/parse/sender/unzstd.ts'
import { loadPackage } from '../src/util/load-package.ts'
import { nameThread } from '../src/util/this-thread.ts'

const { move, transferableSymbol, valueSymbol } = loadPackage('piscina') as typeof PiscinaPackage
const { kernel, options, started } = workerData as ParseWorkersData
nameThread(`parse-${1 + Atomics.add(started, 0, 1)}`)
const run = createTaskRunner(kernel, options)

let unzstd: Unzstd | undefined

/** Piscina calls it for each parse task. Only a task of zstd waits, until the decoder is there. */
export default function parse(task: ParseTask): unknown {
  if (unzstd !== undefined || !needsZstd(task)) return answer(run(task, unzstd))
  return loadUnzstd().then(loaded => {
    unzstd = loaded
    return answer(run(task, unzstd))
  })
}

function answer(result: ParseResult): unknown {
  const buffers = [result.outcomes.buffer, result.errors.buffer, result.recordBytes.buffer]
  return move({ [transferableSymbol]: buffers, [valueSymbol]: result } as never)
}
