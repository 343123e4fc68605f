/**
 * One merge: adjacent segments of a pool become one, without their marked and expired rows.
 *
 *   W-5   The answer is given only when the new files are durable.
 *   W-6   deletes.ts; the footer names what the new segment stands for.
 *   W-7   The new segment holds exactly the inputs' live rows: counted before it gets its name.
 *
 *   footers → expired rows → keys and deletes → COPY to data/tmp/merge → its keys → durable files
 */
import { join } from 'node:path'
import type { KeyRun, SegmentMeta } from '../keys/protocol.ts'
import {
  MERGE_KEPT_BYTES_MAX,
  MERGE_MEMORY_BYTES,
  MERGE_MEMORY_BYTES_MAX,
  MERGE_PIECE_BYTES,
  MERGE_SORTED_ROW_BYTES_MAX,
} from '../limits.ts'
import { assert, must } from '../util/assert.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, disk as realDisk } from '../util/disk.ts'
import type { MergeCalls, RangeFields } from './merge-calls.ts'
import { explain, findDamaged, isOutOfMemory } from './merge-damage.ts'
import { MergeEngine } from './merge-engine.ts'
import { goneRows, type Input, inputOf } from './merge-input.ts'
import { deletedRun, emptyRun, joinRuns } from './merge-runs.ts'
import { type Copy, copySql } from './merge-sql.ts'
import {
  checkFooters,
  findExpired,
  footerOf,
  isWhollyExpired,
  type KeySurvey,
  surveyKeys,
} from './merge-survey.ts'
import type { Pacer } from './pace.ts'
import type { MergeDone, MergeJob } from './protocol.ts'

/** The table of rows that a copy leaves out. */
const GONE = 'gone'

export class MergeWriter {
  readonly #calls: MergeCalls
  readonly #pacer: Pacer
  readonly #temporary: string
  readonly #disk: Disk
  /** What a small merge left open: for tiny segments opening an instance costs more than the merge. */
  #kept: MergeEngine | undefined

  /**
   * @param temporary absolute folder for what is not durable yet; emptied now, before each merge and after it
   * @param disk where segments become durable; DuckDB reads inputs and writes `temporary` by itself
   */
  constructor(calls: MergeCalls, pacer: Pacer, temporary: string, disk: Disk = realDisk) {
    this.#calls = calls
    this.#pacer = pacer
    this.#temporary = temporary
    this.#disk = disk
    this.#clear()
  }

  /** Rejects with SegmentDamaged, Unavailable or Node's error; then nothing of the new segment is there. */
  async merge(job: MergeJob): Promise<MergeDone> {
    checkJob(job)
    this.#pacer.begin()
    this.#clear()
    const inputs = job.inputs.map(input => inputOf(job, input))
    try {
      const { survey, rows } = await this.#read(job, inputs)
      const meta =
        rows === 0 && survey.deletes.keys.length === 0
          ? undefined
          : await this.#write(job, inputs, survey, rows)
      return {
        meta: meta?.meta,
        keys: job.plan.key === null ? undefined : joinRuns([meta?.run ?? emptyRun(), ...survey.expired]),
        rowsRead: job.inputs.reduce((sum, input) => sum + input.meta.rows, 0),
        bytesRead: job.inputs.reduce((sum, input) => sum + input.meta.bytes, 0),
      }
    } finally {
      this.#clear()
    }
  }

  /** Gives DuckDB's memory back. No merge may be running. */
  close(): void {
    this.#kept?.close()
    this.#kept = undefined
  }

