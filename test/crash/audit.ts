/**
 * Audits a data folder as a kill or a stop left it. `weir verify` must find nothing. The log of a
 * copy is replayed, and DuckDB and hyparquet read every segment: they must agree with each other,
 * with the index, and with the clients.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeDeletionVector, poolKey, TAG } from '../../src/index/index-entry.ts'
import { inspectIndex } from '../../src/index/inspect-index.ts'
import { readCatalog } from '../../src/tools/stopped-folder.ts'
import { disk } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { type CrossRow, crossRead } from '../util/cross-read.ts'
import { replayFolder, verifyFolder } from '../util/verify.ts'
import { Violation } from './client.ts'
import { type ClientState, poolsNow } from './client-state.ts'
import { oldName } from './pools.ts'
import { checkRejected } from './rejected.ts'
import type { Space } from './space.ts'

const DELETION_VECTOR_ENTRIES_MAX = 1_000_000

/**
 * Compares a replayed and flushed copy with the clients. The folder itself stays as the kill left
 * it.
 */
export async function auditCopy(state: ClientState, dataDir: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-audit-'))
  const copy = join(folder, 'data')
  try {
    cpSync(dataDir, copy, { recursive: true })
    await replayFolder(copy)
    await verifyFolder(copy)
    await crossCheck(state, copy)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Compares every row of a folder without unflushed log records with the clients. Throws Violation,
 * or the errors of `crossRead`.
 */
export async function crossCheck(state: ClientState, dataDir: string): Promise<void> {
  const found = await crossRead(dataDir)
  for (const { poolId, spaces } of poolsNow(state)) {
    const byClient = new Map<string, CrossRow[]>()
    for (const row of found.get(poolId) ?? []) {
      const client = must(row['client'] ?? undefined, 'a client')
      byClient.set(client, [...(byClient.get(client) ?? []), row])
    }
    for (const space of spaces) {
      const problem = problemOf(space, byClient)
      if (problem !== undefined) throw new Violation(`cross-read, pool ${poolId}, ${space.name}: ${problem}`)
    }
    if (byClient.size > 0) throw new Violation(`cross-read, pool ${poolId}: rows of ${[...byClient.keys()]}`)
  }
  if (state.rejectedPoolId !== undefined) checkRejected(state, found.get(state.rejectedPoolId) ?? [])
  state.tally.crossRead += 1
}

/** Takes the space's rows out of `byClient` and returns the problem with them, if any. */
function problemOf(space: Space, byClient: Map<string, CrossRow[]>): string | undefined {
  const stamps = take(byClient, space.name)
  const states = space.states().map(state => state.join())
  if (!states.includes(stamps.join()))
    return `${stamps.length} rows, not those of ${states[0]?.split(',').length} or ${states[1]?.split(',').length}`
  return space.old.check(take(byClient, oldName(space.name)))
}

/** The stamps of a client's rows, sorted. The text of each event must have its stamp too. */
function take(byClient: Map<string, CrossRow[]>, client: string): number[] {
  const rows = byClient.get(client) ?? []
  byClient.delete(client)
  const stamps = rows.map(row => {
    const sent = JSON.parse(must(row['_service_payload'] ?? undefined, 'a payload')) as Record<
      string,
      unknown
    >
    if (String(sent['stamp']) !== row['stamp'] || sent['client'] !== client)
      throw new Violation(`cross-read: row ${JSON.stringify(row)} was sent as ${JSON.stringify(sent)}`)
    return Number(row['stamp'])
  })
  return stamps.sort((a, b) => a - b)
}

/**
 * After a kill right after a compaction commit: the number of rows that it moved although they were
 * updated or deleted since the merge began. The commit put their copies into deletion vectors.
 */
export async function changedMeanwhile(dataDir: string): Promise<number> {
  const paths = pathsOf(dataDir)
  const folderId = (await readCatalog({ paths, kernel: 'native', isBackup: false })).meta().folderId
  const inspected = inspectIndex({ disk, folder: paths.index, kernel: 'native' }, folderId)
  if (typeof inspected === 'string') throw new Violation(`no index after a compaction commit: ${inspected}`)
  const { index, store, commit } = inspected
  let changed = 0
  for (const { pool } of index.state().pools)
    store.transact(txn => {
      const entries = txn.range(
        poolKey(TAG.deletionVector, pool),
        poolKey(TAG.deletionVector, pool + 1),
        DELETION_VECTOR_ENTRIES_MAX,
      )
      for (const [key, value] of entries)
        if (commitOf(key) === commit) changed += decodeDeletionVector(value).length
    })
  index.close()
  return changed
}

/**
 * The key of a deletion vector entry, by FORMAT.md of src/index: tag, pool, segment, commit u64.
 */
function commitOf(key: Uint8Array): number {
  return Number(Buffer.from(key).readBigUInt64BE(9))
}
