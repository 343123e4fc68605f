/**
 * A process that may write only small files. It commits until LMDB refuses, and then once more.
 * Prints the results.
 */

import { openLmdbStore } from '../../src/index/index-store-lmdb.ts'
import { tryOpenNativeStore } from '../../src/index/index-store-native.ts'
import { Index } from '../../src/index/key-index.ts'
import { must, Unavailable } from '../../src/util/errors.ts'
import { say } from '../../src/util/say.ts'
import { flushOfNewKeys } from './flushes.ts'

const [, , kind, folder = ''] = process.argv
const options = { folder, mapBytes: 1024 * 1024 * 1024 }
const store = kind === 'native' ? must(tryOpenNativeStore(options), 'module') : openLmdbStore(options)
const index = new Index(store, 'here')

index.commit([flushOfNewKeys(1, 10)])
let refused: unknown
try {
  index.commit([flushOfNewKeys(2, 100_000)])
} catch (error) {
  refused = error
}
const after = index.state()
const next = index.commit([flushOfNewKeys(2, 10)])
index.close()
const unavailable = refused instanceof Unavailable
say(JSON.stringify({ unavailable, code: (refused as Unavailable)?.code, after, commit: next[0]?.commit }))
