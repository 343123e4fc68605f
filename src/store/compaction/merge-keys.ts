/**
 * The keys and deletes of a merge, found before anything is copied: expired rows, the keys that go
 * with expired and removed rows, and the deletes that the new segment keeps.
 *
 *   W-6  A delete is dropped only when no rebuild could bring its row back: a live row of the key
 *        in the new segment has a higher sequence, or no older segment can hold the key. An expired
 *        delete is no exception: retention may not have reached the older segment yet. `olderThan`
 *        (pick-compaction.ts) and `olderOf` say what counts as older. With a version column a live
 *        row is no reason: only the delete keeps an older row of a higher version from winning.
 *        Where rows of one key may have different timestamps, an expired row leaves a delete of its
 *        key: an older row may not have expired yet, and a rebuild would bring it back. A row that
 *        a job removes always leaves one, for the same reason.
 */

import { keyHasTimestamp, keyTimeUs } from '../../format/key.ts'
import { compareKeyAt, type KeyRun, KeyRunWriter, type RunView, viewRun } from '../../format/key-run.ts'
import { type ParquetFooter, readParquetFooter } from '../../format/parquet-footer.ts'
import type { PoolSchema } from '../../format/schema.ts'
import { readSegmentKeys, type SegmentKeys } from '../../format/segment-keys.ts'
import { footerFields, type SegmentMeta } from '../../format/segment-meta.ts'
import { readDeletesOf } from '../../index/folder-segments.ts'
import type { Disk } from '../../util/disk.ts'
import { assert, must, SegmentDamaged } from '../../util/errors.ts'
import { checkFile } from '../check/check-file.ts'
import type { MergeTask, TimeSpan } from './compaction-types.ts'
import { removedSql } from './merge-changes.ts'
import { asSegmentDamaged, expiredSql, type MergeEngine } from './merge-engine.ts'
import type { MergeThrottle } from './merge-throttle.ts'
import { isPartlyExpired, isWhollyExpired } from './pick-compaction.ts'

/**
 * Status of an input's row. Only live rows go into the new segment. A removed row is one that a job
 * deletes.
 */
export const ROW = { live: 0, deleted: 1, expired: 2, removed: 3 } as const

/** A segment to merge, with the status of each of its rows. */
export interface InputSegment {
  readonly meta: SegmentMeta
  /** Columns of its schema version. */
  readonly columns: number
  readonly file: string
  readonly deletesFile: string
  /** ROW by row number. */
  readonly status: Uint8Array
  live: number
}

// ── footers, expired and removed rows ───────────────────────────────────────────────────────────

/**
 * Compares the inputs' footers with the manifest. Returns the bytes of their values before
 * compression.
 */
export async function checkFooters(
  task: MergeTask,
  inputs: readonly InputSegment[],
  disk: Disk,
  throttle: MergeThrottle,
): Promise<number> {
  let bytes = 0
  for (const { file, meta } of inputs) {
    const footer = readFooter(disk, file)
    const schema = { ...task.schema, version: meta.schemaVersion }
    for (const [name, value] of footerFields({ schema, ...meta })) {
      const found = footer.texts.get(name) ?? 'missing'
      if (found !== value) throw new SegmentDamaged(file, `its footer has ${name} ${found}, not ${value}`)
    }
    if (footer.rows !== meta.rows)
      throw new SegmentDamaged(file, `${footer.rows} rows where ${meta.rows} are expected`)
    bytes += footer.valueBytes
    await throttle.rest()
  }
  return bytes
}

/**
 * Compares the inputs with their checksums: damage would get a new checksum with the new segment. A
 * merge reads inputs with live rows alone.
 */
export async function checkSums(
  inputs: readonly InputSegment[],
  disk: Disk,
  throttle: MergeThrottle,
): Promise<void> {
  for (const { file, meta } of inputs)
    if (meta.checksum !== null)
      await checkFile({ file, checksum: meta.checksum }, () => throttle.rest(), disk)
}

function readFooter(disk: Disk, file: string): ParquetFooter {
  try {
    return readParquetFooter(disk, file)
  } catch (error) {
    throw asSegmentDamaged(error)
  }
}

/**
 * Sets the status of an input's expired rows. Asks DuckDB only where some rows are expired and
 * others are not.
 */
