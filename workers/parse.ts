/** Parse worker: binds the job runner (src/batch/job.ts) to Piscina. Batches stand in shared memory, the rest is moved. */
import { workerData } from 'node:worker_threads'
import type * as PiscinaPackage from 'piscina'
import { createJobRunner } from '../src/batch/job.ts'
import { chooseKernels } from '../src/batch/kernels.ts'
import type { Job, JobResult } from '../src/batch/protocol.ts'
import type { ParseWorkersData } from '../src/batch/workers.ts'
import { loadPackage } from '../src/util/load-package.ts'
import { nameThread } from '../src/util/thread-name.ts'

const { move, transferableSymbol, valueSymbol } = loadPackage('piscina') as typeof PiscinaPackage
const { kernel, started } = workerData as ParseWorkersData
nameThread(`parse-${1 + Atomics.add(started, 0, 1)}`)
const run = createJobRunner(chooseKernels(kernel))

/** Piscina calls it for each job. */
export default function parse(job: Job): unknown {
  const result = run(job)
  return move({ [transferableSymbol]: buffersOf(result), [valueSymbol]: result } as never)
}

function buffersOf(result: JobResult): ArrayBuffer[] {
  return [result.outcomes.buffer, result.faults.buffer, result.recordBytes.buffer] as ArrayBuffer[]
}
