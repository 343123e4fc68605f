/**
 * The data folder as a kill or a stop left it, looked at from outside: `weir verify` finds nothing; and of a copy whose log
 * is replayed, every segment is read by DuckDB and by hyparquet, which agree with each other, with the index and with what
 * the clients know.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeDeletionVector, poolKey, TAG } from '../../src/index/index-entry.ts'
import { inspectIndex } from '../../src/index/inspect-index.ts'
import { readCatalog } from '../../src/tools/open-read-only.ts'
import { must } from '../../src/util/assert.ts'
import { disk } from '../../src/util/disk.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { type CrossRow, crossRead } from '../util/cross-read.ts'
import { replayFolder, verifyFolder } from '../util/verify.ts'
import { Violation } from './client.ts'
import { oldName } from './pools.ts'
import type { Space } from './space.ts'
import { poolsNow, type World } from './world.ts'

const DELETION_VECTOR_ENTRIES_MAX = 1_000_000

/** A copy, replayed and flushed, against the clients. The folder itself stays as the kill left it. */
export async function auditCopy(world: World, dataDir: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-audit-'))
  const copy = join(folder, 'data')
  try {
    cpSync(dataDir, copy, { recursive: true })
    await replayFolder(copy)
    await verifyFolder(copy)
    await crossCheck(world, copy)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Every row of a folder with nothing left in its log. Throws Violation, or what `crossRead` throws. */
export async function crossCheck(world: World, dataDir: string): Promise<void> {
  const found = await crossRead(dataDir)
  for (const { poolId, spaces } of poolsNow(world)) {
    const byClient = new Map<string, CrossRow[]>()
    for (const row of found.get(poolId) ?? []) {
      const client = must(row['client'] ?? undefined, 'a client')
      byClient.set(client, [...(byClient.get(client) ?? []), row])
    }
    for (const space of spaces) {
      const why = wrongOf(space, byClient)
      if (why !== undefined) throw new Violation(`cross-read, pool ${poolId}, ${space.name}: ${why}`)
    }
    if (byClient.size > 0) throw new Violation(`cross-read, pool ${poolId}: rows of ${[...byClient.keys()]}`)
  }
  world.tally.crossRead += 1
}

/** Takes the space's rows out of `byClient`; what is wrong with them. */
function wrongOf(space: Space, byClient: Map<string, CrossRow[]>): string | undefined {
  const marks = take(byClient, space.name)
  const states = space.states().map(state => state.join())
  if (!states.includes(marks.join()))
    return `${marks.length} rows, not those of ${states[0]?.split(',').length} or ${states[1]?.split(',').length}`
  return space.old.judge(take(byClient, oldName(space.name)))
}

/** Marks, sorted; each is in the event's own text too, as it was sent. */
function take(byClient: Map<string, CrossRow[]>, client: string): number[] {
  const rows = byClient.get(client) ?? []
  byClient.delete(client)
  const marks = rows.map(row => {
    const sent = JSON.parse(must(row['_service_payload'] ?? undefined, 'a payload')) as Record<
      string,
      unknown
    >
    if (String(sent['mark']) !== row['mark'] || sent['client'] !== client)
      throw new Violation(`cross-read: row ${JSON.stringify(row)} was sent as ${JSON.stringify(sent)}`)
    return Number(row['mark'])
  })
  return marks.sort((a, b) => a - b)
}

/**
 * After a kill right behind the transaction of a swap: how many of the rows that it moved had been updated or deleted
 * since the merge began. Their copies are marked by that transaction.
 */
export async function changedMeanwhile(dataDir: string): Promise<number> {
  const paths = pathsOf(dataDir)
  const folderId = (await readCatalog({ paths, kernel: 'native', isBackup: false })).meta().folderId
  const look = inspectIndex({ disk, folder: paths.index, kernel: 'native' }, folderId)
  if (typeof look === 'string') throw new Violation(`no index after a swap: ${look}`)
  const { index, store, commit } = look
  let changed = 0
  for (const { pool } of index.state().pools)
    store.transact(txn => {
      const records = txn.range(
        poolKey(TAG.deletionVector, pool),
        poolKey(TAG.deletionVector, pool + 1),
        DELETION_VECTOR_ENTRIES_MAX,
      )
      for (const [key, value] of records)
        if (commitOf(key) === commit) changed += decodeDeletionVector(value).length
    })
  index.close()
  return changed
}

/** FORMAT.md of src/index: tag, pool, segment, commit u64. */
function commitOf(key: Uint8Array): number {
  return Number(Buffer.from(key).readBigUInt64BE(9))
}