export async function findExpired(
  { schema, expireBeforeUs }: MergeTask,
  input: InputSegment,
  engine: MergeEngine | undefined,
): Promise<void> {
  const { meta, file } = input
  if (expireBeforeUs === undefined || meta.rows === 0) return
  if (isWhollyExpired(meta, expireBeforeUs)) {
    for (let row = 0; row < meta.rows; row++) expire(input, row)
    return
  }
  const mayHoldExpired = meta.timestampFromUs === null || isPartlyExpired(meta, expireBeforeUs)
  if (input.live === 0 || !mayHoldExpired) return
  const rows = await must(engine, 'the engine').run(expiredSql(schema, file, expireBeforeUs))
  for (const [row] of rows) expire(input, Number(row))
}

export async function findRemoved(
  { changes }: MergeTask,
  input: InputSegment,
  engine: MergeEngine | undefined,
): Promise<void> {
  if (changes === undefined || changes.set.length > 0 || input.live === 0) return
  await must(engine, 'the engine').eachInteger(removedSql(changes), row => {
    assert(row >= 0 && row < input.meta.rows, 'a removed row is in its segment')
    leaveOut(input, row, ROW.removed)
  })
}

function expire(input: InputSegment, row: number): void {
  leaveOut(input, row, ROW.expired)
}

/** Leaves a live row out of the new segment. A deleted row stays deleted. */
function leaveOut(input: InputSegment, row: number, why: 2 | 3): void {
  if (input.status[row] !== ROW.live) return
  input.status[row] = why
  input.live -= 1
}

// ── expired keys, and deletes that stay ─────────────────────────────────────────────────────────

export interface KeyChanges {
  /** Keys of expired and removed rows, each with row -1, by input. */
  readonly gone: readonly KeyRun[]
  /** Deletes that the new segment keeps: sorted by key, one for each key. */
  readonly deletes: readonly Delete[]
}

interface Delete {
  readonly key: Uint8Array
  readonly sequence: number
}

/**
 * Reads the keys of the inputs that have expired or removed rows, or rows that may be newer than a
 * delete of their key.
 */
export async function readKeyChanges(
  task: MergeTask,
  inputs: readonly InputSegment[],
  disk: Disk,
  throttle: MergeThrottle,
): Promise<KeyChanges> {
  const gone: KeyRun[] = []
  const older = olderOf(task, inputs)
  let deletes = dropUnneeded(readDeletes(task, inputs, disk), task.schema, older)
  await throttle.rest()
  if (task.schema.key === null) return { gone, deletes }
  const hasVersions = task.schema.key.version >= 0
  for (const input of inputs) {
    const hasGone = input.status.some(status => status >= ROW.expired)
    const lowest = deletes.reduce(
      (least, { sequence }) => Math.min(least, sequence),
      Number.POSITIVE_INFINITY,
    )
    const overwritesNone = hasVersions || input.live === 0 || input.meta.sequenceTo <= lowest
    if (!hasGone && overwritesNone) continue
    const { run, sequences } = await readKeys(task, input)
    const keys = viewRun(must(run, 'the keys of a pool with a key'))
    if (!overwritesNone)
      deletes = dropOverwritten(deletes, keys, sequences, row => input.status[row] === ROW.live)
    if (hasGone) {
      const isGone = (row: number) => (input.status[row] as number) >= ROW.expired
      gone.push(removedKeys(keys, isGone))
      const leavesDelete = keyHasTimestamp(task.schema)
        ? (row: number) => input.status[row] === ROW.removed
        : isGone
      const left = dropUnneeded(deletesOf(keys, sequences, leavesDelete), task.schema, older)
      if (left.length > 0) deletes = joinDeletes([...deletes, ...left])
    }
    await throttle.rest()
  }
  return { gone, deletes }
}

/**
 * The times of everything that a delete may still be needed for. Where several inputs leave no
 * segment, their files are removed one after the other: a delete in one stays as long as another
 * one may hold its key. The next merge drops it.
 */
function olderOf({ older, leavesSegment }: MergeTask, inputs: readonly InputSegment[]): readonly TimeSpan[] {
  if (leavesSegment || inputs.length === 1 || inputs.some(({ live }) => live > 0)) return older
  const spans = inputs
    .filter(({ meta }) => meta.rows > 0)
    .map(({ meta }) => ({ fromUs: meta.timestampFromUs, toUs: meta.timestampToUs }))
  return [...older, ...spans]
}

/**
 * IMPORTANT: `checkSums` comes first. The native reader of keys may crash the process on damaged
 * pages.
 */
async function readKeys(task: MergeTask, input: InputSegment): Promise<SegmentKeys> {
  try {
    const keys = await readSegmentKeys(input.file, task.schema)
    if (keys.rows === input.meta.rows) return keys
    throw new SegmentDamaged(input.file, `${keys.rows} rows where ${input.meta.rows} are expected`)
  } catch (error) {
    throw asSegmentDamaged(error)
  }
}

