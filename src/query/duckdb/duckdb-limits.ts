/**
 * Propellers: what the queries of an application may take (docs/decisions/0042). docs/operating.md
 * has the same table.
 *
 * Queries at once and time are limits of each application. Threads and memory are limits of
 * DuckDB's instance that serves all applications of one propeller: DuckDB has no limit of a single
 * query.
 */
import type { Propeller } from '../../catalog/documents/model.ts'
import {
  CHUNK_TEXT_BYTES_MAX,
  MiB,
  QUERIES_RUNNING_MIN,
  QUERY_MEMORY_BYTES,
  QUERY_MS_MAX,
} from '../../util/limits.ts'

/**
 * Bytes of the query process for each place besides the memory of its propellers: Node and the rows
 * of answers, and DuckDB's states that its own limit does not count. Two queries that sorted and
 * grouped 4M rows in two propellers took 260 MiB, and two answers of the largest size 300 MiB.
 */
const PLACE_OVERHEAD_BYTES = 160 * MiB
/** Threads for which a place more is worth it: a small query has work for one or two. */
const THREADS_PER_PLACE = 2
/**
 * More places do not help: the one main thread plans some 1,000 questions a second, and each place
 * may take 160 MiB.
 */
const PLACES_MAX = 8
/** Bytes of a thread's stack, which the system counts whole. */
const THREAD_STACK_BYTES = 8 * MiB

interface Resources {
  /** Queries of one application that run at once. The others of it wait. Infinity: all places. */
  readonly queriesMax: number
  /** Time for one query; then it is interrupted. */
  readonly queryMsMax: number
  /** Part of the machine's cores that DuckDB uses, at least one thread. */
  readonly threadShare: number
  /**
   * Part of QUERY_MEMORY_BYTES. Beyond it DuckDB spills to disk, or the query fails. Reading a row
   * group cannot spill: half of it is enough for 65,536 payloads of 2 KiB that do not compress.
   */
  readonly memoryShare: number
}

const ALL_PLACES = Number.POSITIVE_INFINITY

export const RESOURCES: Readonly<Record<Propeller, Resources>> = {
  P1_X_SMALL: { queriesMax: 1, queryMsMax: 10_000, threadShare: 1 / 4, memoryShare: 1 / 2 },
  P1_SMALL: { queriesMax: 1, queryMsMax: 15_000, threadShare: 1 / 2, memoryShare: 1 / 2 },
  P1_MEDIUM: { queriesMax: ALL_PLACES, queryMsMax: 20_000, threadShare: 1 / 2, memoryShare: 2 / 3 },
  P1_LARGE: { queriesMax: ALL_PLACES, queryMsMax: QUERY_MS_MAX, threadShare: 1, memoryShare: 5 / 6 },
  P1_X_LARGE: { queriesMax: ALL_PLACES, queryMsMax: QUERY_MS_MAX, threadShare: 1, memoryShare: 1 },
}

/** The propeller of the first application and of commands. */
export const LARGEST_PROPELLER: Propeller = 'P1_X_LARGE'

/** Queries that run at once, where DuckDB has so many threads. */
export function placesOf(threads: number): number {
  return Math.min(PLACES_MAX, Math.max(QUERIES_RUNNING_MIN, Math.floor(threads / THREADS_PER_PLACE)))
}

/** DuckDB's threads for a propeller on a machine with `cores`. */
export function threadsOf(propeller: Propeller, cores: number): number {
  return Math.max(1, Math.floor(cores * RESOURCES[propeller].threadShare))
}

/** DuckDB's memory for a propeller, where the largest has `bytes`. */
export function memoryBytesOf(propeller: Propeller, bytes = QUERY_MEMORY_BYTES): number {
  return Math.floor(bytes * RESOURCES[propeller].memoryShare)
}

/**
 * The limit of the system on a query process: the memory of the largest propellers, as many as
 * queries run at once, the texts of their threads, and all else that the process needs. Queries of
 * one propeller share its memory and its threads, so different ones take most. Instances without
 * queries keep their threads, and nothing else that counts.
 */
export function dataBytesOf({ memoryBytes, threads }: { memoryBytes: number; threads: number }): number {
  const all = Object.keys(RESOURCES) as Propeller[]
  const largest = all
    .sort((a, b) => memoryBytesOf(b, memoryBytes) - memoryBytesOf(a, memoryBytes))
    .slice(0, placesOf(threads) + 1)
  const memory = largest.reduce((sum, each) => sum + memoryBytesOf(each, memoryBytes), 0)
  const threadsAll = (of: readonly Propeller[]) => of.reduce((sum, each) => sum + threadsOf(each, threads), 0)
  const texts = threadsAll(largest) * CHUNK_TEXT_BYTES_MAX
  return memory + placesOf(threads) * PLACE_OVERHEAD_BYTES + threadsAll(all) * THREAD_STACK_BYTES + texts
}
