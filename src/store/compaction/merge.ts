/**
 * The merge thread, and one merge: adjacent segments of a pool become one, without their deleted
 * and expired rows.
 *
 *   W-5   The merge answers only when the new files are durable.
 *   W-6   merge-keys.ts says which deletes stay. The footer names the segments that the new one
 *         replaces. Where nothing is left, there is no new segment, or an empty delete file.
 *   W-7   The new segment holds exactly the inputs' live rows: they are counted before the file
 *         gets its name.
 *
 *   footers and checksums → expired rows → keys and deletes → COPY to data/tmp/merge → keys of the
 *   copy → durable files
 */
import { join } from 'node:path'
import type { MessagePort } from 'node:worker_threads'
import { writeDeleteFile } from '../../format/delete-file.ts'
import { buildKeyRun, type KeyRun } from '../../format/key-run.ts'
import type { PoolSchema } from '../../format/schema.ts'
import { readSegmentKeys, type SegmentKeys } from '../../format/segment-keys.ts'
import { hasDeleteFile, type SegmentMeta, segmentFooter } from '../../format/segment-meta.ts'
import { rangeFields } from '../../format/zone-map.ts'
import { realClock } from '../../util/clock.ts'
import { type Disk, isDiskError, disk as realDisk } from '../../util/disk.ts'
import { findDamaged, isOutOfMemory, typedError } from '../../util/duckdb-errors.ts'
import { assert, must, SegmentDamaged, Unavailable } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { KiB, MiB } from '../../util/limits.ts'
import { deleteFile, segmentFile } from '../../util/paths.ts'
import { threadCpuClock } from '../../util/this-thread.ts'
import { moved, serve } from '../../util/thread-server.ts'
import { publishInPieces } from '../segment/publish-segment.ts'
import type {
  MergeCalls,
  MergeChanges,
  MergeDone,
  MergeInput,
  MergeTask,
  MergeThreadData,
} from './compaction-types.ts'
import { problemOf, valuesSql } from './merge-changes.ts'
import { type Copy, copySql, MergeEngine } from './merge-engine.ts'
import {
  checkFooters,
  checkSums,
  findExpired,
  findRemoved,
  type InputSegment,
  joinRuns,
  type KeyChanges,
  ROW,
  readKeyChanges,
} from './merge-keys.ts'
import { MergeThrottle } from './merge-throttle.ts'
import { isWhollyExpired } from './pick-compaction.ts'

/**
 * DuckDB's memory in a merge; beyond it the sort spills to data/tmp. It sorts 1M rows of 400 bytes.
 */
const MERGE_MEMORY_BYTES = 256 * MiB
/** DuckDB's memory in a merge of very long rows: one row group read and one written. */
const MERGE_MEMORY_BYTES_MAX = 512 * MiB
/** Bytes of a merge, stored and uncompressed, that leaves its DuckDB open for the next one. */
export const MERGE_REUSE_BYTES_MAX = 16 * MiB
/** Average bytes of rows that are sorted. DuckDB takes 2,048 rows from its sort at once. */
export const MERGE_SORTED_ROW_BYTES_MAX = 32 * KiB
/** Bytes of a merge's file that are copied and synced at once: a log sync waits for one piece. */
const MERGE_PIECE_BYTES = 4 * MiB

/** The table of rows that a copy leaves out. */
const LEFT_OUT = 'left_out'

/** Serves `port` until it is told to stop: one merge at a time. */
export function serveMerges(port: MessagePort, data: MergeThreadData): void {
  const throttle = new MergeThrottle({ ...realClock, cpuMs: threadCpuClock() }, data.speed)
  const writer = new MergeWriter(throttle, data.temporary)
  serve<MergeCalls>(
    port,
    {
      merge: async task => {
        const done = await writer.merge(task)
        return moved(done, done.keys === undefined ? [] : [done.keys])
      },
      problemOf: ({ changes, schema }) => writer.problemOf(changes, schema),
      speed: speed => throttle.set(speed),
    },
    {
      // An input or the disk may refuse. Any other error is a bug: it ends the thread and the
      // process.
      mayAnswer: error =>
        error instanceof SegmentDamaged || error instanceof Unavailable || isDiskError(error),
      interrupt: () => throttle.stop(),
      close: () => writer.close(),
    },
  )
}