function readDeletes(task: MergeTask, inputs: readonly InputSegment[], disk: Disk): Delete[] {
  const files = inputs
    .filter(({ meta }) => meta.deletes > 0)
    .map(({ meta, deletesFile }) => {
      try {
        const { keys, sequences } = readDeletesOf(disk, deletesFile, { ...meta, pool: task.schema.pool })
        return keys.map((key, i) => ({ key, sequence: sequences[i] as number }))
      } catch (error) {
        throw asSegmentDamaged(error)
      }
    })
  return joinDeletes(files.flat())
}

/** One delete for each key: the one with the highest sequence. */
function joinDeletes(deletes: readonly Delete[]): Delete[] {
  return deletes
    .toSorted((a, b) => Buffer.compare(a.key, b.key) || b.sequence - a.sequence)
    .filter(({ key }, i, all) => i === 0 || Buffer.compare(key, all[i - 1]!.key) !== 0)
}

/** Drops the deletes whose key no older segment can hold. */
function dropUnneeded(deletes: readonly Delete[], schema: PoolSchema, older: readonly TimeSpan[]): Delete[] {
  return deletes.filter(({ key }) => canHold(schema, older, key))
}

function canHold(schema: PoolSchema, older: readonly TimeSpan[], key: Uint8Array): boolean {
  if (older.length === 0) return false
  const time = keyTimeUs(schema, key)
  return older.some(
    ({ fromUs, toUs }) =>
      time === null || fromUs === null || toUs === null || (fromUs <= time && time <= toUs),
  )
}

/**
 * Drops the deletes whose key has a live row with a higher sequence.
 * @param rows the keys of one input's rows
 * @param sequences by row
 * @param isLive by row
 */
function dropOverwritten(
  deletes: readonly Delete[],
  rows: RunView,
  sequences: Float64Array,
  isLive: (row: number) => boolean,
): Delete[] {
  let at = 0
  return deletes.filter(({ key, sequence }) => {
    while (at < rows.count && compareKeyAt(rows, at, key) < 0) at += 1
    if (at >= rows.count || compareKeyAt(rows, at, key) !== 0) return true
    const row = rows.rows[at] as number
    return !isLive(row) || (sequences[row] as number) < sequence
  })
}

/** A delete for the key of each row that matches, with the sequence of the row. */
function deletesOf(keys: RunView, sequences: Float64Array, matches: (row: number) => boolean): Delete[] {
  const found: Delete[] = []
  for (let i = 0; i < keys.count; i++) {
    const row = keys.rows[i] as number
    if (!matches(row)) continue
    const key = keys.bytes.subarray(keys.offsets[i], keys.offsets[i + 1])
    found.push({ key, sequence: sequences[row] as number })
  }
  return found
}

/** The keys of the rows that match, each with row -1. */
function removedKeys(keys: RunView, matches: (row: number) => boolean): KeyRun {
  let [count, keyBytes] = [0, 0]
  const { rows, offsets } = keys
  for (let i = 0; i < keys.count; i++) {
    if (!matches(rows[i] as number)) continue
    count += 1
    keyBytes += (offsets[i + 1] as number) - (offsets[i] as number)
  }
  const run = new KeyRunWriter(count, keyBytes)
  for (let i = 0; i < keys.count; i++) if (matches(rows[i] as number)) run.addFrom(keys, i, -1)
  return run.end()
}

/** All keys of `runs` in one run; no key may be in two. */
export function joinRuns(runs: readonly KeyRun[]): KeyRun {
  const queue = [...runs]
  for (;;) {
    const [a, b] = queue.splice(0, 2)
    if (a === undefined) return new KeyRunWriter(0, 0).end()
    if (b === undefined) return a
    queue.push(joinTwo(viewRun(a), viewRun(b)))
  }
}

function compareKeys(a: RunView, i: number, b: RunView, j: number): number {
  return a.bytes.compare(b.bytes, b.offsets[j], b.offsets[j + 1], a.offsets[i], a.offsets[i + 1])
}

function joinTwo(a: RunView, b: RunView): KeyRun {
  const run = new KeyRunWriter(a.count + b.count, a.bytes.length + b.bytes.length)
  let [i, j] = [0, 0]
  while (i < a.count && j < b.count) {
    const order = compareKeys(a, i, b, j)
    assert(order !== 0, 'a key is in one run only')
    if (order < 0) run.addFrom(a, i, a.rows[i++] as number)
    else run.addFrom(b, j, b.rows[j++] as number)
  }
  run.addRange(a, i, a.count)
  run.addRange(b, j, b.count)
  return run.end()
}
