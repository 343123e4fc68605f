/** Seals for processes of their own: help.ts belongs to vitest. */
import { buildKeyRun } from '../../src/keys/key-run.ts'
import type { SealCommit } from '../../src/keys/protocol.ts'

const EMPTY = {
  bytes: 1,
  checksum: 1,
  planVersion: 1,
  receivedFromUs: 0,
  receivedToUs: 0,
  timestampFromUs: 0,
  timestampToUs: 0,
  tenant: null,
  deletes: 0,
}

/** A seal of pool 1 with `count` new keys. */
export function seal(segment: number, count: number): SealCommit {
  const keys = Array.from({ length: count }, (_, row) => ({ key: Buffer.from(`key ${segment} ${row}`), row }))
  const add = { ...EMPTY, segment, rows: count, sequenceFrom: segment, sequenceTo: segment }
  return { pool: 1, add, remove: [], keys: buildKeyRun(keys), sealedSequence: segment }
}
