/**
 * One pool: its segments in order, each against the manifest and the key index, then the whole: as many keys as visible
 * rows, and no file that nothing names.
 */
import { join } from 'node:path'
import type { Plan } from '../batch/plan.ts'
import type { Pool } from '../catalog/model.ts'
import { type IndexLook, keysOfPool } from '../keys/look.ts'
import type { PoolState, SegmentMeta } from '../keys/protocol.ts'
import type { Footer } from '../keys/segment-files.ts'
import { deleteFile, numberOfFile, segmentFile } from '../paths.ts'
import { disk } from '../util/disk.ts'
import { checkKeys, checkMarks } from './check-keys.ts'
import { checkSegment, type Wanted } from './check-segment.ts'
import { liveFooters } from './footers.ts'
import type { Report } from './report.ts'

export interface PoolCheck {
  readonly pool: Pool
  /** Absolute folder of its segments. */
  readonly folder: string
  /** For messages about the index. */
  readonly indexFile: string
  readonly plan: (version: number) => Plan | undefined
  /** undefined: there is no index that counts. */
  readonly index: (IndexLook & PoolInIndex) | undefined
}

interface PoolInIndex {
  /** undefined: nothing of the pool is sealed. */
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
      await checkSegment(folder, check.plan(footer.planVersion), wantedOf(pool.number, footer), report)
      onSegment()
    }
    return
  }
  const state = index.state ?? { pool: pool.number, sealedSequence: 0, nextSegment: 1, segments: [] }
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
    if (sequenceTo > state.sealedSequence)
      wrong(
        `segment ${segment} ends with sequence ${sequenceTo}, above the sealed sequence ${state.sealedSequence}`,
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
  { pool, folder, plan, indexFile }: PoolCheck,
  index: IndexLook,
  state: PoolState,
  report: Report,
  onSegment: () => void,
): Promise<void> {
  const marks = new Map(index.index.readMarks(pool.number).marks.map(delta => [delta.segment, delta.rows]))
  for (const { marked, ...meta } of state.segments) {
    const { segment } = meta
    const content = await checkSegment(folder, plan(meta.planVersion), wantedOf(pool.number, meta), report)
    const one = {
      index: index.index,
      state,
      segment,
      marks: marks.get(segment) ?? new Uint32Array(0),
      file: join(folder, segmentFile(segment)),
      deletesFile: join(folder, deleteFile(segment)),
    }
    checkMarks(one, meta.rows, marked, report)
    checkKeys(one, content, report)
    marks.delete(segment)
    onSegment()
  }
  for (const segment of marks.keys())
    report.find(indexFile, `pool ${pool.id}: it holds marks of segment ${segment}, which it does not name`)
}

/** What a segment should be: by the manifest, or by its own footer alone. */
export function wantedOf(pool: number, from: Footer | SegmentMeta): Wanted {
  const { segment, planVersion, sequenceFrom, sequenceTo, rows, deletes } = from
  const footer = { pool, segment, planVersion, sequenceFrom, sequenceTo, rows, deletes }
  return { footer, meta: 'bytes' in from ? from : undefined }
}

/** As many keys as rows that are visible; else those that point at none are told one by one. */
function checkKeyCount(
  { pool, indexFile }: PoolCheck,
  { keyCount, store }: IndexLook & PoolInIndex,
  state: PoolState,
  report: Report,
  isTold: boolean,
): void {
  const visible = state.segments.reduce((sum, { rows, marked }) => sum + rows - marked, 0)
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

/** Files that seals and merges left behind, and what is not ours. */
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
