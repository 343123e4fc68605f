/**
 * Answers of questions that are still true: the same question about pools of the same version is
 * answered without a flush and without the engine.
 *
 *   version   schema, segments and deletion vectors of each pool that the question reads, while
 *             none of them has a row that is not flushed
 *
 *   W-8  An answer is given only where everything acknowledged before the call is in its version.
 *   W-9  The answers have a limit of bytes. Beyond it the application with the most bytes loses its
 *        least recently used answer, so that none fills the cache for others.
 *
 * A reader below a policy neither gets nor leaves an answer here (docs/decisions/0111).
 */
import { must } from '../util/errors.ts'
import { getOrMake } from '../util/get-or-make.ts'
import type { PoolsOfQuestion } from './plan/policy.ts'
import type { QueryDone } from './plan/query-task.ts'

/** Part of all bytes that one answer may take. */
const ANSWER_SHARE = 1 / 16
const ENTRY_BYTES = 1_024
const ROW_BYTES = 32
/** Besides its characters, which may take two bytes each. */
const VALUE_BYTES = 32

interface KeptAnswer {
  readonly pools: readonly number[]
  readonly version: string
  readonly done: QueryDone
  readonly bytes: number
}

/** The least recently used first. */
interface KeptAnswers {
  readonly byKey: Map<string, KeptAnswer>
  bytes: number
}

export interface AnswerCacheOptions {
  readonly bytesMax: number
  /** See Manifest.version. Undefined too while a row of the pool is not flushed. */
  versionOf(pool: number): number | undefined
}

export class AnswerCache {
  readonly #options: AnswerCacheOptions
  readonly #byApplication = new Map<string, KeptAnswers>()
  #bytes = 0
  #hits = 0
  #misses = 0

  constructor(options: AnswerCacheOptions) {
    this.#options = options
  }

  stats(): { readonly bytes: number; readonly hits: number; readonly misses: number } {
    return { bytes: this.#bytes, hits: this.#hits, misses: this.#misses }
  }

  /** The answer of the question now; undefined where it must be computed. */
  find(applicationId: string, key: string, pools: PoolsOfQuestion): QueryDone | undefined {
    const byKey = this.#byApplication.get(applicationId)?.byKey
    const known = byKey?.get(key)
    if (known === undefined || known.version !== this.#versionOf(pools)) {
      this.#misses += 1
      // Versions never come back.
      this.#drop(applicationId, key)
      return undefined
    }
    this.#hits += 1
    byKey?.delete(key)
    byKey?.set(key, known)
    return known.done
  }

  /**
   * Keeps an answer, unless it is no longer true.
   * @param pinned the versions of the pools that it was computed on
   */
  keep(
    applicationId: string,
    key: string,
    pools: PoolsOfQuestion,
    pinned: readonly (number | undefined)[],
    done: QueryDone,
  ): void {
    const version = versionText(pools, pinned)
    if (version === undefined || version !== this.#versionOf(pools)) return
    this.#drop(applicationId, key)
    const bytesMax = this.#options.bytesMax * ANSWER_SHARE
    const bytes = bytesOf(done, bytesMax)
    if (bytes > bytesMax) return
    const answers = getOrMake(this.#byApplication, applicationId, () => ({ byKey: new Map(), bytes: 0 }))
    answers.byKey.set(key, { pools: pools.map(({ schema }) => schema.pool), version, done, bytes })
    answers.bytes += bytes
    this.#bytes += bytes
    while (this.#bytes > this.#options.bytesMax) this.#dropOfLargest()
  }

  /** Drops the answers about a pool. */
  forget(pool: number): void {
    for (const [applicationId, { byKey }] of this.#byApplication)
      for (const [key, { pools }] of byKey) if (pools.includes(pool)) this.#drop(applicationId, key)
  }

  #versionOf(pools: PoolsOfQuestion): string | undefined {
    return versionText(
      pools,
      pools.map(({ schema }) => this.#options.versionOf(schema.pool)),
    )
  }

  #dropOfLargest(): void {
    const [first] = [...this.#byApplication].sort((a, b) => b[1].bytes - a[1].bytes)
    const [applicationId, { byKey }] = must(first, 'an application with answers')
    this.#drop(applicationId, must(byKey.keys().next().value, 'an answer'))
  }

  #drop(applicationId: string, key: string): void {
    const answers = this.#byApplication.get(applicationId)
    const known = answers?.byKey.get(key)
    if (answers === undefined || known === undefined) return
    answers.byKey.delete(key)
    answers.bytes -= known.bytes
    this.#bytes -= known.bytes
    if (answers.byKey.size === 0) this.#byApplication.delete(applicationId)
  }
}

/** Undefined where a pool has no version. */
function versionText(pools: PoolsOfQuestion, versions: readonly (number | undefined)[]): string | undefined {
  if (versions.includes(undefined)) return undefined
  return pools.map(({ schema }, at) => `${schema.pool}.${schema.version}.${versions[at]}`).join(' ')
}

/** Stops counting beyond `bytesMax`. */
function bytesOf({ columns, rows }: QueryDone, bytesMax: number): number {
  let bytes = ENTRY_BYTES + columns.length * 2 * VALUE_BYTES
  for (const name of columns) bytes += 2 * name.length
  for (const row of rows) {
    bytes += ROW_BYTES
    for (const text of row) bytes += VALUE_BYTES + 2 * (text?.length ?? 0)
    if (bytes > bytesMax) break
  }
  return bytes
}
