/**
 * Replay: log records → parse workers → memtable.
 *
 * A record is parsed again: exactly its accepted events, with exactly its schema (W-2, W-12). The
 * start stops at a record that does not parse as it was accepted, and names it.
 */

import { type BatchCost, batchBytesMax, batchCostOf } from '../format/batch-layout.ts'
import type { PoolSchema } from '../format/schema.ts'
import {
  REPLAYED,
  REPLAYED_POST,
  REPLAYED_WORDS,
  type ReplayChunk,
  replayedAt,
  replayedCount,
} from '../log/replay-chunk.ts'
import { ERROR_WORDS, FLAG, OUTCOME, OUTCOME_WORDS, REQUEST, REQUEST_WORDS } from '../parse/kernel.ts'
import type { ParseResult, ParseTask, ParseTaskGroup } from '../parse/parse-task.ts'
import { ENTRY_WORDS, type MemtableEntry } from '../store/flush/memtable.ts'
import { Damaged, must } from '../util/errors.ts'
import { BATCH_BYTES_MAX, PARSE_TASK_BYTES_MAX, PARSE_TASK_REQUESTS_MAX } from '../util/limits.ts'

/** The functions of other layers that a replay calls. */
interface ReplayDeps {
  schema(
    pool: number,
    version: number,
  ): { readonly schema: PoolSchema; readonly shared: SharedArrayBuffer } | undefined
  parse(task: ParseTask): Promise<ParseResult>
  append(pool: number, schema: PoolSchema, entries: readonly MemtableEntry[]): void
  /** Tells the latest received-at of a request of the pool. */
  received(pool: number, us: number): void
}

/** Records of one chunk that share a parse task: rows [from, to) of its table. */
interface Run {
  readonly from: number
  readonly to: number
  /** By record. */
  readonly schemas: readonly PoolSchema[]
  readonly task: ParseTask
}

/** The schema that records are parsed with. */
interface ParsedBy {
  readonly pool: number
  readonly version: number
  readonly schema: PoolSchema
  readonly shared: SharedArrayBuffer
  readonly cost: BatchCost
}

/**
 * Parses a chunk and appends its rows to the memtables, the rows of each pool in sequence order.
 * The records of thousands of pools may alternate in the log, so records of many pools share a
 * parse task.
 * @throws Damaged naming the record
 */
export async function replayChunk(chunk: ReplayChunk, deps: ReplayDeps): Promise<void> {
  const runs = runsOf(chunk, deps)
  // The parse workers run a few tasks at once. The memtables take the results in order.
  const results: Promise<ParseResult>[] = []
  const startNext = () => {
    const run = runs[results.length]
    if (run === undefined) return
    const result = deps.parse(run.task)
    result.catch(() => undefined) // when an earlier run fails, nobody awaits this one
    results.push(result)
  }
  for (let few = 0; few < RUNS_AT_ONCE; few++) startNext()
  for (const [index, run] of runs.entries()) {
    const result = await must(results[index], 'a run that was started')
    startNext()
    appendRun(chunk, run, result, deps)
  }
}

/** As many as one parse worker takes, so that the limit of the worker pool holds on one core. */
const RUNS_AT_ONCE = 2

function runsOf(chunk: ReplayChunk, deps: ReplayDeps): Run[] {
  const parsedBy = parsedByOf(chunk, deps)
  const runs: Run[] = []
  for (let from = 0; from < parsedBy.length; ) {
    const to = endOfRun(chunk, from, parsedBy)
    runs.push(runOf(chunk, from, to, parsedBy))
    from = to
  }
  return runs
}

/** The schema of each record. The records are sorted by pool, so each pool is looked up once. */
function parsedByOf(chunk: ReplayChunk, deps: ReplayDeps): ParsedBy[] {
  const { table } = chunk
  const all: ParsedBy[] = []
  let last: ParsedBy | undefined
  for (let row = 0; row < replayedCount(chunk); row++) {
    const at = row * REPLAYED_WORDS
    const [pool, version] = [table[at + REPLAYED.pool]!, table[at + REPLAYED.version]!]
    if (last?.pool !== pool || last.version !== version) last = lookUp(chunk, row, deps)
    all.push(last)
  }
  return all
}

function lookUp(chunk: ReplayChunk, row: number, deps: ReplayDeps): ParsedBy {
  const { pool, version, sequence, file, fileOffset } = replayedAt(chunk, row)
  const found = deps.schema(pool, version)
  if (found !== undefined) return { pool, version, ...found, cost: batchCostOf(found.schema) }
  throw new Damaged(
    file,
    fileOffset,
    `sequence ${sequence} was parsed with schema version ${version} of pool ${pool}, which the catalog does not have`,
  )
}

/**
 * A task has the limits of ingest, and one schema version of each pool: rows of two versions must
 * not alternate in the memtable.
 */
