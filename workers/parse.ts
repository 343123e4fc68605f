/** Parse worker: binds the job runner (src/batch/job.ts) to Piscina. Batches stand in shared memory, the rest is moved. */
import { move, Piscina, transferableSymbol, valueSymbol } from 'piscina'
import { createJobRunner } from '../src/batch/job.ts'
import { chooseKernels } from '../src/batch/kernels.ts'
import type { Job, JobResult } from '../src/batch/protocol.ts'
import type { ParseWorkersData } from '../src/batch/workers.ts'

const run = createJobRunner(chooseKernels((Piscina.workerData as ParseWorkersData).kernel))

/** Piscina calls it for each job. */
export default function parse(job: Job): unknown {
  const result = run(job)
  return move({ [transferableSymbol]: buffersOf(result), [valueSymbol]: result } as never)
}

function buffersOf(result: JobResult): ArrayBuffer[] {
  return [result.outcomes.buffer, result.faults.buffer, result.recordBytes.buffer] as ArrayBuffer[]
}
