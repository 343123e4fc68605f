/**
 * A process that commits flushes one by one, commits a compaction of two of them, and dies at an
 * armed crash point. Prints each answered commit.
 */

import { buildKeyRun } from '../../src/format/key-run.ts'
import { openIndex } from '../../src/index/index-client.ts'
import { say } from '../../src/util/say.ts'

const [, , root = '', crashAt = '', kernel] = process.argv
const { index } = await openIndex({
  folder: `${root}/index`,
  segmentFolder: `${root}/segment`,
  identity: 'here',
  pools: [],
  kernel: kernel === 'js' ? 'js' : 'native',
  crashAt,
  nice: 5,
})
for (let segment = 1; segment <= 5; segment++) {
  const keys = buildKeyRun(
    Array.from({ length: 2000 }, (_, row) => ({ key: Buffer.from(`key${segment * 1000 + row}`), row })),
  )
  const ranges = { receivedFromUs: 0, receivedToUs: 0, timestampFromUs: 0, timestampToUs: 0, tenant: null }
  const numbers = { segment, rows: 2000, bytes: 1, checksum: 1, schemaVersion: 1, deletes: 0 }
  const add = { ...numbers, ...ranges, sequenceFrom: segment, sequenceTo: segment }
  const [committed] = await index.commit([{ pool: 1, add, remove: [], keys, flushedSequence: segment }])
  say(`committed ${committed?.commit}`)
}
// Segments 1 and 2 share 1000 keys, whose later rows are visible. Segment 3 supersedes keys of
// segment 2.
const moved = Array.from({ length: 3000 }, (_, row) => ({ key: Buffer.from(`key${1000 + row}`), row }))
const ranges = { receivedFromUs: 0, receivedToUs: 0, timestampFromUs: 0, timestampToUs: 0, tenant: null }
const add = {
  segment: 6,
  rows: 3000,
  bytes: 1,
  checksum: 1,
  schemaVersion: 1,
  deletes: 0,
  ...ranges,
  sequenceFrom: 1,
  sequenceTo: 2,
}
const compacted = await index.commitCompaction({ pool: 1, add, remove: [1, 2], keys: buildKeyRun(moved) })
say(`compacted ${compacted.commit}`)
await index.stop()
say('stopped')