  /** Everything up to the copy, which stands in `temporary` afterwards if there is a live row. */
  async #read(job: MergeJob, inputs: readonly Input[]): Promise<{ survey: KeySurvey; rows: number }> {
    const read = inputs.filter(input => input.live > 0 && !isWhollyExpired(input, job.expireBeforeUs))
    const hasKeys = job.plan.key !== null && inputs.some(input => input.live > 0)
    const engine = read.length > 0 || hasKeys ? await this.#open() : undefined
    try {
      const bytes = await checkFooters(job, read, this.#disk, this.#pacer)
      for (const input of inputs) await this.#expire(job, input, engine)
      const survey = await surveyKeys(job, inputs, engine, this.#calls, this.#disk, this.#pacer)
      const sources = inputs.filter(input => input.live > 0)
      const rows = sources.reduce((sum, input) => sum + input.live, 0)
      if (rows > 0) {
        const footer = newFooter(job, rows, survey.deletes.keys.length)
        const rowBytes = bytes / read.reduce((sum, { meta }) => sum + meta.rows, 0)
        await this.#copy(must(engine, 'the engine'), job, sources, rows, footer, rowBytes)
      }
      const storedBytes = job.inputs.reduce((sum, { meta }) => sum + meta.bytes, 0)
      if (Math.max(bytes, storedBytes) <= MERGE_KEPT_BYTES_MAX && engine?.isEnlarged === false)
        this.#kept = engine
      return { survey, rows }
    } finally {
      if (engine !== this.#kept) engine?.close()
    }
  }

  async #open(): Promise<MergeEngine> {
    const kept = this.#kept
    this.#kept = undefined
    return kept ?? MergeEngine.open(join(this.#temporary, 'spill'), MERGE_MEMORY_BYTES, this.#pacer)
  }

  async #expire(job: MergeJob, input: Input, engine: MergeEngine | undefined): Promise<void> {
    try {
      await findExpired(job, input, engine)
    } catch (error) {
      throw engine === undefined ? error : await explain(error, engine, [input])
    }
  }

  async #copy(
    engine: MergeEngine,
    job: MergeJob,
    sources: readonly Input[],
    rows: number,
    footer: ReadonlyMap<string, string>,
    rowBytes: number,
  ): Promise<void> {
    try {
      const gone = sources.map(goneRows)
      const without = gone.some(list => list.length > 0) ? GONE : undefined
      if (without !== undefined) await engine.makeTable(GONE, gone)
      const files = sources.map(({ file }) => file)
      const copy = { plan: job.plan, files, without, to: this.#copyPath, footer, rowBytes }
      const written = await this.#copyRows(engine, copy)
      if (written !== rows) throw (await findDamaged(engine, sources)) ?? miscounted(written, rows)
    } catch (error) {
      throw await explain(error, engine, sources)
    }
  }

  /** Sorted; or, where rows are so long that a sort does not fit, in the order in which they came. */
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

  async #write(job: MergeJob, inputs: readonly Input[], { deletes }: KeySurvey, rows: number) {
    const keys = rows === 0 ? undefined : await this.#calls.readSegmentKeys(this.#copyPath, job.plan)
    assert((keys?.rows ?? 0) === rows, 'a copy holds the rows that were counted')
    await this.#pacer.rest()
    crashPoint('merge.copied')
    if (job.expireBeforeUs !== undefined) crashPoint('retention.copied')
    const { plan, segment } = job
    const head = { pool: plan.pool, planVersion: plan.version, segment, ...spanOf(job), rowsOfSeal: rows }
    const deleteBytes =
      deletes.keys.length === 0
        ? undefined
        : this.#calls.writeDeleteFile(head, deletedRun(deletes.keys), deletes.sequences)
    const published = await this.#publish(job, rows > 0, deleteBytes)
    crashPoint('merge.published')
    const meta: SegmentMeta = {
      segment,
      rows,
      ...published,
      planVersion: plan.version,
      ...spanOf(job),
      ...(keys?.ranges ?? rangesWithoutRows(inputs)),
      deletes: deletes.keys.length,
    }
    return { meta, run: keys?.run satisfies KeyRun | undefined }
  }

  async #publish(job: MergeJob, hasRows: boolean, deletes: Uint8Array | undefined) {
    const copy = hasRows ? realDisk.open(this.#copyPath, 'r') : undefined
    try {
      const parquet =
        copy === undefined
          ? undefined
          : (into: Uint8Array, position: number) => realDisk.read(copy, into, position)
      // A piece is memory that the collector counts: a whole one for each tiny file makes it run at every second merge.
      const copyBytes = copy === undefined ? 0 : realDisk.size(this.#copyPath)
      return await this.#calls.publishInPieces(
        this.#disk,
        job.folder,
        job.segment,
        { parquet, deletes },
        Math.min(Math.max(copyBytes, 1), MERGE_PIECE_BYTES),
        bytes => this.#pacer.rest(bytes),
      )
    } finally {
      if (copy !== undefined) realDisk.close(copy)
    }
  }

  get #copyPath(): string {
    return join(this.#temporary, 'copy.parquet')
  }

  /** What a merge that was given up or killed left. */
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

function checkJob({ plan, inputs }: MergeJob): void {
  assert(inputs.length > 0, 'a merge has inputs')
  for (const [i, { meta }] of inputs.entries()) {
    const before = inputs[i - 1]?.meta
    assert(meta.planVersion === plan.version, 'inputs are of one plan version')
    assert(before === undefined || before.sequenceTo < meta.sequenceFrom, 'inputs come by rising sequence')
    assert(plan.key !== null || meta.deletes === 0, 'deletes are in pools with a unique id')
  }
}

function spanOf({ inputs }: MergeJob): { sequenceFrom: number; sequenceTo: number } {
  const [first, last] = [inputs[0], inputs.at(-1)]
  return {
    sequenceFrom: must(first, 'an input').meta.sequenceFrom,
    sequenceTo: must(last, 'an input').meta.sequenceTo,
  }
}

function newFooter(job: MergeJob, rows: number, deletes: number): Map<string, string> {
  return new Map([
    ['weir.pool', job.poolId],
    ...footerOf(job, { segment: job.segment, ...spanOf(job), rows, deletes }),
    ['weir.replaces', job.inputs.map(({ meta }) => meta.segment).join(',')],
  ])
}

/** Deletes alone: received-at is that of the inputs. */
function rangesWithoutRows(inputs: readonly Input[]): RangeFields {
  return {
    receivedFromUs: Math.min(...inputs.map(({ meta }) => meta.receivedFromUs)),
    receivedToUs: Math.max(...inputs.map(({ meta }) => meta.receivedToUs)),
    timestampFromUs: null,
    timestampToUs: null,
    tenant: null,
  }
}

function miscounted(written: number, rows: number): Error {
  return new Error(`a merge wrote ${written} rows where ${rows} are live`)
}
