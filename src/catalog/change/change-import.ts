/**
 * The jobs of imports. An import runs while its request does, so its job is IN_PROGRESS at once. It
 * says how far the file is durable: whoever loads the file goes on there.
 */
import type { Memory } from '../documents/memory.ts'
import type { ImportInput, ImportJob, ImportProgress } from '../documents/model.ts'
import { type Decide, unchanged } from './change.ts'
import { CANCELLED, creatingJob, failed, isUnfinished, stored, succeeded, theJob } from './change-job.ts'

const NOTHING: ImportProgress = { rows: 0, accepted: 0, rejected: 0, durableRows: 0, durableBytes: null }

export function beginImport(
  poolId: string,
  by: string,
  input: ImportInput,
  process?: string,
): Decide<ImportJob | null> {
  return creatingJob(poolId, by, (_, common) => ({
    ...common,
    kind: 'IMPORT',
    status: 'IN_PROGRESS',
    startedAt: common.createdAt,
    input,
    done: { ...NOTHING, durableRows: input.skipRows },
    ...(process === undefined ? {} : { process }),
    isCancelled: false,
  }))
}

export function progressImport(jobId: string, done: ImportProgress, progress: number): Decide<ImportJob> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId, 'IMPORT')
    if (!isUnfinished(job)) return unchanged(job)
    return stored({ ...job, done, progress, modifiedAt: new Date(nowMs).toISOString() })
  }
}

/** @param error null where it succeeded */
export function endImport(jobId: string, done: ImportProgress, error: string | null): Decide<ImportJob> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId, 'IMPORT')
    if (!isUnfinished(job)) return unchanged(job)
    if (error !== null) return ended({ ...job, done }, error, nowMs)
    return succeeded({ ...job, done }, nowMs)
  }
}

/** Ends imports whose server has ended, by default all. The result is their number. */
export function endLeftImports(isLeft: (job: ImportJob) => boolean = () => true): Decide<number> {
  return (memory, nowMs) => {
    const left = importsUnderWay(memory).filter(isLeft)
    const puts = left.flatMap(job => [...ended(job, whyLeft(job), nowMs).puts])
    return { puts, removes: [], result: left.length }
  }
}

export function importsUnderWay(memory: Memory): readonly ImportJob[] {
  return memory.jobs.all().filter(job => job.kind === 'IMPORT' && isUnfinished(job)) as ImportJob[]
}

export function whyLeft({ done: { durableRows } }: ImportJob): string {
  return `The server ended during the import. At least the first ${durableRows} rows are durable: resume with skipRows=${durableRows}.`
}

function ended(job: ImportJob, error: string, nowMs: number) {
  return failed(job, job.isCancelled ? CANCELLED : error, nowMs)
}
