/** A process that may write only small files: commits until LMDB refuses, then once more. Prints what it saw. */
import { Unavailable } from '../../src/errors.ts'
import { createIndex } from '../../src/keys/index.ts'
import { buildKeyRun } from '../../src/keys/key-run.ts'
import { openLmdbStore } from '../../src/keys/store-lmdb.ts'
import { tryOpenNativeStore } from '../../src/keys/store-native.ts'
import { must } from '../../src/util/assert.ts'
import { say } from '../../src/util/say.ts'

const [, , kind, folder = ''] = process.argv
const options = { folder, mapBytes: 1024 * 1024 * 1024 }
const store = kind === 'native' ? must(tryOpenNativeStore(options), 'module') : openLmdbStore(options)
const index = createIndex(store, 'here')

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

function seal(segment: number, count: number) {
  const keys = Array.from({ length: count }, (_, row) => ({ key: Buffer.from(`key ${segment} ${row}`), row }))
  const add = { ...EMPTY, segment, rows: count, sequenceFrom: segment, sequenceTo: segment }
  return { pool: 1, add, remove: [], keys: buildKeyRun(keys), sealedSequence: segment }
}

index.commit([seal(1, 10)])
let refused: unknown
try {
  index.commit([seal(2, 100_000)])
} catch (error) {
  refused = error
}
const after = index.state()
const next = index.commit([seal(2, 10)])
index.close()
const unavailable = refused instanceof Unavailable
say(JSON.stringify({ unavailable, code: (refused as Unavailable)?.code, after, commit: next[0]?.commit }))