function endOfRun({ table }: ReplayChunk, from: number, parsedBy: readonly ParsedBy[]): number {
  let [to, bytes, parsedBytes] = [from, 0, 0]
  for (; to < parsedBy.length && to - from < PARSE_TASK_REQUESTS_MAX && bytes < PARSE_TASK_BYTES_MAX; to++) {
    const next = parsedBy[to]!
    const before = parsedBy[to - 1]
    if (to > from && before?.pool === next.pool && before.version !== next.version) break
    const at = to * REPLAYED_WORDS
    const bodyBytes = table[at + REPLAYED.bodyBytes]!
    const events = table[at + REPLAYED.events]!
    const contextBytes = table[at + REPLAYED.contextBytes]!
    parsedBytes += batchBytesMax(next.cost, bodyBytes + events * contextBytes, events)
    if (to > from && parsedBytes > BATCH_BYTES_MAX) break
    bytes += bodyBytes
  }
  return to
}

function runOf(chunk: ReplayChunk, from: number, to: number, parsedBy: readonly ParsedBy[]): Run {
  const replayed = chunk.table
  const table = new Float64Array((to - from) * REQUEST_WORDS)
  const schemas: PoolSchema[] = []
  const groups: ParseTaskGroup[] = []
  for (let row = from; row < to; row++) {
    const at = row * REPLAYED_WORDS
    const into = (row - from) * REQUEST_WORDS
    const contextBytes = replayed[at + REPLAYED.contextBytes]!
    table[into + REQUEST.offset] = replayed[at + REPLAYED.offset]! + contextBytes
    table[into + REQUEST.bytes] = replayed[at + REPLAYED.bodyBytes]! - contextBytes
    table[into + REQUEST.contextBytes] = contextBytes
    table[into + REQUEST.receivedAtUs] = replayed[at + REPLAYED.receivedAtUs]!
    table[into + REQUEST.bits] = replayed[at + REPLAYED.bitsOffset]!
    table[into + REQUEST.flags] = replayed[at + REPLAYED.receivedAtStepUs] === 1 ? FLAG.rises : 0
    const { pool, version, schema, shared } = parsedBy[row]!
    const kind = kindOf(chunk, row)
    schemas.push(schema)
    const last = groups.at(-1)
    const isSame = last?.pool === pool && last.kind === kind
    const begin = isSame ? groups.pop()!.from : row - from
    groups.push({ kind, pool, version, schema: shared, from: begin, to: row - from + 1 })
  }
  return { from, to, schemas, task: { slab: chunk.slab, table, groups, isReplay: true } }
}

function kindOf({ table }: ReplayChunk, row: number): 'post' | 'delete' {
  return table[row * REPLAYED_WORDS + REPLAYED.kind] === REPLAYED_POST ? 'post' : 'delete'
}

function appendRun(chunk: ReplayChunk, run: Run, result: ParseResult, deps: ReplayDeps): void {
  const { table } = chunk
  for (let row = run.from; row < run.to; row++) {
    const at = row * REPLAYED_WORDS
    const outcome = (row - run.from) * OUTCOME_WORDS
    const isSame =
      result.outcomes[outcome + OUTCOME.events] === table[at + REPLAYED.events] &&
      result.outcomes[outcome + OUTCOME.accepted] === table[at + REPLAYED.accepted]
    if (!isSame) throw damageOf(chunk, row, result, row - run.from)
    const spanUs = table[at + REPLAYED.receivedAtStepUs]! * (table[at + REPLAYED.accepted]! - 1)
    deps.received(table[at + REPLAYED.pool]!, table[at + REPLAYED.receivedAtUs]! + spanUs)
  }
  // No await in between: the parts of a pool may hold requests that alternate.
  for (const { batch, requests: places } of result.batches) {
    const first = must(places[0], 'a request of a part')
    const requests = new Float64Array(places.length * ENTRY_WORDS)
    for (let place = 0; place < places.length; place++) {
      const at = (run.from + places[place]!) * REPLAYED_WORDS
      const into = place * ENTRY_WORDS
      requests[into] = table[at + REPLAYED.sequence]!
      requests[into + 1] = table[at + REPLAYED.receivedAtUs]!
      requests[into + 2] = table[at + REPLAYED.accepted]!
      requests[into + 3] = table[at + REPLAYED.receivedAtStepUs]!
    }
    const schema = run.schemas[first]!
    deps.append(schema.pool, schema, [{ kind: kindOf(chunk, run.from + first), batch, requests }])
  }
}

function damageOf(chunk: ReplayChunk, row: number, result: ParseResult, request: number): Damaged {
  const { sequence, file, fileOffset, events, accepted } = replayedAt(chunk, row)
  const parsedEvents = result.outcomes[request * OUTCOME_WORDS + OUTCOME.events]
  const parsedAccepted = result.outcomes[request * OUTCOME_WORDS + OUTCOME.accepted]
  return new Damaged(
    file,
    fileOffset,
    `sequence ${sequence}: ${accepted} of ${events} events were accepted, ${parsedAccepted} of ${parsedEvents} can be parsed${firstErrorOf(result, request)}`,
  )
}

function firstErrorOf(result: ParseResult, request: number): string {
  for (let at = 0; at < result.errors.length; at += ERROR_WORDS)
    if (result.errors[at] === request && result.errors[at + 1]! >= 0)
      return `; event ${result.errors[at + 1]} fails`
  return ''
}
