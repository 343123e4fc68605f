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
import type { ReplayChunk } from './commit/protocol.ts'
import { REPLAYED, REPLAYED_POST, REPLAYED_WORDS, replayedAt, replayedCount } from './commit/replayed.ts'
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

/** Records of one chunk that are cut in one hand-over: rows [from, to) of its table. */
interface Run {
  readonly from: number
  readonly to: number
  /** By record. */
  readonly plans: readonly Plan[]
  readonly job: Job
}

/** How records of one plan are cut. */
interface CutBy {
  readonly pool: number
  readonly version: number
  readonly plan: Plan
  readonly shared: SharedArrayBuffer
  readonly cost: BatchCost
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
    appendRun(chunk, run, result, services)
  }
}

/** No more than the jobs that one parse worker takes, so that the pool's limit holds on a machine with one core. */
const RUNS_AT_ONCE = 2

function runsOf(chunk: ReplayChunk, services: ReplayServices): Run[] {
  const cutBy = cutByOf(chunk, services)
  const runs: Run[] = []
  for (let from = 0; from < cutBy.length; ) {
    const to = endOfRun(chunk, from, cutBy)
    runs.push(runOf(chunk, from, to, cutBy))
    from = to
  }
  return runs
}

/** How each record is cut. They stand by pool, so that a pool is looked up once. */
function cutByOf(chunk: ReplayChunk, services: ReplayServices): CutBy[] {
  const { table } = chunk
  const all: CutBy[] = []
  let last: CutBy | undefined
  for (let row = 0; row < replayedCount(chunk); row++) {
    const at = row * REPLAYED_WORDS
    const [pool, version] = [table[at + REPLAYED.pool]!, table[at + REPLAYED.version]!]
    if (last?.pool !== pool || last.version !== version) last = lookUp(chunk, row, services)
    all.push(last)
  }
  return all
}

function lookUp(chunk: ReplayChunk, row: number, services: ReplayServices): CutBy {
  const { pool, version, sequence, file, fileOffset } = replayedAt(chunk, row)
  const found = services.plan(pool, version)
  if (found !== undefined) return { pool, version, ...found, cost: batchCostOf(found.plan) }
  throw new Damaged(
    file,
    fileOffset,
    `sequence ${sequence} was cut with plan ${version} of pool ${pool}, which the catalog does not know`,
  )
}

/** A hand-over has its limits, and one version of each pool: rows of two must not take turns in the tail. */
function endOfRun({ table }: ReplayChunk, from: number, cutBy: readonly CutBy[]): number {
  let [to, bytes, cutBytes] = [from, 0, 0]
  for (; to < cutBy.length && to - from < JOB_REQUESTS_MAX && bytes < JOB_BYTES_MAX; to++) {
    const next = cutBy[to]!
    const before = cutBy[to - 1]
    if (to > from && before?.pool === next.pool && before.version !== next.version) break
    const at = to * REPLAYED_WORDS
    const bodyBytes = table[at + REPLAYED.bodyBytes]!
    cutBytes += batchBytesMax(next.cost, bodyBytes, table[at + REPLAYED.events]!)
    if (to > from && cutBytes > BATCH_BYTES_MAX) break
    bytes += bodyBytes
  }
  return to
}

function runOf(chunk: ReplayChunk, from: number, to: number, cutBy: readonly CutBy[]): Run {
  const replayed = chunk.table
  const table = new Float64Array((to - from) * REQUEST_WORDS)
  const plans: Plan[] = []
  const groups: JobGroup[] = []
  for (let row = from; row < to; row++) {
    const at = row * REPLAYED_WORDS
    const into = (row - from) * REQUEST_WORDS
    table[into + REQUEST_OFFSET] = replayed[at + REPLAYED.offset]!
    table[into + REQUEST_BYTES] = replayed[at + REPLAYED.bodyBytes]!
    table[into + REQUEST_RECEIVED_AT] = replayed[at + REPLAYED.receivedAtMs]!
    table[into + REQUEST_BITS] = replayed[at + REPLAYED.bitsOffset]!
    const { pool, version, plan, shared } = cutBy[row]!
    const kind = kindOf(chunk, row)
    plans.push(plan)
    const last = groups.at(-1)
    const isSame = last?.pool === pool && last.kind === kind
    const begin = isSame ? groups.pop()!.from : row - from
    groups.push({ kind, pool, version, plan: shared, from: begin, to: row - from + 1 })
  }
  return { from, to, plans, job: { slab: chunk.slab, table, groups, isReplay: true } }
}

function kindOf({ table }: ReplayChunk, row: number): 'post' | 'delete' {
  return table[row * REPLAYED_WORDS + REPLAYED.kind] === REPLAYED_POST ? 'post' : 'delete'
}

function appendRun(chunk: ReplayChunk, run: Run, result: JobResult, services: ReplayServices): void {
  const { table } = chunk
  for (let row = run.from; row < run.to; row++) {
    const at = row * REPLAYED_WORDS
    const outcome = (row - run.from) * OUTCOME_WORDS
    const isSame =
      result.outcomes[outcome + OUTCOME_EVENTS] === table[at + REPLAYED.events] &&
      result.outcomes[outcome + OUTCOME_ACCEPTED] === table[at + REPLAYED.accepted]
    if (!isSame) throw damageOf(chunk, row, result, row - run.from)
  }
  // Without an await between: parts of a pool may hold requests that take turns.
  for (const { batch, requests: places } of result.parts) {
    const first = must(places[0], 'a request of a part')
    const requests = new Float64Array(places.length * ENTRY_WORDS)
    for (let place = 0; place < places.length; place++) {
      const at = (run.from + places[place]!) * REPLAYED_WORDS
      const into = place * ENTRY_WORDS
      requests[into] = table[at + REPLAYED.sequence]!
      requests[into + 1] = table[at + REPLAYED.receivedAtMs]!
      requests[into + 2] = table[at + REPLAYED.accepted]!
    }
    const plan = run.plans[first]!
    services.append(plan.pool, plan, [{ kind: kindOf(chunk, run.from + first), batch, requests }])
  }
}

function damageOf(chunk: ReplayChunk, row: number, result: JobResult, request: number): Damaged {
  const { sequence, file, fileOffset, events, accepted } = replayedAt(chunk, row)
  const cutEvents = result.outcomes[request * OUTCOME_WORDS + OUTCOME_EVENTS]
  const cutAccepted = result.outcomes[request * OUTCOME_WORDS + OUTCOME_ACCEPTED]
  return new Damaged(
    file,
    fileOffset,
    `sequence ${sequence}: ${accepted} of ${events} events were accepted, ${cutAccepted} of ${cutEvents} can be cut${faultOf(result, request)}`,
  )
}

function faultOf(result: JobResult, request: number): string {
  for (let at = 0; at < result.faults.length; at += FAULT_WORDS)
    if (result.faults[at] === request) return `; event ${result.faults[at + 1]} fails`
  return ''
}
