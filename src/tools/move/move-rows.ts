/**
 * The rows of a pool into its table: one block after another, while the next one is read.
 *
 *   segments ──DuckDB──► record batches ──► block ──INSERT, with the version that Keeper has──►
 *   tables, then Keeper has the number of rows
 *
 * A move that was killed may have sent the block that comes next. Rows with a key replace
 * themselves. Of a pool without one, a shard that has rows of these versions has all of the block,
 * because an INSERT is one part: the shard gets none. An INSERT that a server has not ended yet is
 * found by ClickHouse, which drops a block that it had in the last hour.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { insertRows, quorumsOf } from '../../cluster/clickhouse/insert-rows.ts'
import { insertProven } from '../../cluster/clickhouse/stored-rows.ts'
import { syncedReplicas } from '../../cluster/clickhouse/synced-replicas.ts'
import type { Topology } from '../../cluster/clickhouse/topology.ts'
import type { MoveRoot } from '../../cluster/move/move-root.ts'
import type { PoolSchema } from '../../format/schema.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import { openBatches } from '../../query/arrow/copied-batches.ts'
import { type CopySegments, recordBatches } from '../../query/arrow/export-stream.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { copyRows } from '../../query/copy-rows.ts'
import { countLiveRows } from '../../query/duckdb/live-rows.ts'
import { duckdb } from '../../query/duckdb/write-statement.ts'
import type { QueryEngine } from '../../query/plan/query-task.ts'
import { writeSelection } from '../../query/selection.ts'
import { assert } from '../../util/assert.ts'
import { monotonicMs, wallMs } from '../../util/clock.ts'
import { Unavailable } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { EXPORT_COPY_MS_MAX } from '../../util/limits.ts'
import { note } from '../../util/say.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import { type Block, blocksOf, entriesOf } from './blocks.ts'

const ANSWER_BYTES_MAX = 65_536
/** Nobody waits for a block as a client does: servers may be slow, or one may start again. */
const INSERT_MS_MAX = 300_000
const RETRY_MS = 1_000

export interface MovedPool {
  /** Its place among all pools. */
  readonly index: number
  readonly table: string
  readonly schema: PoolSchema
  readonly segments: readonly QuerySegment[]
}

interface MoveDeps {
  readonly root: MoveRoot
  readonly engine: QueryEngine
  /** data/tmp, absolute. */
  readonly temporaryFolder: string
  readonly quorum: number
  topology(): Topology
  onRows(rows: number): void
}

/**
 * Moves the rows that are not moved yet.
 * @param moved rows that are
 * @param mayBeSent an earlier process may have sent the next block
 */
export async function moveRows(
  pool: MovedPool,
  moved: number,
  mayBeSent: boolean,
  deps: MoveDeps,
): Promise<void> {
  const { schema, segments, index } = pool
  const { root } = deps
  let [first, before] = [0, 0]
  for (const segment of segments) {
    const live = countLiveRows([segment])
    if (before + live > moved) break
    before += live
    first += 1
  }
  let rows = moved
  let isChecked = !mayBeSent || schema.key !== null
  let sent = Promise.resolve()
  for await (const block of blocksOf(schema, messagesOf(pool, first, deps), moved - before)) {
    await sent
    const without = isChecked ? new Set<number>() : await shardsWith(pool, block, deps)
    isChecked = true
    rows += block.rows
    sent = insert(pool, block, without, deps).then(() => root.advance({ pools: index, rows }))
    sent.catch(() => {}) // it is awaited before the next one
    deps.onRows(block.rows)
  }
  await sent
  crashPoint('move.pool')
  await root.advance({ pools: index + 1, rows: 0 })
}

/** One segment at a time: together, those with deleted rows would come last. */
export async function* messagesOf(
  { schema, segments }: Pick<MovedPool, 'schema' | 'segments'>,
  first: number,
  deps: Pick<MoveDeps, 'engine' | 'temporaryFolder'>,
) {
  const planned = await writeSelection({ schema, policy: null }, {}, async () => new Map(), wallMs(), duckdb)
  assert(!('badRequest' in planned), 'all rows and columns can be selected')
  const copy: CopySegments = (group, gone) =>
    copyRows(schema, planned, group, { fairKey: 'move', gone }, deps, EXPORT_COPY_MS_MAX)
  for (const segment of segments.slice(first)) yield* recordBatches([segment], copy, openBatches)
}

async function insert(
  { table, schema }: MovedPool,
  block: Block,
  without: ReadonlySet<number>,
  { root, topology, quorum }: MoveDeps,
): Promise<void> {
  const entries = entriesOf(block, root.version)
  crashPoint('move.before-insert')
  let said = ''
  // The process before this one may have sent the first block.
  for (const endMs = monotonicMs() + INSERT_MS_MAX; ; )
    try {
      const options = () => {
        const now = topology()
        return { topology: now, quorum: quorumsOf(now, quorum), without, isRepeated: true }
      }
      const rows = { table, kind: 'post' as const, schema, entries }
      await insertProven(rows, options, root.tables, now => insertRows(rows, now))
      break
    } catch (error) {
      if (!(error instanceof Unavailable) || monotonicMs() > endMs) throw error
      if (said !== error.message) note(`rows are sent again for up to five minutes: ${error.message}`)
      said = error.message
      await sleep(RETRY_MS)
    }
  crashPoint('move.inserted')
}

/** The shards that have the rows of the block. */
async function shardsWith(
  { table }: MovedPool,
  { rows }: Block,
  { root, topology }: MoveDeps,
): Promise<ReadonlySet<number>> {
  const { version } = root
  const replicas = await syncedReplicas([table], topology())
  const sql = `SELECT count() FROM ${quoteClickHouseName(table)} WHERE ${VERSION} >= ${version} AND ${VERSION} < ${version + BigInt(rows)}`
  const counts = await Promise.all(
    replicas.map(async ({ http }) => Number((await http.run(sql, {}, ANSWER_BYTES_MAX)).body.toString())),
  )
  return new Set(counts.flatMap((count, shard) => (count > 0 ? [shard] : [])))
}
