/**
 * Recovery, joined: log records → parse workers → tail.
 *
 * The columns of a record are cut again from exactly its accepted events, with exactly its plan (W-2, W-12). A record that
 * cannot be cut as it was accepted stops the start, naming it.
 */
import {
  FAULT_WORDS,
  OUTCOME_ACCEPTED,
  OUTCOME_EVENTS,
  OUTCOME_WORDS,
  REQUEST_BITS,
  REQUEST_BYTES,
  REQUEST_OFFSET,
  REQUEST_RECEIVED_AT,
  REQUEST_WORDS,
} from './batch/kernel.ts'
import { batchBytesMax, batchCostOf } from './batch/layout.ts'
import type { Plan } from './batch/plan.ts'
import type { Job, JobGroup, JobResult } from './batch/protocol.ts'
import type { ReplayChunk, Replayed } from './commit/protocol.ts'
import { Damaged } from './errors.ts'
import { BATCH_BYTES_MAX, JOB_BYTES_MAX, JOB_REQUESTS_MAX } from './limits.ts'
import { ENTRY_WORDS, type TailEntry } from './segment/protocol.ts'
import { must } from './util/assert.ts'

/** What a replay needs of the stages. */
export interface ReplayServices {
  plan(pool: number, version: number): { readonly plan: Plan; readonly shared: SharedArrayBuffer } | undefined
  parse(job: Job): Promise<JobResult>
  append(pool: number, plan: Plan, entries: readonly TailEntry[]): void
}

/** Records of one chunk that are cut together: one pool, plan and kind. */
interface Run {
  readonly records: readonly Replayed[]
  readonly plan: Plan
  readonly job: Job
}

/** Cuts a chunk again and appends its rows to the tails, in sequence order. @throws Damaged naming the record */
export async function replayChunk(chunk: ReplayChunk, services: ReplayServices): Promise<void> {
  const runs = runsOf(chunk, services)
  for (let at = 0; at < runs.length; ) {
    // The parse workers take a few runs at once; the tails take the results in order.
    const few = runs.slice(at, at + RUNS_AT_ONCE)
    at += few.length
    const results = await Promise.all(few.map(run => services.parse(run.job)))
    for (const [index, run] of few.entries()) appendRun(run, must(results[index], 'a result'), services)
  }
}

/** Below the jobs that one parse worker takes, so that the pool's limit holds on a machine with one core. */
const RUNS_AT_ONCE = 2

function runsOf(chunk: ReplayChunk, services: ReplayServices): Run[] {
  const runs: Run[] = []
  for (let from = 0; from < chunk.records.length; ) {
    const first = chunk.records[from]!
    const { plan, shared } = planOf(first, services)
    const cost = batchCostOf(plan)
    let to = from
    let bytes = 0
    let cutBytes = 0
    while (to < chunk.records.length && to - from < JOB_REQUESTS_MAX && bytes < JOB_BYTES_MAX) {
      const next = chunk.records[to]!
      if (next.pool !== first.pool || next.version !== first.version || next.kind !== first.kind) break
      cutBytes += batchBytesMax(cost, next.bodyBytes, next.events)
      if (to > from && cutBytes > BATCH_BYTES_MAX) break
      bytes += next.bodyBytes
      to += 1
    }
    runs.push(runOf(chunk, chunk.records.slice(from, to), plan, shared))
    from = to
  }
  return runs
}

function planOf(record: Replayed, services: ReplayServices) {
  const found = services.plan(record.pool, record.version)
  if (found !== undefined) return found
  throw new Damaged(
    record.file,
    record.fileOffset,
    `sequence ${record.sequence} was cut with plan ${record.version} of pool ${record.pool}, which the catalog does not know`,
  )
}

function runOf(chunk: ReplayChunk, records: readonly Replayed[], plan: Plan, shared: SharedArrayBuffer): Run {
  const { pool, version, kind } = records[0]!
  const table = new Float64Array(records.length * REQUEST_WORDS)
  for (const [index, record] of records.entries()) {
    const row = index * REQUEST_WORDS
    table[row + REQUEST_OFFSET] = record.offset
    table[row + REQUEST_BYTES] = record.bodyBytes
    table[row + REQUEST_RECEIVED_AT] = record.receivedAtMs
    table[row + REQUEST_BITS] = record.bitsOffset
  }
  const group: JobGroup = { kind, pool, version, plan: shared, from: 0, to: records.length }
  return { records, plan, job: { slab: chunk.slab, table, groups: [group], isReplay: true } }
}

function appendRun(run: Run, result: JobResult, services: ReplayServices): void {
  for (const [index, record] of run.records.entries()) {
    const events = result.outcomes[index * OUTCOME_WORDS + OUTCOME_EVENTS]
    const accepted = result.outcomes[index * OUTCOME_WORDS + OUTCOME_ACCEPTED]
    if (events === record.events && accepted === record.accepted) continue
    throw new Damaged(
      record.file,
      record.fileOffset,
      `sequence ${record.sequence}: ${record.accepted} of ${record.events} events were accepted, ${accepted} of ${events} can be cut${faultOf(result, index)}`,
    )
  }
  const kind = run.records[0]!.kind
  const entries = result.parts.map(part => {
    const requests = new Float64Array(part.requests.length * ENTRY_WORDS)
    for (const [place, index] of part.requests.entries()) {
      const record = run.records[index]!
      requests.set([record.sequence, record.receivedAtMs, record.accepted], place * ENTRY_WORDS)
    }
    return { kind, batch: part.batch, requests }
  })
  if (entries.length > 0) services.append(run.plan.pool, run.plan, entries)
}

function faultOf(result: JobResult, request: number): string {
  for (let at = 0; at < result.faults.length; at += FAULT_WORDS)
    if (result.faults[at] === request) return `; event ${result.faults[at + 1]} fails`
  return ''
}
