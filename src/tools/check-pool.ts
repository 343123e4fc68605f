/**
 * One pool: its segments in order, each against the manifest and the key index, then the whole: as many keys as visible
 * rows, and no file that nothing names.
 */
import { join } from 'node:path'
import type { Pool } from '../catalog/model.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { Footer, SegmentMeta } from '../format/segment-meta.ts'
import type { PoolState } from '../index/index-types.ts'
import { type InspectedIndex, keysOfPool } from '../index/inspect-index.ts'
import { disk } from '../util/disk.ts'
import { deleteFile, numberOfFile, segmentFile } from '../util/paths.ts'
import { checkDeletionVectors, checkKeys } from './check-keys.ts'
import { checkSegment, type Wanted } from './check-segment.ts'
import { liveFooters } from './read-footers.ts'
import type { Report } from './report.ts'

export interface PoolCheck {
  readonly pool: Pool
  /** Absolute folder of its segments. */
  readonly folder: string
  /** For messages about the index. */
  readonly indexFile: string
  readonly schema: (version: number) => PoolSchema | undefined
  /** undefined: there is no index that counts. */
  readonly index: (InspectedIndex & PoolInIndex) | undefined
}

interface PoolInIndex {
  /** undefined: nothing of the pool is flushed. */
  readonly state: PoolState | undefined
  readonly keyCount: number
}

/** Checks a pool; `onSegment` is called after each of its segments. */
export async function checkPool(check: PoolCheck, report: Report, onSegment: () => void): Promise<void> {
  const { pool, folder, index } = check
  if (index === undefined) {
    const footers = await liveFooters(folder, pool.number, report)
    count(report, footers)
    for (const footer of footers) {
      await checkSegment(folder, check.schema(footer.schemaVersion), wantedOf(pool.number, footer), report)
      onSegment()
    }
    return
  }
  const state = index.state ?? {
    pool: pool.number,
    flushedSequence: 0,
    nextSegment: 1,
    receivedToUs: 0,
    segments: [],
  }
  checkState(check, state, report)
  count(report, state.segments)
  const before = report.count
  await checkSegments(check, index, state, report, onSegment)
  checkKeyCount(check, index, state, report, report.count > before)
  noteOrphans(folder, state, report)
}

function count({ checked }: Report, segments: readonly (Footer | SegmentMeta)[]): void {
  checked.segments += segments.length
  for (const { rows, deletes } of segments) {
    checked.rows += rows
    checked.deletes += deletes
  }
}

/** Numbers and sequence ranges of the manifest. */
function checkState({ folder, indexFile, pool }: PoolCheck, state: PoolState, report: Report): void {
  const wrong = (what: string) => report.find(indexFile, `pool ${pool.id}: ${what}`)
  const segments = [...state.segments].sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  for (const [at, { segment, sequenceFrom, sequenceTo }] of segments.entries()) {
    if (segment >= state.nextSegment)
      wrong(`segment ${segment} is beyond the next number ${state.nextSegment}`)
    if (sequenceTo > state.flushedSequence)
      wrong(
        `segment ${segment} ends with sequence ${sequenceTo}, above the flushed sequence ${state.flushedSequence}`,
      )
    if (sequenceTo < sequenceFrom) wrong(`segment ${segment} ends before it begins`)
    const last = segments[at - 1]
    if (last !== undefined && sequenceFrom <= last.sequenceTo)
      report.find(
        join(folder, segmentFile(segment)),
        `its sequences ${sequenceFrom} to ${sequenceTo} overlap those of segment ${last.segment}, ${last.sequenceFrom} to ${last.sequenceTo}`,
      )
  }
}

async function checkSegments(
  { pool, folder, schema, indexFile }: PoolCheck,
  index: InspectedIndex,
  state: PoolState,
  report: Report,
  onSegment: () => void,
): Promise<void> {
  const deletionVectors = new Map(
    index.index.readDeletionVectors(pool.number).deletionVectors.map(delta => [delta.segment, delta.rows]),
  )
  for (const { deletedRows, ...meta } of state.segments) {
    const { segment } = meta
    const content = await checkSegment(
      folder,
      schema(meta.schemaVersion),
      wantedOf(pool.number, meta),
      report,
    )
    const one = {
      index: index.index,
      state,
      segment,
      deletionVectors: deletionVectors.get(segment) ?? new Uint32Array(0),
      file: join(folder, segmentFile(segment)),
      deletesFile: join(folder, deleteFile(segment)),
    }
    checkDeletionVectors(one, meta.rows, deletedRows, report)
    checkKeys(one, content, report)
    deletionVectors.delete(segment)
    onSegment()
  }
  for (const segment of deletionVectors.keys())
    report.find(indexFile, `pool ${pool.id}: it holds marks of segment ${segment}, which it does not name`)
}

/** What a segment should be: by the manifest, or by its own footer alone. */
export function wantedOf(pool: number, from: Footer | SegmentMeta): Wanted {
  const { segment, schemaVersion, sequenceFrom, sequenceTo, rows, deletes } = from
  const footer = { pool, segment, schemaVersion, sequenceFrom, sequenceTo, rows, deletes }
  return { footer, meta: 'bytes' in from ? from : undefined }
}

/** As many keys as rows that are visible; else those that point at none are told one by one. */
function checkKeyCount(
  { pool, indexFile }: PoolCheck,
  { keyCount, store }: InspectedIndex & PoolInIndex,
  state: PoolState,
  report: Report,
  isTold: boolean,
): void {
  const visible = state.segments.reduce((sum, { rows, deletedRows }) => sum + rows - deletedRows, 0)
  const wanted = pool.uniqueIdColumn === null ? 0 : visible
  if (keyCount === wanted) return
  const before = report.count
  const segments = new Map(state.segments.map(meta => [meta.segment, meta]))
  const seen = new Map(
    state.segments.map(({ segment, rows }) => [segment, new Uint8Array(Math.ceil(rows / 8))]),
  )
  for (const [key, { segment, row }] of keysOfPool(store, pool.number)) {
    const meta = segments.get(segment)
    const bits = seen.get(segment)
    const what =
      meta === undefined || bits === undefined
        ? `segment ${segment}, which is not there`
        : row >= meta.rows
          ? `row ${row} of segment ${segment}, which has ${meta.rows}`
          : isSet(bits, row)
            ? `row ${row} of segment ${segment}, as another key does`
            : undefined
    if (what === undefined) setBit(bits!, row)
    else
      report.find(indexFile, `pool ${pool.id}: the key ${Buffer.from(key).toString('hex')} points at ${what}`)
  }
  if (report.count === before && !isTold)
    report.find(indexFile, `pool ${pool.id}: it has ${keyCount} keys for ${wanted} visible rows`)
}

function isSet(bits: Uint8Array, row: number): boolean {
  return ((bits[row >> 3]! >> (row & 7)) & 1) === 1
}

function setBit(bits: Uint8Array, row: number): void {
  bits[row >> 3]! |= 1 << (row & 7)
}

/** Files that flushes and merges left behind, and what is not ours. */
function noteOrphans(folder: string, state: PoolState, report: Report): void {
  if (!disk.exists(folder)) return
  const named = new Set(
    state.segments.flatMap(({ segment, rows, deletes }) => [
      ...(rows > 0 ? [segmentFile(segment)] : []),
      ...(deletes > 0 ? [deleteFile(segment)] : []),
    ]),
  )
  for (const name of disk.readdir(folder)) {
    if (named.has(name)) continue
    const what = numberOfFile(name) === undefined ? 'is no file of a segment' : 'is named by no segment'
    report.note(`${join(folder, name)} ${what}; the next start removes it`)
  }
}
