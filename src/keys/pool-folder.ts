/**
 * The folders of the pools when the index is opened, beside what it names of them: read once, and judged (too-old.ts) and
 * cleared (sweep.ts) by what was read. Nothing else writes there until the index is open.
 */
import { deleteFile, segmentFile } from '../paths.ts'
import { assert } from '../util/assert.ts'
import type { PoolState } from './protocol.ts'

/** A pool's folder, which is there. */
export interface PoolFolder {
  /** Of a pool that the index does not know: as of one without a segment. */
  readonly state: PoolState
  /** Absolute. */
  readonly folder: string
  /** Names in it that the index does not name. */
  readonly unnamed: readonly string[]
  /** Names of the index that are not in it. */
  readonly missing: readonly string[]
}

/** What stands in the folder of a pool that the catalog knows. */
export interface FolderNames {
  readonly pool: number
  /** Absolute. */
  readonly folder: string
  readonly names: readonly string[]
}

/** Each folder beside what the index names of it. */
export function comparePoolFolders(
  folders: readonly FolderNames[],
  opened: readonly PoolState[],
): PoolFolder[] {
  const states = new Map(opened.map(state => [state.pool, state]))
  return folders.map(({ pool, folder, names }) => {
    const state = states.get(pool) ?? { pool, sealedSequence: 0, nextSegment: 1, segments: [] }
    const named = filesOf(state)
    const known = new Set(named)
    const unnamed = names.filter(name => !known.has(name))
    const isWhole = names.length - unnamed.length === named.length
    return { state, folder, unnamed, missing: isWhole ? [] : missingOf(named, names) }
  })
}

function missingOf(named: readonly string[], names: readonly string[]): string[] {
  const there = new Set(names)
  return named.filter(name => !there.has(name))
}

/** Names of the files that a pool's segments have. */
export function filesOf(state: PoolState): string[] {
  const names: string[] = []
  for (const { segment, rows, deletes } of state.segments) {
    assert(rows > 0 || deletes > 0, 'a segment has rows or deletes')
    if (rows > 0) names.push(segmentFile(segment))
    if (deletes > 0) names.push(deleteFile(segment))
  }
  return names
}