export class MergeWriter {
  readonly #throttle: MergeThrottle
  readonly #temporary: string
  readonly #disk: Disk
  /**
   * The engine of the last small merge: for tiny segments opening an engine costs more than the
   * merge.
   */
  #idleEngine: MergeEngine | undefined

  /**
   * @param temporary absolute folder for data that is not durable yet. The writer empties it now,
   *   before each merge and after it
   * @param disk for the durable files; DuckDB reads the inputs and writes `temporary` itself
   */
  constructor(throttle: MergeThrottle, temporary: string, disk: Disk = realDisk) {
    this.#throttle = throttle
    this.#temporary = temporary
    this.#disk = disk
    this.#clear()
  }

  /**
   * Rejects with SegmentDamaged, Unavailable or Node's error, after it has removed the files of the
   * new segment.
   */
  async merge(task: MergeTask): Promise<MergeDone> {
    assertTask(task)
    this.#throttle.begin()
    this.#clear()
    const inputs = task.inputs.map(input => inputOf(task, input))
    try {
      const { changes, rows } = await this.#copyLiveRows(task, inputs)
      const isEmpty = rows === 0 && changes.deletes.length === 0 && !task.leavesSegment
      const written = isEmpty ? undefined : await this.#write(task, inputs, changes, rows)
      const runs = written?.run === undefined ? changes.gone : [written.run, ...changes.gone]
      return {
        meta: written?.meta,
        keys: task.schema.key === null ? undefined : joinRuns(runs),
      }
    } finally {
      this.#clear()
    }
  }

