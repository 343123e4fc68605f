/** A process that may write only small files: commits until LMDB refuses, then once more. Prints what it saw. */

import { openLmdbStore } from '../../src/index/index-store-lmdb.ts'
import { tryOpenNativeStore } from '../../src/index/index-store-native.ts'
import { createIndex } from '../../src/index/key-index.ts'
import { must } from '../../src/util/assert.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { say } from '../../src/util/say.ts'
import { flush } from './child-flushes.ts'

const [, , kind, folder = ''] = process.argv
const options = { folder, mapBytes: 1024 * 1024 * 1024 }
const store = kind === 'native' ? must(tryOpenNativeStore(options), 'module') : openLmdbStore(options)
const index = createIndex(store, 'here')

index.commit([flush(1, 10)])
let refused: unknown
try {
  index.commit([flush(2, 100_000)])
} catch (error) {
  refused = error
}
const after = index.state()
const next = index.commit([flush(2, 10)])
index.close()
const unavailable = refused instanceof Unavailable
say(JSON.stringify({ unavailable, code: (refused as Unavailable)?.code, after, commit: next[0]?.commit }))
