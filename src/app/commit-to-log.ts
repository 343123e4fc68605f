/**
 * The way of parsed requests into the log and the memtables.
 *
 *   W-1   A batch is done after the sync that covers its records.
 *   W-13  Rows enter the memtable after their sync returned, in sequence order: syncs return in
 *         that order, and so do the continuations of their promises.
 */
import type { CommitBatch, CommittingPart } from '../api/api-types.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { Commit } from '../log/commit-log.ts'
import { ENTRY_WORDS, type MemtableEntry } from '../store/flush/memtable.ts'
import type { RowStore } from './store.ts'

interface LogDeps {
  readonly catalog: Pick<Catalog, 'schema'>
  readonly commit: Commit
  /** Appends to a pool's memtable; entries of a deleted pool are dropped. */
  append(pool: number, schema: PoolSchema, entries: readonly MemtableEntry[]): void
}

export function commitToLog({ catalog, commit, append }: LogDeps): RowStore {
  const store = async (batch: CommitBatch, onDurable?: () => void): Promise<void> => {
    const { firstSequence, durable } = commit.append(batch.spans, batch.records)
    for (const { requests } of batch.parts)
      for (let word = 0; word < requests.length; word += ENTRY_WORDS)
        requests[word] = requests[word]! + firstSequence
    // Looked up before the sync. `append` drops the rows of a pool that is deleted meanwhile.
    const schemas = batch.parts.map(part => catalog.schema(part.pool, part.version))
    await durable
    onDurable?.()
    for (const [index, part] of batch.parts.entries()) {
      const schema = schemas[index]
      if (schema !== undefined)
        append(part.pool, schema, [{ kind: part.kind, batch: part.batch, requests: part.requests }])
    }
  }
  return {
    boundary: () => commit.boundary(),
    commit: (batch, onDurable) => committedTogether(store(batch, onDurable)),
  }
}

/** A batch of which all is durable together. */
export function committedTogether(done: Promise<void>): readonly CommittingPart[] {
  return [{ rows: undefined, done, stage: 'memtable' }]
}
