/** Flushes for processes of their own: help.ts belongs to vitest. */
import { buildKeyRun } from '../../src/format/key-run.ts'
import type { FlushCommit } from '../../src/index/index-types.ts'

const EMPTY = {
  bytes: 1,
  checksum: 1,
  schemaVersion: 1,
  receivedFromUs: 0,
  receivedToUs: 0,
  timestampFromUs: 0,
  timestampToUs: 0,
  tenant: null,
  deletes: 0,
}

/** A flush of pool 1 with `count` new keys. */
export function flush(segment: number, count: number): FlushCommit {
  const keys = Array.from({ length: count }, (_, row) => ({ key: Buffer.from(`key ${segment} ${row}`), row }))
  const add = { ...EMPTY, segment, rows: count, sequenceFrom: segment, sequenceTo: segment }
  return { pool: 1, add, remove: [], keys: buildKeyRun(keys), flushedSequence: segment }
}