  /** See Merger. */
  async problemOf(changes: MergeChanges, schema: PoolSchema): Promise<string | undefined> {
    const engine = await this.#takeEngine()
    try {
      const [row = []] = await engine.run(valuesSql(changes, schema))
      this.#idleEngine = engine
      return problemOf(changes, schema, row)
    } catch (error) {
      throw await typedError(error, 'merge', [], sql => engine.run(sql))
    } finally {
      if (engine !== this.#idleEngine) engine.close()
    }
  }

  /** Frees DuckDB's memory. No merge may be running. */
  close(): void {
    this.#idleEngine?.close()
    this.#idleEngine = undefined
  }

  /** Everything up to the copy in `temporary`; there is no copy without a live row. */
  async #copyLiveRows(
    task: MergeTask,
    inputs: readonly InputSegment[],
  ): Promise<{ changes: KeyChanges; rows: number }> {
    const read = inputs.filter(({ live, meta }) => live > 0 && !isWhollyExpired(meta, task.expireBeforeUs))
    const engine = read.length > 0 ? await this.#takeEngine() : undefined
    try {
      const bytes = await checkFooters(task, read, this.#disk, this.#throttle)
      // The keys of expired rows are read too.
      const isRead = (input: InputSegment) =>
        input.live > 0 && (task.schema.key !== null || read.includes(input))
      await checkSums(inputs.filter(isRead), this.#disk, this.#throttle)
      for (const input of inputs) await typed(engine, input, () => findExpired(task, input, engine))
      for (const input of inputs) await typed(engine, input, () => findRemoved(task, input, engine))
      const changes = await readKeyChanges(task, inputs, this.#disk, this.#throttle)
      const sources = inputs.filter(input => input.live > 0)
      const rows = sources.reduce((sum, input) => sum + input.live, 0)
      if (rows > 0) {
        const deletes = changes.deletes.length
        const footer = segmentFooter({
          ...task,
          ...spanOf(task),
          rows,
          deletes,
          replaces: task.inputs.map(({ meta }) => meta.segment),
        })
        const rowBytes = bytes / read.reduce((sum, { meta }) => sum + meta.rows, 0)
        await this.#copy(must(engine, 'the engine'), task, sources, rows, footer, rowBytes)
      }
      const storedBytes = task.inputs.reduce((sum, { meta }) => sum + meta.bytes, 0)
      if (Math.max(bytes, storedBytes) <= MERGE_REUSE_BYTES_MAX && engine?.isEnlarged === false)
        this.#idleEngine = engine
      return { changes, rows }
    } finally {
      if (engine !== this.#idleEngine) engine?.close()
    }
  }

  async #takeEngine(): Promise<MergeEngine> {
    const idle = this.#idleEngine
    this.#idleEngine = undefined
    return idle ?? MergeEngine.open(join(this.#temporary, 'spill'), MERGE_MEMORY_BYTES, this.#throttle)
  }

  async #copy(
    engine: MergeEngine,
    task: MergeTask,
    sources: readonly InputSegment[],
    rows: number,
    footer: ReadonlyMap<string, string>,
    rowBytes: number,
  ): Promise<void> {
    const run = (sql: string) => engine.run(sql)
    try {
      const leftOut = sources.map(rowsLeftOut)
      const without = leftOut.some(list => list.length > 0) ? LEFT_OUT : undefined
      if (without !== undefined) await engine.makeTable(LEFT_OUT, leftOut)
      const files = sources.map(({ file, columns }) => ({ file, columns }))
      const { schema, changes } = task
      const copy = { schema, files, without, to: this.#copyPath, footer, rowBytes, changes }
      const written = await this.#copyRows(engine, copy)
      if (written !== rows)
        throw (
          (await findDamaged(sources, 'merge', run)) ??
          new Error(`a merge wrote ${written} rows where ${rows} are live`)
        )
    } catch (error) {
      throw await typedError(error, 'merge', sources, run)
    }
  }

  /** Copies sorted rows; where rows are too long for a sort, in the order of the inputs. */
  async #copyRows(engine: MergeEngine, copy: Omit<Copy, 'isSorted'>): Promise<number> {
    const run = async (isSorted: boolean) =>
      Number((await engine.run(copySql({ ...copy, isSorted })))[0]?.[0])
    if (copy.rowBytes <= MERGE_SORTED_ROW_BYTES_MAX) {
      try {
        return await run(true)
      } catch (error) {
        if (!isOutOfMemory(error)) throw error
      }
    }
    await engine.enlarge(MERGE_MEMORY_BYTES_MAX)
    return await run(false)
  }

  async #write(
    task: MergeTask,
    inputs: readonly InputSegment[],
    { deletes }: KeyChanges,
    rows: number,
  ): Promise<{ meta: SegmentMeta; run: KeyRun | undefined }> {
    const keys = rows === 0 ? undefined : await readSegmentKeys(this.#copyPath, task.schema)
    assert((keys?.rows ?? 0) === rows, 'a copy holds the rows that were counted')
    await this.#throttle.rest()
    crashPoint('merge.copied')
    if (task.expireBeforeUs !== undefined) crashPoint('retention.copied')
    const { schema, segment } = task
    const header = {
      pool: schema.pool,
      schemaVersion: schema.version,
      segment,
      ...spanOf(task),
      rowsOfFlush: rows,
    }
    const removedKeys = buildKeyRun(deletes.map(({ key }) => ({ key, row: -1 })))
    const sequences = Float64Array.from(deletes, ({ sequence }) => sequence)
    const deleteBytes = hasDeleteFile({ rows, deletes: deletes.length })
      ? writeDeleteFile(header, removedKeys, sequences)
      : undefined
    const published = await this.#publish(task, rows > 0, deleteBytes)
    crashPoint('merge.published')
    const meta: SegmentMeta = {
      segment,
      rows,
      ...published,
      schemaVersion: schema.version,
      ...spanOf(task),
      ...(keys?.ranges ?? rangesWithoutRows(inputs)),
      deletes: deletes.length,
    }
    return { meta, run: keys?.run }
  }

  async #publish(task: MergeTask, hasRows: boolean, deletes: Uint8Array | undefined) {
    const copy = hasRows ? realDisk.open(this.#copyPath, 'r') : undefined
    try {
      const parquet =
        copy === undefined
          ? undefined
          : (into: Uint8Array, position: number) => realDisk.read(copy, into, position)
      // A piece is memory that the garbage collector counts: a full one for each tiny file would
      // make it run at every second merge.
      const copyBytes = copy === undefined ? 0 : realDisk.size(this.#copyPath)
      return await publishInPieces(
        this.#disk,
        task.folder,
        task.segment,
        { parquet, deletes },
        Math.min(Math.max(copyBytes, 1), MERGE_PIECE_BYTES),
        bytes => this.#throttle.rest(bytes),
      )
    } finally {
      if (copy !== undefined) realDisk.close(copy)
    }
  }

  get #copyPath(): string {
    return join(this.#temporary, 'copy.parquet')
  }

  /** Removes the files of an earlier merge that was cancelled or killed. */
  #clear(): void {
    const spill = join(this.#temporary, 'spill')
    for (const folder of [spill, this.#temporary]) {
      if (!realDisk.exists(folder)) continue
      for (const name of realDisk.readdir(folder))
        if (join(folder, name) !== spill) realDisk.unlink(join(folder, name))
    }
    realDisk.mkdir(spill)
  }
}

/** Runs `work` over one input. Errors of DuckDB get their types. */
async function typed(
  engine: MergeEngine | undefined,
  input: InputSegment,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    throw engine === undefined ? error : await typedError(error, 'merge', [input], sql => engine.run(sql))
  }
}

function assertTask({ schema, inputs }: MergeTask): void {
  assert(inputs.length > 0, 'a merge has inputs')
  for (const [i, { meta }] of inputs.entries()) {
    const before = inputs[i - 1]?.meta
    assert(meta.schemaVersion <= schema.version, 'the schema is that of the newest input')
    assert(before === undefined || before.sequenceTo < meta.sequenceFrom, 'inputs come by rising sequence')
    assert(schema.key !== null || meta.deletes === 0, 'only pools with a key have deletes')
  }
}

/** An input with its deleted rows. All other rows are live until `findExpired`. */
function inputOf(task: MergeTask, { meta, columns, deletionVectors }: MergeInput): InputSegment {
  const status = new Uint8Array(meta.rows)
  let { rows: live } = meta
  for (const { segment, rows } of deletionVectors) {
    assert(segment === meta.segment, 'a deletion vector names its segment')
    for (const row of rows) {
      assert(row < meta.rows, 'a deleted row is in its segment')
      if (status[row] === ROW.live) live -= 1
      status[row] = ROW.deleted
    }
  }
  const file = join(task.folder, segmentFile(meta.segment))
  const deletesFile = join(task.folder, deleteFile(meta.segment))
  return { meta, columns: columns ?? task.schema.columns.length, file, deletesFile, status, live }
}

/** Numbers of the rows that do not go into the new segment. */
function rowsLeftOut({ meta, live, status }: InputSegment): Uint32Array {
  const rows = new Uint32Array(meta.rows - live)
  let at = 0
  for (let row = 0; row < status.length; row++) if (status[row] !== ROW.live) rows[at++] = row
  return rows
}

function spanOf({ inputs }: MergeTask): { sequenceFrom: number; sequenceTo: number } {
  const [first, last] = [inputs[0], inputs.at(-1)]
  return {
    sequenceFrom: must(first, 'an input').meta.sequenceFrom,
    sequenceTo: must(last, 'an input').meta.sequenceTo,
  }
}

/** The statistics of a segment that holds only deletes: received-at of the inputs. */
function rangesWithoutRows(inputs: readonly InputSegment[]): SegmentKeys['ranges'] {
  return {
    ...rangeFields(undefined),
    receivedFromUs: Math.min(...inputs.map(({ meta }) => meta.receivedFromUs)),
    receivedToUs: Math.max(...inputs.map(({ meta }) => meta.receivedToUs)),
  }
}
