/** Before anything is copied: which rows are expired, which keys go with them, which deletes stay. */
import { SegmentDamaged } from '../errors.ts'
import type { KeyRun } from '../keys/protocol.ts'
import { must } from '../util/assert.ts'
import { type Disk, readFile } from '../util/disk.ts'
import { type Deletes, dropFollowed, dropUnneeded, mergeDeletes } from './deletes.ts'
import type { KeysOfRows, MergeCalls } from './merge-calls.ts'
import { asSegmentDamaged, findDamaged } from './merge-damage.ts'
import type { MergeEngine } from './merge-engine.ts'
import { expire, FATE, has, type Input } from './merge-input.ts'
import { deletedPart, partsOf } from './merge-runs.ts'
import { expiredSql, keyColumnsSql } from './merge-sql.ts'
import type { Pacer } from './pace.ts'
import { type ParquetFooter, readParquetFooter } from './parquet-footer.ts'
import type { MergeJob, TimeSpan } from './protocol.ts'

/** Are all rows below the cutoff, by what the manifest says? */
export function isWhollyExpired({ meta }: Input, beforeUs: number | undefined): boolean {
  return beforeUs !== undefined && meta.timestampToUs !== null && meta.timestampToUs < beforeUs
}

/** Finds the expired rows of an input; asks DuckDB only where some are and some are not. */
export async function findExpired(
  job: MergeJob,
  input: Input,
  engine: MergeEngine | undefined,
): Promise<void> {
  const { meta, file } = input
  const { plan, expireBeforeUs } = job
  if (expireBeforeUs === undefined || meta.rows === 0) return
  if (isWhollyExpired(input, expireBeforeUs)) {
    for (let row = 0; row < meta.rows; row++) expire(input, row)
    return
  }
  if (input.live === 0 || (meta.timestampFromUs !== null && meta.timestampFromUs >= expireBeforeUs)) return
  const rows = await must(engine, 'the engine').run(expiredSql(plan, file, expireBeforeUs))
  for (const [row] of rows) expire(input, Number(row))
}

/** The inputs' footers are what the manifest says. Returns the bytes of their values, before compression. */
export async function checkFooters(
  job: MergeJob,
  inputs: readonly Input[],
  disk: Disk,
  pacer: Pacer,
): Promise<number> {
  let bytes = 0
  for (const { file, meta } of inputs) {
    const footer = readFooter(disk, file)
    for (const [name, value] of footerOf(job, meta)) {
      const found = footer.texts.get(name) ?? 'missing'
      if (found !== value) throw new SegmentDamaged(file, `its footer has ${name} ${found}, not ${value}`)
    }
    if (footer.rows !== meta.rows)
      throw new SegmentDamaged(file, `${footer.rows} rows where ${meta.rows} are expected`)
    bytes += footer.valueBytes
    await pacer.rest()
  }
  return bytes
}

function readFooter(disk: Disk, file: string): ParquetFooter {
  try {
    return readParquetFooter(disk, file)
  } catch (error) {
    throw asSegmentDamaged(error)
  }
}

/** What a footer says, but for the pool's id and what was replaced. */
export function footerOf(
  { plan }: MergeJob,
  meta: Pick<Input['meta'], 'segment' | 'sequenceFrom' | 'sequenceTo' | 'rows' | 'deletes'>,
): Map<string, string> {
  return new Map([
    ['weir.format', '1'],
    ['weir.pool_number', String(plan.pool)],
    ['weir.plan_version', String(plan.version)],
    ['weir.segment', String(meta.segment)],
    ['weir.sequence_from', String(meta.sequenceFrom)],
    ['weir.sequence_to', String(meta.sequenceTo)],
    ['weir.rows', String(meta.rows)],
    ['weir.deletes', String(meta.deletes)],
  ])
}

/** What the rows' keys say. */
export interface KeySurvey {
  /** Keys of expired rows, each with row -1, by input. */
  readonly expired: readonly KeyRun[]
  /** Deletes that the new segment keeps. */
  readonly deletes: Deletes
}

/** Reads the keys of those inputs that have expired rows, or rows that a delete may have been followed by. */
export async function surveyKeys(
  job: MergeJob,
  inputs: readonly Input[],
  engine: MergeEngine | undefined,
  calls: MergeCalls,
  disk: Disk,
  pacer: Pacer,
): Promise<KeySurvey> {
  const expired: KeyRun[] = []
  let deletes = dropUnneeded(readDeletes(job, inputs, calls, disk), job.plan, olderOf(job, inputs))
  await pacer.rest()
  if (job.plan.key === null) return { expired, deletes }
  for (const input of inputs) {
    const hasExpired = has(input, FATE.expired)
    const lowest = deletes.sequences.reduce((least, one) => Math.min(least, one), Number.POSITIVE_INFINITY)
    if (!hasExpired && (input.live === 0 || input.meta.sequenceTo <= lowest)) continue
    const { run, sequences } = await readKeys(job, input, must(engine, 'the engine'), calls)
    const parts = partsOf(must(run, 'the keys of a pool with a unique id'))
    if (hasExpired) expired.push(deletedPart(parts, row => input.fates[row] === FATE.expired))
    deletes = dropFollowed(deletes, parts, sequences, row => input.fates[row] === FATE.live)
    await pacer.rest()
  }
  return { expired, deletes }
}

/**
 * What a delete may still be needed for. Of several inputs without a live row nothing may be left that stands for them, and their
 * files go one after the other: a delete in one stays as long as another one holds its key. It goes with the next merge.
 */
function olderOf({ older }: MergeJob, inputs: readonly Input[]): readonly TimeSpan[] {
  if (inputs.length === 1 || inputs.some(({ live }) => live > 0)) return older
  const spans = inputs
    .filter(({ meta }) => meta.rows > 0)
    .map(({ meta }) => ({ fromUs: meta.timestampFromUs, toUs: meta.timestampToUs }))
  return [...older, ...spans]
}

/** DuckDB reads them first: the reader of keys may take its whole thread down on damaged pages, and says nothing. */
async function readKeys(
  job: MergeJob,
  input: Input,
  engine: MergeEngine,
  calls: MergeCalls,
): Promise<KeysOfRows> {
  const damaged = await findDamaged(engine, [input], keyColumnsSql(job.plan))
  if (damaged !== undefined) throw damaged
  try {
    const keys = await calls.readSegmentKeys(input.file, job.plan)
    if (keys.rows === input.meta.rows) return keys
    throw new SegmentDamaged(input.file, `${keys.rows} rows where ${input.meta.rows} are expected`)
  } catch (error) {
    throw asSegmentDamaged(error)
  }
}

function readDeletes(job: MergeJob, inputs: readonly Input[], calls: MergeCalls, disk: Disk): Deletes {
  const parts = inputs
    .filter(({ meta }) => meta.deletes > 0)
    .map(({ meta, deletesFile }) => {
      try {
        const found = calls.readDeleteFile(readFile(disk, deletesFile), deletesFile)
        const isOfInput =
          found.pool === job.plan.pool &&
          found.segment === meta.segment &&
          found.sequenceFrom === meta.sequenceFrom &&
          found.sequenceTo === meta.sequenceTo &&
          found.keys.length === meta.deletes
        if (isOfInput) return found
        throw new SegmentDamaged(deletesFile, `it belongs to another seal than segment ${meta.segment}`)
      } catch (error) {
        throw asSegmentDamaged(error)
      }
    })
  return mergeDeletes(parts.length === 0 ? [{ keys: [], sequences: new Float64Array(0) }] : parts)
}
