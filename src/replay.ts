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
import { type BatchCost, batchBytesMax, batchCostOf } from './batch/layout.ts'
import type { Plan } from './batch/plan.ts'
import type { Job, JobGroup, JobResult } from './batch/protocol.ts'
import type { ReplayChunk, Replayed } from './commit/protocol.ts'
import { Damaged } from './errors.ts'
import { BATCH_BYTES_MAX, JOB_BYTES_MAX, JOB_REQUESTS_MAX } from './limits.ts'
import { ENTRY_WORDS, type TailEntry } from './segment/protocol.ts'
import { must } from './util/assert.ts'

/** What a replay needs of the stages. */
interface ReplayServices {
  plan(pool: number, version: number): { readonly plan: Plan; readonly shared: SharedArrayBuffer } | undefined
  parse(job: Job): Promise<JobResult>
  append(pool: number, plan: Plan, entries: readonly TailEntry[]): void
}

/** Records of one chunk that are cut in one hand-over. */
interface Run {
  /** By the table's rows: by pool, each pool's in sequence order. */
  readonly records: readonly Replayed[]
  /** The plan of each record. */
  readonly plans: readonly Plan[]
  readonly job: Job
}

/**
 * Cuts a chunk again and appends its rows to the tails, each pool's in sequence order. Thousands of pools may take
 * turns in the log: their records are cut together, as they were when they came. @throws Damaged naming the record
 */
export async function replayChunk(chunk: ReplayChunk, services: ReplayServices): Promise<void> {
  const runs = runsOf(chunk, services)
  // The parse workers have a few runs at a time; the tails take the results in order.
  const results: Promise<JobResult>[] = []
  const startNext = () => {
    const run = runs[results.length]
    if (run === undefined) return
    const result = services.parse(run.job)
    result.catch(() => undefined) // where one before it fails, nobody waits for it
    results.push(result)
  }
  for (let few = 0; few < RUNS_AT_ONCE; few++) startNext()
  for (const [index, run] of runs.entries()) {
    const result = await must(results[index], 'a run that was started')
    startNext()
    appendRun(run, result, services)
  }
}

/** No more than the jobs that one parse worker takes, so that the pool's limit holds on a machine with one core. */
const RUNS_AT_ONCE = 2

function runsOf(chunk: ReplayChunk, services: ReplayServices): Run[] {
  const records = [...chunk.records].sort((a, b) => a.pool - b.pool) // stable: by sequence within a pool
  const costs = new Map<Plan, BatchCost>()
  const bytesMax = (record: Replayed) => {
    const { plan } = planOf(record, services)
    const cost = costs.get(plan) ?? batchCostOf(plan)
    costs.set(plan, cost)
    return batchBytesMax(cost, record.bodyBytes, record.events)
  }
  const runs: Run[] = []
  for (let from = 0; from < records.length; ) {
    const to = endOfRun(records, from, bytesMax)
    runs.push(runOf(chunk, records.slice(from, to), services))
    from = to
  }
  return runs
}

/** A hand-over has its limits, and one version of each pool: rows of two must not take turns in the tail. */
function endOfRun(
  records: readonly Replayed[],
  from: number,
  bytesMax: (record: Replayed) => number,
): number {
  let [to, bytes, cutBytes] = [from, 0, 0]
  for (; to < records.length && to - from < JOB_REQUESTS_MAX && bytes < JOB_BYTES_MAX; to++) {
    const next = records[to]!
    const before = records[to - 1]
    if (to > from && before?.pool === next.pool && before.version !== next.version) break
    cutBytes += bytesMax(next)
    if (to > from && cutBytes > BATCH_BYTES_MAX) break
    bytes += next.bodyBytes
  }
  return to
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

function runOf(chunk: ReplayChunk, records: readonly Replayed[], services: ReplayServices): Run {
  const table = new Float64Array(records.length * REQUEST_WORDS)
  const plans: Plan[] = []
  const groups: JobGroup[] = []
  for (const [index, record] of records.entries()) {
    const row = index * REQUEST_WORDS
    table[row + REQUEST_OFFSET] = record.offset
    table[row + REQUEST_BYTES] = record.bodyBytes
    table[row + REQUEST_RECEIVED_AT] = record.receivedAtMs
    table[row + REQUEST_BITS] = record.bitsOffset
    const { pool, version, kind } = record
    const { plan, shared } = planOf(record, services)
    plans.push(plan)
    const last = groups.at(-1)
    const isSame = last?.pool === pool && last.kind === kind
    const from = isSame ? groups.pop()!.from : index
    groups.push({ kind, pool, version, plan: shared, from, to: index + 1 })
  }
  return { records, plans, job: { slab: chunk.slab, table, groups, isReplay: true } }
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
  // Without an await between: parts of a pool may hold requests that take turns.
  for (const { batch, requests: places } of result.parts) {
    const first = must(places[0], 'a request of a part')
    const requests = new Float64Array(places.length * ENTRY_WORDS)
    for (const [place, index] of places.entries()) {
      const record = run.records[index]!
      requests.set([record.sequence, record.receivedAtMs, record.accepted], place * ENTRY_WORDS)
    }
    const { pool, kind } = run.records[first]!
    services.append(pool, run.plans[first]!, [{ kind, batch, requests }])
  }
}

function faultOf(result: JobResult, request: number): string {
  for (let at = 0; at < result.faults.length; at += FAULT_WORDS)
    if (result.faults[at] === request) return `; event ${result.faults[at + 1]} fails`
  return ''
}
